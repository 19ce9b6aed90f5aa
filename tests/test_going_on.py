"""A fit that was stopped goes on to where it would have come."""

import datetime as dt
import importlib
import signal
import subprocess
import time
import uuid
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import sshiba, started
from samples import make_views, with_holes
from sklearn.exceptions import ConvergenceWarning
from typer.testing import CliRunner

from sshiba import SSHIBA, Priors, Progress, Real, load, tune
from sshiba.cli.looking import app
from sshiba.core.scratch import RowsLostError
from sshiba.data.sampling import Sample
from sshiba.evaluate.hiding import quiet_fit
from sshiba.fitted import training
from sshiba.report.content import content


def interrupting(restart: int, sweep: int):
    """A callback that presses Ctrl-C."""

    def callback(progress: Progress) -> None:
        if (progress.restart, progress.sweep) == (restart, sweep):
            raise KeyboardInterrupt

    return callback


LONG = {"n_components": 6, "n_init": 3, "random_state": 3, "tol": 1e-8}


@pytest.fixture(scope="module")
def whole() -> SSHIBA:
    """A fit that nobody stopped."""
    return SSHIBA(**LONG).fit(with_holes(make_views()))


@pytest.mark.parametrize(("restart", "sweep"), [(0, 5), (1, 30), (2, 60)])
def test_an_interrupted_fit_goes_on_to_the_same_bound(restart: int, sweep: int, whole: SSHIBA, tmp_path) -> None:
    views = with_holes(make_views())
    stopped = SSHIBA(**LONG, callback=interrupting(restart, sweep)).fit(views)
    assert len(stopped.inits_) == restart + 1
    assert stopped.inits_["interrupted"].tolist() == [False] * restart + [True]
    stopped.save(tmp_path / "stopped.sshiba")
    again = load(tmp_path / "stopped.sshiba").resume(views)
    assert again.converged_
    assert len(again.inits_) == 3
    assert not again.inits_["interrupted"].any()
    assert again.elbo_ == pytest.approx(whole.elbo_, abs=0.05)
    assert again.n_components_ == whole.n_components_
    assert again.resume(views).elbo_ == again.elbo_  # nothing left to do


def test_other_data_cannot_go_on() -> None:
    views = with_holes(make_views())
    stopped = SSHIBA(4, random_state=0, callback=interrupting(0, 30)).fit(views)
    fewer = {name: view[:-1] for name, view in views.items()}
    with pytest.raises(ValueError, match="not the data of the interrupted fit"):
        stopped.resume(fewer)


def test_checkpoints_can_go_on(tmp_path) -> None:
    views = with_holes(make_views())
    path = tmp_path / "checkpoint.sshiba"
    model = SSHIBA(6, n_init=2, random_state=0, callback=interrupting(1, 60))
    model.fit(views, checkpoint=path, checkpoint_minutes=0.0)
    saved = load(path)
    assert saved.inits_["interrupted"].tolist() == [False, True]
    whole = SSHIBA(6, n_init=2, random_state=0).fit(views)
    assert saved.resume(views).elbo_ == pytest.approx(whole.elbo_, abs=0.5)


def test_a_fit_at_its_limit_of_sweeps_goes_on() -> None:
    views = with_holes(make_views())
    whole = SSHIBA(6, n_init=2, random_state=0).fit(views)
    with pytest.warns(ConvergenceWarning):
        short = SSHIBA(6, n_init=2, random_state=0, max_iter=30).fit(views)
    again = short.set_params(max_iter=2000).resume(views)
    assert again.converged_
    assert len(again.inits_) == 2
    assert again.elbo_ == pytest.approx(whole.elbo_, abs=1.0)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"n_components": 5}, "n_components was 4 in the interrupted fit and is 5 now"),
        ({"missing": "mean-field"}, "missing was 'exact'"),
        ({"priors": Priors(alpha=(1.0, 1.0))}, r"priors was None"),
        ({"views": {"X": Real(scale=False)}}, r"view 'X' was Real\(.*scale=True.* and is Real\(.*scale=False"),
    ],
)
def test_another_model_cannot_go_on(changed: dict, words: str, tmp_path) -> None:
    views = with_holes(make_views())
    stopped = SSHIBA(4, random_state=0, callback=interrupting(0, 30)).fit(views)
    stopped.save(tmp_path / "stopped.sshiba")
    for model in (stopped, load(tmp_path / "stopped.sshiba")):
        with pytest.raises(ValueError, match=words):
            model.set_params(**changed).resume(views)


