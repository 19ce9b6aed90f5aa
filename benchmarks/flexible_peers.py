"""Against MOFA-FLEX and MuVI, which fit by stochastic gradients: seconds to their own final held-out quality.

    pip install torch mofaflex muvi 'pyro-ppl==1.9.1'
    SSHIBA_DATA=... python benchmarks/flexible_peers.py [--quick] [--one-thread] [--masks=0,1] [mofaflex muvi yeast CLL]

A CPU build of PyTorch is enough. MuVI 0.2.2 cannot be imported beside pyro-ppl 1.9.2. With `--one-thread` each side
has one thread and processor seconds count, for a machine that others use too; else seconds on the clock, all cores.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from common import Row, report
from data import cll, yeast
from mofa import Hidden, Views, in_words, is_binary, mean_run
from scipy.special import expit
from threadpoolctl import threadpool_limits

Train = Callable[[Views, int], Views]
Run = tuple[float, np.ndarray]
SWEEPS = (5, 10, 15, 20, 25, 35, 50, 75, 100, 200, 2000)
CLL_TUTORIAL = ({"weight_prior": "SnS", "init_factors": "pca"}, {"lr": 0.01, "early_stopper_patience": 500})
ONE_THREAD = "--one-thread" in sys.argv
clock = time.process_time if ONE_THREAD else time.perf_counter


def train_mofaflex(views: Views, n_components: int) -> Views:
    """CLL as in its tutorial (spike and slab, a start from PCA, faster, more patient), all else with its defaults."""
    import pandas as pd
    from anndata import AnnData
    from mofaflex import MOFAFLEX, DataOptions, ModelOptions, TrainingOptions
    from mudata import MuData

    tables = {}
    for name, x in views.items():
        rows = np.flatnonzero(~np.isnan(x).all(axis=1))  # it wants rows without any value left out
        features = pd.DataFrame(index=[f"{name} {i}" for i in range(x.shape[1])])
        tables[name] = AnnData(x[rows], obs=pd.DataFrame(index=rows.astype(str)), var=features)
    kinds = {name: "Bernoulli" if is_binary(x) else "Normal" for name, x in views.items()}
    model_options, training = ({}, {}) if "Drugs" not in views else CLL_TUTORIAL
    model = MOFAFLEX(
        MuData(tables),
        DataOptions(plot_data_overview=False, remove_constant_features=False),
        ModelOptions(n_factors=n_components, likelihoods=kinds, **model_options),
        TrainingOptions(device="cpu", seed=0, save_path=False, **training),
    )
    (factors,) = model.get_factors().values()
    z = factors.loc[[str(row) for row in range(len(factors))]].to_numpy()
    return {name: rebuild(z @ w, views[name]) for name, w in model.get_weights("numpy").items()}


def train_muvi(views: Views, n_components: int) -> Views:
    """With its defaults: horseshoe, learning rate 0.005, at least 1,000 epochs."""
    from muvi import MuVI

    kinds = {name: "bernoulli" if is_binary(x) else "normal" for name, x in views.items()}
    data = {name: x.astype(np.float32) for name, x in views.items()}
    model = MuVI(data, n_factors=n_components, view_names=list(views), likelihoods=kinds, device="cpu")
    model.fit(verbose=False, seed=0)
    z, weights = model.get_factor_scores(), model.get_factor_loadings()
    return {name: rebuild(z @ weights[name], x) for name, x in views.items()}


def rebuild(y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Both peers take a binary view as logits, centre each feature of a real one, and divide the view by one number."""
    centre = np.nanmean(x, axis=0)
    return expit(y) if is_binary(x) else y * np.nanstd(x - centre) + centre


PEERS: dict[str, Train] = {"mofaflex": train_mofaflex, "muvi": train_muvi}


@contextlib.contextmanager
def silence() -> Iterator[None]:
    nowhere = io.StringIO()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def theirs(train: Train, hidden: Hidden, n_components: int) -> Run:
    """Seconds, set-up and all, and quality."""
    with silence():
        began = clock()
        rebuilt = train(hidden.views, n_components)
        return clock() - began, hidden.quality(rebuilt)


def compare(what: str, peer: str, masks: Sequence[Hidden], n_components: int) -> list[Row]:
    """Each mask goes to the peer, then at once to us. Times and quality are means over the masks."""
    runs = [(theirs(PEERS[peer], hidden, n_components), hidden.ours(n_components, clock)) for hidden in masks]
    their_time, wanted = mean_run([run for run, _ in runs])
    our_time, found = mean_run([run for _, run in runs])
    what = f"{what}, K={n_components}"
    note = f"{in_words(found)} (theirs {in_words(wanted)}); mean of {len(masks)} mask(s)"
    rows = [Row("flexible", f"{what}: both to convergence", peer, their_time, our_time, None, note)]
    missing = {"RMSE", "AUC"}
    for n_sweeps in SWEEPS:  # each a fit of its own
        took, found = mean_run([hidden.ours(n_components, clock, max_iter=n_sweeps, search=None) for hidden in masks])
        reached = {"RMSE": found[0] <= wanted[0], "AUC": found[1] >= wanted[1]}
        both = all(reached.values())
        now = ["RMSE and AUC"] if both else [which for which in sorted(missing) if reached[which]]
        note = f"{n_sweeps} sweeps; {in_words(found)}"
        rows += [Row("flexible", f"{what}: to its {which}", peer, their_time, took, None, note) for which in now]
        missing -= {which for which, enough in reached.items() if enough}
        if both:
            break
    rows[0].note += "".join(f"; its {which} never reached" for which in sorted(missing))
    return rows


def is_there(peer: str) -> bool:
    try:
        with silence():
            importlib.import_module(peer)
            import torch
    except ImportError as error:
        print(f"{peer}: left out, {error}. The head of benchmarks/flexible_peers.py says how to install it.")
        return False
    if ONE_THREAD:
        torch.set_num_threads(1)
    return True


def main(quick: bool = False) -> list[Row]:
    words = {word for word in sys.argv[1:] if not word.startswith("--")}
    asked = [word.removeprefix("--masks=") for word in sys.argv if word.startswith("--masks=")]
    seeds = [int(seed) for seed in (asked or ["0" if quick else "0,1"])[0].split(",")]
    problems = [("yeast", yeast(), ("features", "labels"), 40), ("CLL", cll(), ("Drugs", "Mutations"), 25)]
    rows: list[Row] = []
    for peer in PEERS:
        if (words & set(PEERS) and peer not in words) or not is_there(peer):
            continue
        for what, views, names, n_components in problems[:1] if quick else problems:
            if views is None or (words & {"yeast", "CLL"} and what not in words):
                continue
            floats = {name: x.astype(float) for name, x in views.items()}
            masks = [Hidden.draw(floats, seed, names) for seed in seeds]
            with threadpool_limits(1 if ONE_THREAD else None):
                rows += compare(what, peer, masks, n_components)
    return rows


if __name__ == "__main__":
    report(main("--quick" in sys.argv), "flexible_peers")
