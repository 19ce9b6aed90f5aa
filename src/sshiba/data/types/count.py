"""Count views: columns of whole numbers of 0 or more."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ...core.coded import CodedView, shrink_mask
from ...core.likelihoods import Likelihood, Poisson
from ...core.scratch import empty_like_kept
from ...core.sparse_rows import CentredSparse, rows_of
from ..advice import Remedy
from ..cells import TEXT_IN_NEW_ROWS, TEXT_IN_TRAINING, observed_mask, read_numbers, refuse_cells, standardise
from ..coding import Coding, plain_names, unit_coding
from ..learned import NumberSummary
from ..sparse_tables import SparseTable, refuse_odd, refuse_stored, summarise
from ..wording import percent, quoted
from .number_checks import refuse_empty, warn_constant
from .view import View

logger = logging.getLogger("sshiba")

LARGE_SHARE = 0.3  # of a column among all that is counted
LEAST_TOTAL = 0.5  # what a column of zeros is taken to add up to
LARGEST = 10**9  # count: of larger ones the terms of the bound, some t log t, would leave no digits for what is fitted
NO_COUNTS = (Remedy.REAL, Remedy.MISSING)


@dataclass(frozen=True)
class Count(View):
    """Columns of whole numbers of 0 or more that count something: words, reads, cells, events.

    A cell is Poisson with a log-normal rate: log of the mean of its column, plus log of the size of its row, plus what
    factors and noise say. So predictions are never negative, and draws are whole numbers. Counts go up to a billion.

    Parameters
    ----------
    select_features, groups, weight
        As in `Real`; the weight may be above 1.
    noise : "view" or "feature"
        One precision of the log rate around the factors for the view, or one per column.
    size : bool
        Whether rows differ in size, as documents or libraries of reads do. The size of a row is the total of its
        observed cells over what the means of the columns predict for them; it is an offset, so that factors describe
        the composition of rows. A row without observed cells has the size 1. With a few columns, or where one column
        holds most of the counts, predictions are overconfident: use False there, and the size becomes a factor. A
        single column has no sizes.
    """

    noise: str = "view"
    size: bool = True

    has_probabilities = False
    mofa_likelihood = "poisson"

    def likelihood(self, coding: Coding) -> Likelihood:
        return Poisson(tuple(coding.centre.tolist()), self.size and coding.width > 1)

    @property
    def noise_model(self) -> float | str:
        return self.noise

    @classmethod
    def recognise(cls, frame: pd.DataFrame) -> str | None:
        """Never: whole numbers may be codes, grades or years as well."""
        return None

    def check_options(self, name: str, n_features: int) -> None:
        super().check_options(name, n_features)
        if self.noise not in ("feature", "view"):
            raise ValueError(f"view {name!r}: noise must be 'feature' or 'view', not {self.noise!r}.")
        if not isinstance(self.size, bool):
            raise ValueError(f"view {name!r}: size must be True or False, not {self.size!r}.")

    def learn(self, frame: pd.DataFrame, name: str) -> NumberSummary:
        return NumberSummary.of(plain_names(frame.columns), self._read(frame, name, TEXT_IN_TRAINING))

    def make_coding(self, learned: NumberSummary, name: str) -> Coding:
        """The offset of a column is the log of its mean; one of zeros only is taken to have half a count in all."""
        refuse_empty(learned, name)
        warn_constant(learned, name, learned.constant)
        self._tell_large(learned, name)
        log_mean = np.log(np.maximum(learned.mean, LEAST_TOTAL / learned.n))
        return replace(unit_coding(learned.features, learned.n), centre=log_mean)

    def _tell_large(self, learned: NumberSummary, name: str) -> None:
        """Where one column is much of what tells the size of rows."""
        shares = learned.mean / max(learned.mean.sum(), np.finfo(float).tiny)
        largest = int(np.argmax(shares))
        if self.size and len(shares) > 1 and shares[largest] > LARGE_SHARE:
            whose = f"view {name!r}: column {quoted(learned.features[largest])}"
            what = f"{whose} holds {percent(shares[largest])} of all counts, and so decides the size of its rows"
            logger.info("%s; Count(size=False) leaves sizes to the factors", what)

    def encode(self, frame: pd.DataFrame, name: str, coding: Coding, dtype: Any) -> CodedView:
        values = self._read(frame, name, TEXT_IN_NEW_ROWS)
        target = standardise(values, np.zeros(values.shape[1]), np.ones(values.shape[1]), dtype)
        return CodedView(target, shrink_mask(observed_mask(values)))

    def without_sparse(self, value: Any, name: str) -> Any:
        return value

    def learn_sparse(self, table: SparseTable, name: str) -> NumberSummary:
        self._check_stored(table, name)
        return summarise(table, plain_names(table.columns))

    def encode_sparse(self, table: SparseTable, name: str, coding: Coding, dtype: Any) -> CodedView:
        self._check_stored(table, name)
        rows = table.matrix.tocsr()
        data = empty_like_kept(rows.data, rows.data.shape, dtype)
        data[...] = rows.data
        matrix = rows_of(data, rows.indices, rows.indptr, table.shape[1])
        return CodedView(CentredSparse(matrix, np.zeros(table.shape[1])), None)

    def _check_stored(self, table: SparseTable, name: str) -> None:
        refuse_odd(table, name, LARGEST)
        refuse_stored(table, name, lambda cells, _: cells < 0, "negative", *NO_COUNTS)
        refuse_stored(table, name, lambda cells, _: np.floor(cells) != cells, "fractional", *NO_COUNTS)

    def _read(self, frame: pd.DataFrame, name: str, text_remedies: tuple[Remedy, ...]) -> np.ndarray:
        values = read_numbers(frame, name, text_remedies)
        refuse_cells(frame, name, values, np.isinf, "infinite", Remedy.INFINITE)
        refuse_cells(frame, name, values, lambda cells: cells < 0, "negative", *NO_COUNTS)
        refuse_cells(frame, name, values, lambda cells: cells % 1 > 0, "fractional", *NO_COUNTS)
        too_large = f"too large (beyond {LARGEST:.0g})"
        refuse_cells(frame, name, values, lambda cells: cells > LARGEST, too_large, Remedy.UNITS)
        return values

    def decode(self, values: np.ndarray, coding: Coding) -> np.ndarray:
        return values.astype(np.float64)
