"""Against mofapy2: seconds per sweep, and seconds to its own final held-out quality."""

from __future__ import annotations

import contextlib
import io
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from common import Row, report
from data import cll, yeast
from sklearn.metrics import roc_auc_score

from sshiba import SSHIBA, Binary, Priors, Progress, Real
from sshiba.evaluate import binary_log_likelihood, rmse

Views = dict[str, np.ndarray]
N_MASKS = 4  # different tenths of CLL hidden: one tenth of the mutations has some 60 positives only


def is_binary(x: np.ndarray) -> bool:
    return set(np.unique(x[~np.isnan(x)])) <= {0.0, 1.0}


def run_mofa(views: Views, n_components: int, n_iter: int, converge: bool) -> tuple[float, dict[str, np.ndarray]]:
    """Seconds of training, and each view rebuilt (probabilities for binary ones)."""
    from mofapy2.run.entry_point import entry_point

    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        entry = entry_point()
        entry.set_data_options(scale_views=False)
        kinds = ["bernoulli" if is_binary(x) else "gaussian" for x in views.values()]
        entry.set_data_matrix([[x] for x in views.values()], likelihoods=kinds, views_names=list(views))
        entry.set_model_options(factors=n_components, spikeslab_weights=False, ard_weights=True, ard_factors=False)
        mode = "medium" if converge else "slow"
        freq = 5 if converge else 1
        entry.set_train_options(
            iter=n_iter, convergence_mode=mode, dropR2=None, seed=0, quiet=True, startELBO=1, freqELBO=freq
        )
        entry.build()
        began = time.perf_counter()
        entry.run()
        seconds = time.perf_counter() - began
    z = entry.model.nodes["Z"].getExpectations()["E"]
    rebuilt = {}
    for name, w, kind, x in zip(views, entry.model.nodes["W"].getExpectations(), kinds, views.values()):
        y = z @ w["E"].T
        rebuilt[name] = 1 / (1 + np.exp(-y)) if kind == "bernoulli" else y + np.nanmean(x, axis=0)
    return seconds, rebuilt


def our_types(views: Views) -> dict[str, Binary | Real]:
    return {name: Binary() if is_binary(x) else Real() for name, x in views.items()}


def per_sweep(name: str, views: Views, n_components: int, goal: float, quick: bool) -> Row:
    """Plain sweeps of both at the full number of factors, each with its bound."""
    few, many = (2, 12) if quick else (3, 33)
    short, long = (run_mofa(views, n_components, n, False)[0] for n in (few, many))
    theirs = (long - short) / (many - few)
    times: list[float] = []

    def note(progress: Progress) -> None:
        assert progress.n_components == n_components
        times.append(time.perf_counter())

    plain = {"max_iter": 15, "acceleration": None, "prune_tol": 0.0, "keep": "all", "priors": Priors(), "search": None}
    SSHIBA(n_components, our_types(views), random_state=0, callback=note, **plain).fit(views)
    ours = float(np.median(np.diff(times)))
    return Row("mofapy2", f"{name}, K={n_components}: one plain sweep", "mofapy2", theirs, ours, goal)


def hide(x: np.ndarray, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A copy with some observed cells hidden, and which."""
    hidden = ~np.isnan(x) & (rng.random(x.shape) < share)
    return np.where(hidden, np.nan, x), hidden


@dataclass(frozen=True)
class Hidden:
    """Views with 10 % of the cells of a real one and of a binary one hidden; of CLL, the Drugs and the mutations."""

    views: Views
    truth: Views
    cells: Views

    @classmethod
    def draw(cls, views: Views, seed: int, names: tuple[str, str] = ("Drugs", "Mutations")) -> Hidden:
        rng = np.random.default_rng(seed)
        left, cells = dict(views), {}
        for name in names:
            left[name], cells[name] = hide(views[name], 0.1, rng)
        return cls(left, views, cells)

    def quality(self, rebuilt: Views) -> np.ndarray:
        """RMSE of the real cells; AUC of the binary ones, all in one list, and their mean log-likelihood."""
        (real, real_cells), (binary, binary_cells) = self.cells.items()
        known, proba = self.truth[binary][binary_cells], rebuilt[binary][binary_cells]
        error = rmse(self.truth[real][real_cells], rebuilt[real][real_cells])
        return np.array([error, roc_auc_score(known, proba), binary_log_likelihood(known, proba)])

    def ours(
        self, n_components: int, clock: Callable[[], float] = time.perf_counter, **options: object
    ) -> tuple[float, np.ndarray]:
        """Seconds, set-up and all, and quality."""
        types = our_types(self.views)
        real, binary = self.cells
        began = clock()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = SSHIBA(n_components, types, random_state=0, **options).fit(self.views)
        seconds = clock() - began
        found = {real: model.predict(self.views, real, use_target=True)}
        found[binary] = model.predict_proba(self.views, binary, use_target=True)
        return seconds, self.quality(found)


def in_words(quality: np.ndarray) -> str:
    return f"RMSE {quality[0]:.4f}, AUC {quality[1]:.3f}, log-likelihood {quality[2]:.3f}"


def to_quality(n_components: int, quick: bool) -> list[Row]:
    """Our time to mofapy2's held-out quality, then both at convergence; times and quality as means over masks."""
    views = cll()
    if views is None:
        return []
    masks = [Hidden.draw(views, seed) for seed in range(1 if quick else N_MASKS)]
    theirs = []
    for hidden in masks:
        seconds, rebuilt = run_mofa(hidden.views, n_components, 100 if quick else 2000, True)
        theirs.append((seconds, hidden.quality(rebuilt)))
    their_time, wanted = mean_run(theirs)
    # The first number of sweeps that is enough, each a fit of its own:
    for n_sweeps in (50, 130, 2000) if quick else (25, 35, 50, 75, 100, 110, 120, 130, 140, 160, 200, 250, 500, 2000):
        took, found = mean_run([hidden.ours(n_components, max_iter=n_sweeps, search=None) for hidden in masks])
        if found[0] <= wanted[0] and found[1] >= wanted[1]:
            break
    our_time, converged = mean_run([hidden.ours(n_components) for hidden in masks])
    theirs_in_words = f"(theirs {in_words(wanted)}); mean of {len(masks)} masks"
    what = f"CLL, K={n_components}:"
    notes = [f"{n_sweeps} sweeps; {in_words(found)} {theirs_in_words}", f"{in_words(converged)} {theirs_in_words}"]
    return [
        Row("mofapy2", f"{what} to its held-out quality", "mofapy2", their_time, took, 20, notes[0]),
        Row("mofapy2", f"{what} both to convergence", "mofapy2", their_time, our_time, None, notes[1]),
    ]


def mean_run(runs: list[tuple[float, np.ndarray]]) -> tuple[float, np.ndarray]:
    """Mean seconds and mean quality."""
    return float(np.mean([seconds for seconds, _ in runs])), np.mean([quality for _, quality in runs], axis=0)


def main(quick: bool = False) -> list[Row]:
    rows = []
    data = yeast()
    if data is not None:
        rows.append(per_sweep("yeast", data, 100, 30, quick))
    patients = cll()
    if patients is not None:
        rows += [per_sweep("CLL", patients, k, 10, quick) for k in ((25,) if quick else (15, 25))]
        rows += to_quality(25, quick)
    return rows


if __name__ == "__main__":
    report(main(), "mofa")
