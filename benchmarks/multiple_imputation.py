"""Standard errors after imputation: does the 95 % interval of a regression coefficient hold the true one?

    python benchmarks/multiple_imputation.py [data sets]        (needs statsmodels)

y = 1 + x1 − x2/2 + noise, where x1, x2 and four more columns share three factors. Of y, x1 and x2 some cells are
missing: completely at random, or the more likely the larger a column is that is always seen. A table is completed once
by means, once by a draw, or five times by draws (`impute(n_draws=5)`), and statsmodels regresses y on x1 and x2. The
five regressions are pooled by Rubin's rules: the mean of the estimates; as variance the mean of theirs and 1 + 1/5
times the variance between them; and a t distribution.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Sequence

import numpy as np
from common import OUT, machine
from rich.console import Console
from rich.table import Table
from scipy.stats import t as student
from statsmodels.api import OLS, add_constant

from sshiba import SSHIBA

TRUE = np.array([1.0, 1.0, -0.5])
NAMES = ("intercept", "x1", "x2")
N_DRAWS, LEVEL, SHARE = 5, 0.95, 0.3


def make_table(n: int, rng: np.random.Generator) -> np.ndarray:
    """Columns y, x1, x2, and four that tell of x1 and x2."""
    weights = np.array([[1.0, 0, 0], [0, 1.0, 0], [1, 0, 1], [0, 1, 1], [1, 1, 0], [0.5, -0.5, 1]])
    x = rng.standard_normal((n, 3)) @ weights.T + 0.6 * rng.standard_normal((n, 6))
    y = TRUE[0] + x[:, :2] @ TRUE[1:] + rng.standard_normal(n)
    return np.column_stack([y, x])


def with_holes(table: np.ndarray, at_random: bool, rng: np.random.Generator) -> np.ndarray:
    """A share of y, x1 and x2 missing; if not completely at random, by the last column, of which all is seen."""
    tells = table[:, -1] / table[:, -1].std()
    chance = np.full(len(table), SHARE) if at_random else 2 * SHARE / (1 + np.exp(-2 * tells))
    holes = np.zeros(table.shape, dtype=bool)
    holes[:, :3] = rng.random((len(table), 3)) < chance[:, None]
    return np.where(holes, np.nan, table)


def regress(table: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Estimates, their variances, and degrees of freedom."""
    seen = table[~np.isnan(table[:, :3]).any(axis=1)]
    found = OLS(seen[:, 0], add_constant(seen[:, 1:3])).fit()
    return found.params, found.bse**2, found.df_resid


def pool(fits: Sequence[tuple[np.ndarray, np.ndarray, float]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rubin's rules, with Barnard and Rubin's degrees of freedom."""
    estimates, variances = (np.array([fit[i] for fit in fits]) for i in (0, 1))
    m, whole = len(fits), fits[0][2]
    within, between = variances.mean(axis=0), estimates.var(axis=0, ddof=1)
    total = within + (1 + 1 / m) * between
    lost = (1 + 1 / m) * between / total
    old = (m - 1) / np.maximum(lost, 1e-12) ** 2
    seen = (whole + 1) / (whole + 3) * whole * (1 - lost)
    return estimates.mean(axis=0), total, old * seen / (old + seen)


def main(n_sets: int) -> None:
    rows = []
    for n in (100, 300):
        for at_random in (True, False):
            covers: dict[str, list[np.ndarray]] = {}
            errors: dict[str, list[np.ndarray]] = {}
            widths: dict[str, list[np.ndarray]] = {}
            for seed in range(n_sets):
                rng = np.random.default_rng([n, at_random, seed])
                table = make_table(n, rng)
                holed = with_holes(table, at_random, rng)
                model = SSHIBA(random_state=seed).fit({"table": holed})
                draws = model.impute({"table": holed}, n_draws=N_DRAWS, random_state=seed)
                drawn = [regress(draw["table"]) for draw in draws]
                ways = {
                    "nothing missing": regress(table),
                    "complete rows": regress(holed),
                    "means, once": regress(model.impute({"table": holed})["table"]),
                    "a draw, once": drawn[0],
                    "five draws, pooled": pool(drawn),
                }
                for way, (estimate, variance, df) in ways.items():
                    half = student.ppf((1 + LEVEL) / 2, df) * np.sqrt(variance)
                    covers.setdefault(way, []).append(np.abs(estimate - TRUE) <= half)
                    errors.setdefault(way, []).append(estimate - TRUE)
                    widths.setdefault(way, []).append(2 * half)
            what = "completely at random" if at_random else "at random given a column"
            for way in covers:
                held, bias, width = (np.mean(part[way], axis=0) for part in (covers, errors, widths))
                rmse = np.sqrt(np.mean(np.square(errors[way]), axis=0))
                figures = {"coverage": held, "bias": bias, "rmse": rmse, "width": width}
                rows.append({"rows": n, "missing": what, "way": way} | {k: v.tolist() for k, v in figures.items()})
    show(rows, n_sets)


def show(rows: list[dict], n_sets: int) -> None:
    title = f"{n_sets} data sets each, 95 % intervals of {', '.join(NAMES)}; {100 * SHARE:.0f} % of y, x1, x2 missing"
    table = Table("rows", "missing", "completed by", "coverage, %", "bias", "width", title=title)
    for row in rows:
        held = " / ".join(f"{100 * share:.1f}" for share in row["coverage"])
        bias, width = (" / ".join(f"{value:.3f}" for value in row[key]) for key in ("bias", "width"))
        table.add_row(str(row["rows"]), row["missing"], row["way"], held, bias, width)
    Console(width=140).print(table)
    OUT.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine(), "data sets": n_sets, "rows": rows}
    (OUT / "multiple_imputation.json").write_text(json.dumps(content, indent=1))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
