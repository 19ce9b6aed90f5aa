"""Groups of samples against mofapy2's multi-group model: which factor is active in which group and view, and time.

Data of the kind that both assume: three groups, three views, eight factors, each active in some groups and some views,
and intercepts of each group. A factor counts as active where it explains a hundredth of a view's variance in a group.
"""

from __future__ import annotations

import contextlib
import io
import time
import warnings

import numpy as np

from sshiba import SSHIBA

N_EACH, WIDTH, N_TRUE, MOST = 100, 50, 8, 15
ACTIVE = 0.01
SEEDS = range(5)


def simulate(seed: int, noise: float) -> tuple[list[np.ndarray], np.ndarray, list[np.ndarray], np.ndarray]:
    """Views, groups of the rows, weights, and where each factor is active, (K, groups, views)."""
    rng = np.random.default_rng(seed)
    in_group, in_view = (rng.random((2, N_TRUE, 3)) < 0.5) | (
        rng.permuted(np.tile(np.eye(3)[0], (2, N_TRUE, 1)), axis=2) > 0
    )
    labels = np.repeat(np.arange(3), N_EACH)
    z = rng.standard_normal((len(labels), N_TRUE)) * in_group[:, labels].T
    weights = [rng.standard_normal((WIDTH, N_TRUE)) * in_view[:, m] for m in range(3)]
    shifts = rng.standard_normal((3, 3, WIDTH))
    views = [
        z @ w.T + shifts[m][labels] + noise * rng.standard_normal((len(labels), WIDTH)) for m, w in enumerate(weights)
    ]
    return views, labels, weights, in_group[:, :, None] & in_view[:, None, :]


def ours(views: list[np.ndarray], labels: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Weights, and the share of variance, (K, groups, views)."""
    given = {f"v{m}": x for m, x in enumerate(views)} | {"group": labels.astype(str)}
    model = SSHIBA(MOST, sample_groups="group", search=None, random_state=0).fit(given)
    shares = model.r2_by_group_.to_numpy().reshape(3, model.n_components_ + 1, 3)[:, :-1]
    return [model.weights_[f"v{m}"] for m in range(3)], np.moveaxis(shares, 0, 1)


def theirs(views: list[np.ndarray], labels: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """mofapy2 with its defaults for several groups."""
    from mofapy2.run.entry_point import entry_point

    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        entry = entry_point()
        entry.set_data_options(scale_views=False)
        entry.set_data_matrix([[x[labels == g] for g in range(3)] for x in views], likelihoods=["gaussian"] * 3)
        entry.set_model_options(factors=MOST, spikeslab_weights=False, ard_weights=True, ard_factors=True)
        entry.set_train_options(iter=1000, convergence_mode="medium", dropR2=None, seed=0, quiet=True)
        entry.build()
        entry.run()
        shares = np.stack(entry.model.calculate_variance_explained())  # groups, views, factors
    weights = [w["E"] for w in entry.model.nodes["W"].getExpectations()]
    return weights, np.moveaxis(shares, 2, 0) / (100 if shares.max() > 1.5 else 1)


def judge(
    found: tuple[list[np.ndarray], np.ndarray], weights: list[np.ndarray], truth: np.ndarray
) -> tuple[float, ...]:
    """Share of (factor, group, view) told right, true factors found, and active ones that are none of them."""
    w, shares = found
    active = shares > ACTIVE
    kept = np.flatnonzero(active.any(axis=(1, 2)))
    true_w, found_w = np.concatenate(weights), np.concatenate(w)[:, kept]
    if len(kept) == 0:
        return float((~truth).mean()), 0.0, 0.0
    unit = [x / np.maximum(np.linalg.norm(x, axis=0), 1e-12) for x in (true_w, found_w)]
    likeness = np.abs(unit[0].T @ unit[1])
    right, n_found, used = 0.0, 0, set()
    for k in range(N_TRUE):
        best = int(likeness[k].argmax())
        if likeness[k, best] > 0.8 and best not in used:
            used.add(best)
            n_found += 1
            right += float((active[kept[best]] == truth[k]).mean())
        else:
            right += float((~truth[k]).mean())
    return right / N_TRUE, float(n_found), float(len(kept) - n_found)


def main() -> None:
    print("noise  method    pattern  found  extra  seconds (median)")
    for noise in (1.0, 3.0, 6.0):
        for name, method in (("SSHIBA", ours), ("mofapy2", theirs)):
            rows = []
            for seed in SEEDS:
                views, labels, weights, truth = simulate(seed, noise)
                began = time.process_time()
                found = method(views, labels)
                rows.append((*judge(found, weights, truth), time.process_time() - began))
            pattern, n_found, extra, _ = np.mean(rows, axis=0)
            seconds = np.median([row[-1] for row in rows])
            print(f"{noise:5.1f}  {name:8s} {pattern:8.3f} {n_found:6.1f} {extra:6.1f} {seconds:9.2f}", flush=True)


if __name__ == "__main__":
    main()
