"""What is wrong with the data, and what can be done: worded here for Python, and by the command for a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from .wording import LONGEST


class Remedy(StrEnum):
    """What a user can do. The value is said in Python; `cli.terminal.OPTIONS` names the option that does the same."""

    LEAVE_OUT = "leave it out"
    ROW_NAMES = "make it the index"
    MISSING = "set it to NaN or None if it means missing"
    AT_LIMIT = "name the limit: Real(limits={example})"
    ROW_LIMITS = "name a column that has the limit of each row: Real(limits={column: (lower, upper)})"
    READING = "check how the table was read"
    LIMITS = "limits are pairs, (lower, upper)"
    KEEP_LABELS = "if one is a label, make its column a category with .astype('category')"
    NUMBERS = "convert it with pd.to_numeric"
    NO_UNIT = "take off the unit and convert it with pd.to_numeric"
    ONE_UNIT = "write all of them in one"
    MARKS = "name its decimal and thousands marks when it is read"
    DATES = "turn it into numbers with sshiba.date_features"
    DAY_FIRST = "say day_first=True or day_first=False"
    FEWER_LEVELS = "code it in fewer levels"
    LEVELS = "give its levels in their order: Ordinal(levels=[lowest, ..., highest])"
    REAL = "make it Real"
    SPELLINGS = "merge spellings with sshiba.normalise_labels"
    OWN_ENTRY = "give it an entry of its own in the dict of views (a frame alone is split by type)"
    LABELS = "give it a Categorical view of its own"
    ZERO_ONE = "code it as 0 / 1 / True / False / missing"
    OTHER_TYPE = "make it Real or Categorical"
    TWO_COLUMNS = "give real and imaginary parts as two columns"
    INFINITE = "replace them with NaN to treat them as missing"
    FLOATS = "use .astype(float) if digits may be lost"
    ORDER = "say so with views={example}"
    COPY = "drop {example}"
    IF_MISSING = "if it means missing, set it to NaN"
    WRONG_UNIT = "if its unit is wrong, correct the cell"
    IF_REAL = "if it is real, say Real(margin='auto')"
    MARGIN = "Real(margin='auto') may give better predictions"
    ABOVE_ZERO = "keep them above with views={example}"
    COUNTS = "if they count something, say views={example}"
    OTHER_MARGIN = "give it another margin, or limits"
    UNITS = "check the units"
    ONE_EACH = "give one categorical view per column"
    LABEL_TYPES = "convert it, e.g. with .astype(str): labels are text, finite numbers or True / False"
    SEVERAL_VIEWS = "give a dict of views"
    SAME_ROWS = "fill absent rows with NaN, or give DataFrames, which are matched by index"
    SEEN_LABELS = "set such labels to None"
    MORE_FACTORS = "raise n_components"
    RESUME = "resume(views) goes on from it"
    DENSE = "give a dense array, in which NaN means missing, or drop what holds them"
    SPARSE_REAL = "give it as Real"
    AT_MEAN = "take them at their mean with covariates='mean'"
    DEVIATIONS = "use predict(..., return_std=True) for its deviations"
    AS_LABELS = "if they are labels, say so: covariates={name: 'categorical'}"
    SAME_NAMES = "name the rows as in the fit, by their index"
    UNIQUE_ROWS = "make row labels unique, e.g. frame.reset_index(drop=True) in every view"


@dataclass(frozen=True)
class Example:
    """What a remedy is to be done with: in Python, and as the argument of an option."""

    python: str
    shell: str


@dataclass(frozen=True)
class With:
    """A remedy, and what it is to be done with, for words that say {example}."""

    remedy: Remedy
    examples: tuple[Example, ...]

    @classmethod
    def texts(cls, remedy: Remedy, texts: Iterable[str]) -> With:
        """The same text in Python and in a shell."""
        return cls(remedy, tuple(Example(repr(text), text) for text in dict.fromkeys(texts)))


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, and what can be done about it."""

    what: str
    remedies: tuple[Remedy | With, ...] = ()

    def said(self, words: Mapping[Remedy, str]) -> str:
        """In one sentence without its full stop; `words` are used in place of Python's, empty ones are left out."""
        done = (_in_words(remedy, words) for remedy in self.remedies)
        return ": ".join(filter(None, [self.what, ", or ".join(dict.fromkeys(filter(None, done)))]))

    def __str__(self) -> str:
        return self.said({})

    def of(self, whose: str) -> Problem:
        """The same, with whose problem it is."""
        return replace(self, what=f"{whose} {self.what}")


def _in_words(remedy: Remedy | With, words: Mapping[Remedy, str]) -> str:
    """What to do; an option is said once for each example, as a shell takes it."""
    own, examples = (remedy.remedy, remedy.examples) if isinstance(remedy, With) else (remedy, ())
    if own not in words:
        return own.value.replace("{example}", ", ".join(example.python for example in examples if example.python))
    texts = [_as_argument(example.shell) for example in examples if example.shell]
    return re.sub(
        r"(\S+) {example}", lambda found: " ".join(f"{found[1]} {text}" for text in texts) or found[1], words[own]
    )


def _as_argument(text: str) -> str:
    """In quotes where a shell, or a reader of the sentence, would take its end for something else."""
    if len(text) >= LONGEST and "=" not in text:
        return "TEXT"
    return f"'{text}'" if text.endswith(",") and shlex.quote(text) == text else shlex.quote(text)


class AdvisedError(Exception):
    """Something is wrong with the data; all that is wrong is told at once."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(*problems)
        self.problems = problems

    def said(self, words: Mapping[Remedy, str]) -> str:
        """One sentence, with a line for each problem."""
        return ";\n".join(problem.said(words) for problem in self.problems) + "."

    def __str__(self) -> str:
        return self.said({})


class DataError(AdvisedError, ValueError):
    """Values that cannot be used."""


class DataTypeError(AdvisedError, TypeError):
    """Values of a kind that cannot be used."""


class DataWarning(AdvisedError, UserWarning):  # noqa: N818 (a warning)
    """Values that can be used, and perhaps should not."""