INDEXES = {
    "zone": pd.date_range("2024-10-20", periods=120, freq="12h", tz="Europe/Madrid"),
    "offset": pd.date_range("2024-10-20", periods=120, tz=dt.timezone(dt.timedelta(hours=2))),
    "seconds": pd.date_range("2024-10-20", periods=120, unit="s"),
    "periods": pd.period_range("2020", periods=120, freq="Q-NOV"),
    "timedeltas": pd.timedelta_range("-1 day", periods=120, freq="61s"),
    "dates": pd.Index([dt.date(2024, 1, 1) + dt.timedelta(days=i) for i in range(120)]),
    "intervals": pd.interval_range(0, 120),
    "levels": pd.MultiIndex.from_product(
        [pd.period_range("2020", periods=60, freq="M"), pd.to_datetime(["2020", "2021"]).tz_localize("Asia/Tokyo")],
        names=["month", "at"],
    ),
    "part of a range": pd.RangeIndex(5, 125),
    "categories": pd.CategoricalIndex([f"r{i}" for i in range(120)], name="row"),
    "nullable": pd.Index(range(7, 127), dtype="Int64"),
    "objects": pd.Index([uuid.UUID(int=i) for i in range(120)]),
}


@pytest.mark.parametrize("case", INDEXES)
def test_rows_of_any_label_go_on_from_a_file(case: str, tmp_path) -> None:
    frame = pd.DataFrame(make_views()["X"], index=INDEXES[case])
    SSHIBA(2, random_state=0, callback=interrupting(0, 5)).fit({"X": frame}).save(tmp_path / "m.sshiba")
    again = load(tmp_path / "m.sshiba")
    if case not in ("seconds", "categories", "nullable", "objects"):
        pd.testing.assert_index_equal(again.index_, frame.index, exact=case != "part of a range")
    assert again.index_.names == frame.index.names
    assert again.resume({"X": frame}).converged_
    if case != "part of a range":
        with pytest.raises(ValueError, match="their rows differ"):
            again.resume({"X": frame.set_axis(frame.index[::-1])})


def test_all_settings_but_few_are_kept_with_a_fit(tmp_path) -> None:
    model, apart = SSHIBA(2, max_iter=5, tol=1.0).fit({"X": make_views()["X"]}), ("views", "callback", "max_memory")
    kept = {name: value for name, value in model.get_params(deep=False).items() if name not in apart}
    assert model.fitted_.settings == kept
    model.save(tmp_path / "m.sshiba")
    assert load(tmp_path / "m.sshiba").fitted_.settings == kept


def test_settings_are_those_of_the_fit(tmp_path) -> None:
    views = make_views()
    model = SSHIBA(4, random_state=0, max_iter=40).fit(views).set_params(n_components=9, max_iter=7, random_state=5)
    model.save(tmp_path / "m.sshiba")
    kept = load(tmp_path / "m.sshiba")
    assert (kept.n_components, kept.max_iter, kept.random_state) == (4, 40, 0)
    shown = dict(content(model.fitted_, Sample(None), None, 0.0)["provenance"]["settings"])
    assert (shown["n_components"], shown["max_iter"], shown["random_state"]) == ("4", "40", "0")
    kept.set_params(max_iter=50).resume(views)
    assert kept.fitted_.settings["max_iter"] == 50


def press_ctrl_c(monkeypatch: pytest.MonkeyPatch, module: str, function: str) -> None:
    """Ctrl-C is pressed when this function is called."""
    whole = getattr(importlib.import_module(module), function)

    def pressed(*given, **named):
        signal.raise_signal(signal.SIGINT)
        return whole(*given, **named)

    monkeypatch.setattr(f"{module}.{function}", pressed)


@pytest.mark.parametrize("function", ["make_fitted", "find_sharpness"])
def test_ctrl_c_after_the_sweeps_keeps_the_fit(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    views, handler = with_holes(make_views()), signal.getsignal(signal.SIGINT)
    whole = SSHIBA(4, random_state=0).fit(views)
    press_ctrl_c(monkeypatch, "sshiba.fitted.training", function)
    late = SSHIBA(4, random_state=0).fit(views)
    assert late.converged_
    assert late.elbo_ == whole.elbo_
    with pytest.raises(KeyboardInterrupt):  # of many fits it ends all
        tune(SSHIBA(3, random_state=0), views, {"n_components": [2, 3]}, "y")
    assert signal.getsignal(signal.SIGINT) is handler


def test_ctrl_c_while_a_model_is_saved_does_not_lose_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, long_fit: Path
) -> None:
    press_ctrl_c(monkeypatch, "sshiba.estimator", "save_model")
    path = tmp_path / "m.sshiba"
    done = CliRunner().invoke(app, ["fit", str(long_fit / "x.csv"), "-o", str(path), "--components", "2"])
    assert done.exit_code == 0, done.output
    assert load(path).converged_


# --------------------------------------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def long_fit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose fit, with hundreds of restarts, lasts as long as one likes."""
    folder = tmp_path_factory.mktemp("long")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 3)) @ rng.standard_normal((3, 12)) + rng.standard_normal((300, 12))
    x[rng.random(x.shape) < 0.2] = np.nan
    pd.DataFrame(x, columns=[f"x{d}" for d in range(12)]).to_csv(folder / "x.csv", index=False)
    return folder


