"""Warnings name the user's own line, however many frames of ours and of scikit-learn are between."""

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

from sshiba import SSHIBA
from sshiba.sklearn import SSHIBAImputer, SSHIBATransformer


def skewed() -> pd.DataFrame:
    """Positive numbers, one of them a label that looks like missing, whose gaps are filled below 0."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal(120)
    table = pd.DataFrame({name: np.exp(1.5 * z + 0.5 * rng.standard_normal(120)) for name in "abcd"})
    table["kind"] = np.where(z > 0.5, "none", np.where(z > 0, "x", "y"))
    return table.mask(np.arange(table.size).reshape(table.shape) % 7 == 0)


def fit(table: pd.DataFrame) -> Any:
    return SSHIBA(2, search=None, random_state=0, max_iter=20).fit(table)


def fill(table: pd.DataFrame) -> Any:
    return fit(table).impute(table)


def fill_in_a_pipeline(table: pd.DataFrame) -> Any:
    line = make_pipeline(SSHIBAImputer(n_components=2, max_iter=20).set_output(transform="pandas"))
    return line.fit_transform(table)


def transform(table: pd.DataFrame) -> Any:
    return SSHIBATransformer(n_components=2, search=None, max_iter=20).fit_transform(table)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (fit, "look like missing"),
        (fit, "still rose"),
        (fill, "predicted below 0"),
        (fill_in_a_pipeline, "predicted below 0"),
        (transform, "look like missing"),
    ],
)
def test_a_warning_names_the_line_of_the_caller(act: Callable, words: str) -> None:
    with pytest.warns(UserWarning, match=words) as caught:
        act(skewed())
    told = [one for one in caught if words in str(one.message)]
    assert {one.filename for one in told} == {__file__}
    first = act.__code__.co_firstlineno
    assert all(first < one.lineno <= first + 3 for one in told)


def test_a_warning_in_a_thread_names_the_library() -> None:
    """There is no line of the user in it."""
    table = skewed()
    with warnings.catch_warnings(record=True) as caught, ThreadPoolExecutor(1) as threads:
        warnings.simplefilter("always")
        model = SSHIBA(2, max_iter=20, random_state=0).fit(table)
        threads.submit(model.impute, table).result()
    told = [Path(one.filename) for one in caught if "below 0" in str(one.message)]
    assert len(told) == 1
    assert "sshiba" in told[0].parts
