"""Progress bars: at once, full at the end, and with the same numbers as the fit; short reprs of what is returned."""

import io

import numpy as np
import pytest
from rich.console import Console

from sshiba import SSHIBA, Progress, tune
from sshiba.datasets import Dataset
from sshiba.evaluate import check
from sshiba.fitting import progress_bar
from sshiba.fitting.progress_bar import FitBar, in_time


def console(terminal: bool = True) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=160)


def test_it_starts_at_once_and_ends_full() -> None:
    screen = console()
    with FitBar(1, 1000, console=screen) as bar:
        bar.bar.refresh()
        assert "preparing the first sweep" in screen.file.getvalue()
        bar(Progress(30, -1234.5, 0.1, 7, 3.0))
        assert bar.bar.tasks[0].percentage == pytest.approx(3.0)
        bar.finish(141, -1200.0, 6)
    assert bar.bar.tasks[0].percentage == 100
    assert "nan" not in screen.file.getvalue()
    assert "sweep 141, bound -1,200.0, 6 factors" in screen.file.getvalue()


def test_where_sweeps_are_expected_the_time_left_is_told() -> None:
    bar = FitBar(1, 1000, console=console(), expected=40)
    bar(Progress(10, -1.0, 0.1, 7, 3.0))
    assert "s left" in bar.bar.tasks[0].fields["words"]
    bar(Progress(60, -1.0, 0.1, 7, 3.0))
    assert "left" not in bar.bar.tasks[0].fields["words"]
    assert bar.bar.tasks[0].percentage < 100
    assert [in_time(seconds) for seconds in (0.1, 45, 118)] == ["about 1 s", "about 45 s", "about 2 min"]


def test_nothing_is_left_where_it_ended_before_its_time() -> None:
    with FitBar(1, 1000, console=console(), expected=40) as bar:
        bar(Progress(10, -1.0, 0.1, 7, 3.0))
    assert bar.bar.tasks[0].percentage == 100
    assert bar.bar.tasks[0].fields["words"] == "sweep 10, bound -1.0, 7 factors"


def test_an_interrupted_bar_is_not_full() -> None:
    bar = FitBar(1, 100, console=console())
    bar(Progress(10, -1.0, 0.1, 7, 3.0))
    bar.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert bar.bar.tasks[0].percentage == 10


def test_bar_path_and_fit_count_the_same_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of trials of other numbers of factors, too."""
    screen, made = console(), []

    class Watched(FitBar):
        def __init__(self, *given: object, **options: object) -> None:
            super().__init__(*given, **{**options, "console": screen})
            made.append(self)

    monkeypatch.setattr("sshiba.fitted.training.FitBar", Watched)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 8)) + rng.standard_normal((60, 8))
    seen: list[int] = []
    model = SSHIBA(5, random_state=0, search=None, verbose=1, callback=lambda p: seen.append(p.sweep)).fit({"x": x})
    assert len(seen) < model.n_iter_  # there were trials
    assert made[-1].bar.tasks[0].completed == model.n_iter_ == len(model.elbo_path_)
    assert f"sweep {model.n_iter_}, bound {model.elbo_:,.1f}" in screen.file.getvalue()
    assert model.elbo_path_[-1] == model.elbo_


def test_a_log_has_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_bar, "LOG_SECONDS", 0.0)
    log = console(terminal=False)
    with FitBar(3, 100, console=log) as bar:
        bar(Progress(10, -1.0, 0.1, 7, 3.0, restart=1))
    # Earlier versions of rich end with an empty line.
    assert log.file.getvalue().rstrip("\n") == "restart 2 of 3: sweep 10, bound -1.0, 7 factors, 3 s"


def test_reprs_are_short() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 1)) @ rng.standard_normal((1, 4)) + 0.5 * rng.standard_normal((50, 4))
    model = SSHIBA(2, random_state=0, search=None, max_iter=30)
    found = check(model, {"x": x})["x"]
    assert repr(found).startswith(f"Check(Real, {found.n_hidden} hidden cells: rmse ")
    tuned = tune(model, {"x": x}, {"n_components": [1, 2]}, "x", hide="cells", n_folds=2)
    assert repr(tuned).startswith(f"Tuned(n_components={tuned.options['n_components']}: score ")
    assert repr(tuned).endswith("best of 2)")
    assert repr(Dataset({"x": x, "y": x[:, 0]}, source="us")) == "Dataset(x 50 x 4, y 50; us)"