def test_ctrl_c_keeps_the_best_and_resume_ends_the_same(long_fit: Path) -> None:
    """The checkpoint says when the fit is under way."""
    options = ("x.csv", "-o", "stopped.sshiba", "--components", 6, "--restarts", 16, "--checkpoint", 0.0)
    process = started(long_fit, "fit", *options)
    path = long_fit / "stopped.sshiba"
    wait_for(path, process)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, words = process.communicate(timeout=60)
    assert process.returncode == 1, words
    assert "Not finished. To go on: sshiba fit x.csv --resume stopped.sshiba" in words
    stopped = load(path)
    assert len(stopped.inits_) < 16
    n_done = (~stopped.inits_["interrupted"]).sum()
    assert (
        f"{n_done} of 16 restarts done, the best so far {'' if stopped.converged_ else 'not '}converged after" in words
    )
    done = sshiba("fit", "x.csv", "--resume", "stopped.sshiba", cwd=long_fit)
    assert done.returncode == 0, done.stderr
    whole = sshiba("fit", "x.csv", "-o", "whole.sshiba", "--components", 6, "--restarts", 16, cwd=long_fit)
    assert whole.returncode == 0
    assert len(load(path).inits_) == 16
    assert load(path).elbo_ == pytest.approx(load(long_fit / "whole.sshiba").elbo_, abs=0.05)


def test_a_table_filled_by_an_interrupted_fit_is_there_and_not_called_finished(long_fit: Path) -> None:
    """On a busy machine the fit begins late: an interrupt before it says that nothing was written, and comes again."""
    out, words = long_fit / "filled.csv", "nothing was written"
    for seconds in (4.0, 8.0, 16.0, 32.0):
        if "nothing was written" in words:
            process = started(long_fit, "impute", "x.csv", "-o", out, "--components", 2, "--restarts", 5000)
            time.sleep(seconds)
            process.send_signal(signal.SIGINT)
            _, words = process.communicate(timeout=60)
    assert process.returncode == 1, words
    assert "Not finished: the fit was interrupted" in words
    assert not pd.read_csv(out).isna().any().any()


def test_ctrl_c_at_any_moment(long_fit: Path) -> None:
    """While numba compiles, while a sweep runs: never a traceback."""
    for seconds in (2.0, 3.0):
        path = long_fit / f"at {seconds}.sshiba"
        process = started(long_fit, "fit", "x.csv", "-o", path, "--components", 6, "--restarts", 5000)
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        _, words = process.communicate(timeout=60)
        if process.returncode != -signal.SIGINT:  # else it was still importing
            assert process.returncode in (1, 130), words  # 130: it was still reading its arguments
            assert "Traceback" not in words
            assert path.exists() == ("Not finished" in words)


def test_a_killed_process_leaves_a_whole_file(long_fit: Path) -> None:
    """Saved again and again without a pause, then killed at some moment: what is there can be read."""
    path = long_fit / "killed.sshiba"
    process = started(long_fit, "fit", "x.csv", "-o", path, "--components", 6, "--restarts", 500, "--checkpoint", 0.0)
    wait_for(path, process)
    for _ in range(20):
        assert load(path).n_components_ >= 1
        time.sleep(0.05)
    process.kill()
    process.communicate()
    assert load(path).inits_["interrupted"].any()


def wait_for(path: Path, process: subprocess.Popen) -> None:
    for _ in range(600):
        if path.exists():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    raise AssertionError("no checkpoint came")


def test_ctrl_c_among_parallel_restarts_ends_what_the_fit_is_for() -> None:
    """The fit keeps what is done, and says that it is not whole; a check does not go on with it."""

    def stop(progress: Progress) -> None:
        raise KeyboardInterrupt

    rng = np.random.default_rng(0)
    views = {"x": rng.standard_normal((40, 5))}
    model = SSHIBA(2, n_init=4, n_jobs=2, search=None, max_iter=30, callback=stop, random_state=0).fit(views)
    assert len(model.fitted_.restarts) < 4
    assert model.fitted_.interrupted
    with pytest.raises(KeyboardInterrupt):
        quiet_fit(model, views)


@pytest.mark.parametrize("step", ["find_sharpness", "find_residual_shapes"])
def test_rows_that_are_lost_after_the_fit_cost_only_what_follows_from_it(
    step: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def lost(*given: object) -> None:
        raise RowsLostError("The file is gone.")

    monkeypatch.setattr(training, step, lost)
    rng = np.random.default_rng(0)
    with caplog.at_level("WARNING", "sshiba"):
        model = SSHIBA(2, max_iter=60, random_state=0).fit({"x": rng.standard_normal((40, 5))})
    assert "The file is gone." in caplog.text
    assert model.transform({"x": rng.standard_normal((3, 5))}).shape[0] == 3
