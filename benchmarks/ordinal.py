"""Ordered levels against gcimpute's Gaussian copula: the drug-use table, cells hidden at random, the same masks.

The error is gcimpute's own measure, SMAE: of each column the absolute error over that of the median, averaged over the
19 columns of levels (but those whose hidden cells are all the median). gcimpute is not installed with the benchmarks:
pip install gcimpute==0.0.4.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from common import Row, report

from sshiba import SSHIBA, Ordinal, Real
from sshiba.evaluate import reliability

FIRST = 12  # columns before it are numbers


def smae(found: np.ndarray, whole: np.ndarray, shown: np.ndarray) -> float:
    hidden, median = np.isnan(shown), np.nanmedian(shown, axis=0)
    ratios = []
    for d in range(FIRST, whole.shape[1]):
        truth = whole[hidden[:, d], d]
        usual = np.abs(truth - median[d]).sum()
        if usual > 0:
            ratios.append(np.abs(found[hidden[:, d], d] - truth).sum() / usual)
    return float(np.mean(ratios))


def ours(shown: np.ndarray, whole: np.ndarray) -> tuple[float, float, dict[str, float]]:
    """Error, seconds, and how the probabilities of levels kept their promise."""
    views = {"numbers": shown[:, :FIRST], "use": shown[:, FIRST:]}
    began = time.perf_counter()
    model = SSHIBA(views={"numbers": Real(), "use": Ordinal()}, random_state=0).fit(views)
    filled = model.impute(views)
    took = time.perf_counter() - began
    happened, promised, chances = [], [], []
    for d, p in model.predict_proba(views, "use", use_target=True).items():
        rows = np.isnan(shown[:, FIRST + d])
        truth = whole[rows, FIRST + d][:, None] == model.levels_["use"][d]
        happened.append(truth.ravel())
        promised.append(p[rows].ravel())
        chances.append(p[rows][truth])
    table = reliability(np.concatenate(happened), np.concatenate(promised))
    gap = np.average(np.abs(table["predicted"] - table["observed"]), weights=table["n"])
    extra = {"factors": model.n_components_, "calibration": float(gap)}
    extra["log_likelihood"] = float(np.log(np.concatenate(chances)).mean())
    return smae(np.hstack([filled["numbers"], filled["use"]]), whole, shown), took, extra


def peer(shown: np.ndarray, whole: np.ndarray) -> tuple[float, float]:
    """gcimpute with the types that it finds, which serve it better than being told (tens of percent of its error)."""
    vars(np)["round_"] = np.round  # which it needs, and NumPy 2 no longer has
    from gcimpute.gaussian_copula import GaussianCopula

    began = time.perf_counter()
    found = np.asarray(GaussianCopula().fit_transform(X=shown))
    return smae(found, whole, shown), time.perf_counter() - began


def main(quick: bool = False) -> list[Row]:
    """A row for each share of hidden cells; none without the data, which SSHIBA_DATA names the folder of."""
    if "SSHIBA_DATA" not in os.environ:
        return []
    with np.load(Path(os.environ["SSHIBA_DATA"], "uci_ordinal.npz")) as file:
        whole = file["drug_X"]
    rows = []
    for share in (0.1, 0.3):
        errors, seconds, extras = [], [], []
        for seed in range(1 if quick else 3):
            shown = np.where(np.random.default_rng(seed).random(whole.shape) < share, np.nan, whole)
            error, took, extra = ours(shown, whole)
            theirs, peer_took = peer(shown, whole)
            errors.append((error, theirs))
            seconds.append((took, peer_took))
            extras.append(extra)
        (error, theirs), (took, peer_took) = np.mean(errors, axis=0), np.median(seconds, axis=0)
        extra = {name: float(np.mean([one[name] for one in extras])) for name in extras[0]}
        note = f"SMAE {error:.3f}, gcimpute {theirs:.3f}; calibration error of levels {extra['calibration']:.3f}"
        extra |= {"smae": error, "peer_smae": theirs, "masks": len(errors)}
        what = f"drug use, {100 * share:.0f} % hidden"
        rows.append(Row("ordinal", what, "gcimpute", peer_took, took, 1, note, extra))
    return rows


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report(main("--quick" in sys.argv), "ordinal")
