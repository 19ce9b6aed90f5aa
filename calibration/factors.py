"""Are there as many factors as were put in, in the views where they are; and is what users read of them right?

python -m calibration.factors --seed 3
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import gamma, norm

from sshiba import SSHIBA
from sshiba.data.wording import percent
from torture.runner import Suite

from .fitting import fit, quiet, show
from .simulated import SHARES, VIEWS, KnownFactors, known_factors, pure_noise

# Sets in which all factors explain the same share of their views, and sets in which each has a share of its own.
KINDS = (*((share,) for share in SHARES), SHARES)
WIDTHS = {level: float(norm.ppf((1 + level) / 2)) for level in (0.5, 0.9)}


def in_words(shares: tuple[float, ...]) -> str:
    return percent(shares[0]) if len(shares) == 1 else "mixed"


def case(seed: int) -> str:
    """The default fit of one set of data."""
    rng = np.random.default_rng([23, 1, seed])
    shares = KINDS[seed % len(KINDS)]
    truth = known_factors(rng, shares)
    model = fit(truth.views, random_state=seed)
    found = sorted(model.active_.to_numpy().tolist())
    said: dict[str, Any] = {"kind": in_words(shares), "put in": len(truth.active), "found": model.n_components_}
    said["keep"] = model.fitted_.choice.keep
    said["number"] = model.n_components_ == len(truth.active)
    said["views"] = said["number"] and found == sorted(truth.active.tolist())
    if said["views"]:
        said["read"] = what_is_read(model, truth)
    return json.dumps(said)


def noise_case(seed: int) -> str:
    model = fit(pure_noise(np.random.default_rng([23, 2, seed])), random_state=seed)
    return json.dumps({"found": model.n_components_, "keep": model.fitted_.choice.keep})


def what_is_read(model: SSHIBA, truth: KnownFactors) -> dict[str, Any]:
    """Of each quantity how many there are, and how many lie within central intervals, by level.

    Only factors whose views no other factor of the set has: two with the same views may be turned into each other.
    """
    k = len(truth.z.T)
    along = np.corrcoef(model.factors_.T, truth.z.T)[:k, k:]
    _, true = linear_sum_assignment(-np.abs(along))
    alone = [i for i in range(k) if (truth.active == truth.active[true[i]]).all(axis=1).sum() == 1]
    sign = np.sign(along[np.arange(k), true])
    errors: dict[str, list[np.ndarray]] = {"factors": [], "weights": []}
    for i in alone:
        errors["factors"].append((sign[i] * model.factors_[:, i] - truth.z[:, true[i]]) / model.factors_std_[:, i])
        for m, view in enumerate(VIEWS):
            if truth.active[true[i], m]:
                off = sign[i] * model.weights_[view][:, i] - truth.weights[view][:, true[i]]
                errors["weights"].append(off / model.weights_std_[view][:, i])
    read = {name: held(np.concatenate(parts)) for name, parts in errors.items() if parts}
    return {**read, "noise": noise_held(model, truth), "explained": explained(model, truth)}


def held(errors: np.ndarray) -> dict[str, Any]:
    """Errors in standard deviations."""
    inside = {str(level): int(np.sum(np.abs(errors) < width)) for level, width in WIDTHS.items()}
    return {"n": len(errors), **inside}


def noise_held(model: SSHIBA, truth: KnownFactors) -> dict[str, Any]:
    """The rank of the true noise precision in q(tau), turned into errors of a normal distribution."""
    ranks = []
    for place, view in enumerate(VIEWS):
        tau = model.fitted_.posterior.views[place].tau
        scale = model.fitted_.schema.codings[view].scale
        ranks.append(gamma.cdf((scale / truth.noise_std[view]) ** 2, tau.shape, scale=1 / tau.rate))
    return held(norm.ppf(np.clip(np.concatenate(ranks), 1e-12, 1 - 1e-12)))


def explained(model: SSHIBA, truth: KnownFactors) -> dict[str, float]:
    """How far `r2_` of all factors is from the share that the true factors have of each view."""
    off = []
    for view, x in truth.views.items():
        signal = (truth.z @ truth.weights[view].T).var(axis=0).sum()
        off.append(float(model.r2_.loc["all", view] - signal / x.var(axis=0).sum()))
    return {"n": len(off), "sum": float(np.sum(off)), "squares": float(np.sum(np.square(off)))}


SUITE = Suite("factors", case, 200, quiet, seconds=300)
NOISE = Suite("noise", noise_case, 200, quiet, seconds=300)  # pure noise

if __name__ == "__main__":
    show(SUITE)
