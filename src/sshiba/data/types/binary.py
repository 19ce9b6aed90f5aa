"""Binary views: several yes/no columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ...core.coded import CodedView, shrink_mask
from ...core.likelihoods import Likelihood, Logistic, Threshold
from ..advice import Remedy
from ..cells import not_zero_one, observed_mask, read_numbers, refuse_cells, standardise
from ..coding import Coding, plain_names, unit_coding
from ..learned import NumberSummary, YesNoSummary
from ..markers import is_text
from ..sparse_tables import dense_if_small
from ..spellings import holds_yes_no, says_yes_no, text_counts, word_pair, words_to_numbers
from ..wording import quoted
from .labelled import LabelledView
from .number_checks import refuse_empty, warn_constant
from .view import is_positive


@dataclass(frozen=True)
class Binary(LabelledView):
    """Several yes/no columns (0 / 1 / True / False / missing, or words such as yes / no, ja / nein, true / false).

    Parameters
    ----------
    select_features, groups, weight
        As in `Real`; the weight may be above 1.
    link : "probit" or "logit"
        How p(yes) follows from the latent x: yes where x is above 0, or with probability σ(x), as in the paper.
    noise : float or "learned"
        Precision of the latent x around the factors: a fixed number, or (logit only) learned as in the paper, where it
        is hardly identified beside the scale of x.
    unseen : "missing" or "error"
        How a word that means neither yes nor no is read, in a column of words: as missing, with a warning, or refused.
    """

    link: str = "probit"
    noise: float | str = 1.0

    mofa_likelihood = "bernoulli"

    def likelihood(self, coding: Coding) -> Likelihood:
        return Logistic() if self.link == "logit" else Threshold()

    @property
    def noise_model(self) -> float | str:
        return "view" if self.noise == "learned" else self.noise

    @classmethod
    def recognise(cls, frame: pd.DataFrame) -> str | None:
        return "only 0 / 1 / True / False / yes / no" if holds_yes_no(frame) else None

    def check_options(self, name: str, n_features: int) -> None:
        super().check_options(name, n_features)
        if self.link not in ("probit", "logit"):
            raise ValueError(f"view {name!r}: link must be 'probit' or 'logit', not {self.link!r}.")
        if self.noise == "learned" and self.link == "probit":
            raise ValueError(
                f"view {name!r}: with a probit noise is a number, the unit of x; link='logit' can learn it."
            )
        if self.noise != "learned" and not is_positive(self.noise):
            raise ValueError(f"view {name!r}: noise must be a positive number or 'learned', not {self.noise!r}.")

    def without_sparse(self, value: Any, name: str) -> Any:
        return dense_if_small(value, name, type(self).__name__)

    def learn(self, frame: pd.DataFrame, name: str) -> YesNoSummary:
        numbers = NumberSummary.of(plain_names(frame.columns), self._read(frame, name))
        texts = {place: text_counts(frame.iloc[:, place]) for place, d in enumerate(frame.dtypes) if is_text(d)}
        return YesNoSummary(numbers, texts)

    def make_coding(self, learned: YesNoSummary, name: str) -> Coding:
        numbers = learned.numbers
        refuse_empty(numbers, name)
        warn_constant(numbers, name, (numbers.mean == 0) | (numbers.mean == 1))
        pairs = {place: word_pair(counts) for place, counts in learned.texts.items() if counts}
        words = tuple(pairs.get(place) for place in range(len(numbers.features))) if pairs else ()
        return replace(unit_coding(numbers.features, numbers.n), words=words)

    def encode(self, frame: pd.DataFrame, name: str, coding: Coding, dtype: Any) -> CodedView:
        values = self._read(self._without_unseen(frame, name, coding), name)
        target = standardise(values, np.zeros(values.shape[1]), np.ones(values.shape[1]), dtype)
        return CodedView(target, shrink_mask(observed_mask(values)))

    def _without_unseen(self, frame: pd.DataFrame, name: str, coding: Coding) -> pd.DataFrame:
        """The frame with words missing that say neither yes nor no, in columns that held words in training."""
        found = frame.copy(deep=False)
        for place, pair in enumerate(coding.words):
            if pair is not None:
                column = frame.iloc[:, place].astype(object)
                strange = np.array([isinstance(cell, str) and not says_yes_no(cell) for cell in column], dtype=bool)
                whose = f"view {name!r}, column {quoted(frame.columns[place])}"
                self.tell_unseen(column, strange, pair, whose)
                found.isetitem(place, column.where(~strange, None).array)
        return found

    def _read(self, frame: pd.DataFrame, name: str) -> np.ndarray:
        values = read_numbers(words_to_numbers(frame), name, (Remedy.ZERO_ONE, Remedy.LABELS))
        refuse_cells(frame, name, values, not_zero_one, "non-binary", Remedy.ZERO_ONE, Remedy.OTHER_TYPE)
        return values

    def decode(self, values: np.ndarray, coding: Coding) -> np.ndarray:
        numbers = values.astype(np.int64)
        if not coding.words:
            return numbers
        columns = [
            column if pair is None else np.array(pair, object)[column] for column, pair in zip(numbers.T, coding.words)
        ]
        return np.stack([column.astype(object) for column in columns], axis=1)
