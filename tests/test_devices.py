"""Rows as PyTorch tensors on a device: the same fits and answers as with NumPy, and no table that goes to and fro."""

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import sshiba

from sshiba import SSHIBA, Binary, Categorical, Count, Ordinal, Real, load
from sshiba.core.devices import HOST, Device, device_or_host, find_device, map_arrays
from sshiba.core.local_step import local_step
from sshiba.core.state import ColumnGroups

if os.environ.get("NEEDS_TORCH"):  # where it was promised, its absence is a failure
    import torch
else:
    torch = pytest.importorskip("torch", reason="needs PyTorch: make test-torch")

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
every_device = pytest.mark.parametrize("device", DEVICES)
N = 150


def tables(holes: str) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    z = rng.standard_normal((N, 3))
    x, y = (z @ rng.standard_normal((3, d)) + 0.5 * rng.standard_normal((N, d)) for d in (12, 6))
    bits = (z @ rng.standard_normal((3, 4)) + 0.3 * rng.standard_normal((N, 4)) > 0).astype(float)
    kind = pd.Series(np.array(["ant", "bee", "cat"])[np.argmax(z, axis=1)], dtype=object)
    if holes == "cells":
        for values in (x, y, bits):
            values[rng.random(values.shape) < 0.15] = np.nan
    if holes != "none":
        y[rng.random(N) < 0.3] = np.nan
        kind[rng.random(N) < 0.3] = None
    grades = np.digitize(z @ rng.standard_normal((3, 3)) + 0.5 * rng.standard_normal((N, 3)), [-1.0, 0.2, 1.0]) + 1.0
    if holes != "none":
        grades[rng.random(N) < 0.2] = np.nan
    words = rng.poisson(np.exp(1 + 0.5 * z @ rng.standard_normal((3, 5)))).astype(float)
    if holes != "none":
        words[rng.random(words.shape) < 0.2] = np.nan
    return {"x": x, "y": y, "bits": bits, "kind": kind.to_numpy(), "grades": grades, "words": words}


TYPES = {
    "x": Real(select_features=True),
    "bits": Binary(),
    "kind": Categorical(),
    "grades": Ordinal(),
    "words": Count(),
}


@every_device
@pytest.mark.parametrize("holes", ["none", "rows", "cells"])
@pytest.mark.parametrize("missing", ["exact", "mean-field"])
def test_fits_and_answers_are_those_of_numpy(device: str, holes: str, missing: str) -> None:
    views, options = tables(holes), {"random_state": 0, "missing": missing, "max_iter": 60, "search": None}
    with warnings.catch_warnings(action="ignore"):  # sixty sweeps need not converge
        ours, expected = (SSHIBA(8, TYPES, device=name, **options).fit(views) for name in (device, None))
    assert ours.n_components_ == expected.n_components_
    assert ours.elbo_ == pytest.approx(expected.elbo_, rel=1e-8)
    np.testing.assert_allclose(ours.elbo_path_, expected.elbo_path_, rtol=1e-8)
    np.testing.assert_allclose(ours.r2_, expected.r2_, atol=1e-6)
    new = {name: values[:40] for name, values in views.items() if name != "kind"}
    assert ours.score(views) == pytest.approx(expected.score(views), rel=1e-7)
    for method, arguments in {"transform": (new,), "predict_proba": (new, "kind"), "predict": (new,)}.items():
        assert_close(getattr(ours, method)(*arguments), getattr(expected, method)(*arguments))
    for mine, theirs in zip(ours.impute(new, return_std=True), expected.impute(new, return_std=True)):
        assert_close(mine, theirs)


def assert_close(found: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for name in expected:
            assert_close(found[name], expected[name])
    elif np.asarray(expected).dtype.kind == "f":
        assert isinstance(found, type(expected))
        np.testing.assert_allclose(found, expected, atol=1e-5)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("with_search")
@every_device
def test_a_default_fit(device: str) -> None:
    """With the search, the trials of factors, and restarts, which run one after another whatever `n_jobs`."""
    views = tables("cells")
    ours, expected = (
        SSHIBA(6, TYPES, device=name, n_init=2, n_jobs=2, random_state=0).fit(views) for name in (device, None)
    )
    assert ours.fitted_.choice == expected.fitted_.choice
    assert ours.n_components_ == expected.n_components_
    np.testing.assert_allclose(ours.inits_["elbo"], expected.inits_["elbo"], rtol=1e-6)
    for name, values in vars(ours.fitted_.posterior.views[0]).items():
        assert not isinstance(values, torch.Tensor), name


def most_of_device() -> int:
    return int(torch.cuda.max_memory_allocated())


@every_device
def test_a_worker_of_a_cluster_computes_on_its_device(device: str) -> None:
    distributed = pytest.importorskip("distributed", reason="needs Dask")
    views, options = tables("cells"), {"random_state": 0, "max_iter": 30, "search": None}
    where = {"host": "127.0.0.1", "dashboard_address": None, "n_workers": 1, "threads_per_worker": 1}
    with warnings.catch_warnings(action="ignore"):  # thirty sweeps need not converge
        expected = SSHIBA(6, TYPES, **options).fit(views)
        with distributed.LocalCluster(**where) as cluster, distributed.Client(cluster) as client:
            ours = SSHIBA(6, TYPES, engine="dask", device=device, **options).fit(views)
            if device == "cuda":
                assert min(client.run(most_of_device).values()) > 0  # it was used there
            shown = {name: values for name, values in views.items() if name != "kind"}
            assert_close(ours.predict(shown), expected.predict(shown))
    assert ours.elbo_ == pytest.approx(expected.elbo_, rel=1e-9)


@every_device
def test_single_precision_halves_the_data_and_nothing_else(device: str) -> None:
    views = tables("none")
    fits = [SSHIBA(6, TYPES, device=device, dtype=t, random_state=0).fit(views) for t in ("float32", "float64")]
    assert fits[0].n_components_ == fits[1].n_components_
    np.testing.assert_allclose(fits[0].r2_, fits[1].r2_, atol=1e-3)


@every_device
@pytest.mark.parametrize("engine", ["memory", "gram"])
def test_what_travels_does_not_grow_with_the_rows(device: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the rows are there, only messages go up, and only statistics come down."""
    travelled = []
    for method, kind in {
        "put": np.ndarray,
        "put_at_once": np.ndarray,
        "fetch": torch.Tensor,
        "to_host": torch.Tensor,
    }.items():
        monkeypatch.setattr(Device, method, counting(getattr(Device, method), kind, travelled))
    sizes = {}
    for repeats in (1, 4):
        views = {name: np.concatenate([values] * repeats) for name, values in tables("none").items()}
        sent: list[int] = []

        def begin(progress: Any, sent: list[int] = sent) -> None:
            if progress.sweep in (3, 8):
                sent.append(sum(travelled))

        SSHIBA(4, TYPES, device=device, engine=engine, max_iter=9, prune_tol=0.0, callback=begin, search=None).fit(
            views
        )
        sizes[repeats] = sent[1] - sent[0]
    assert sizes[1] == sizes[4] > 0


@every_device
@pytest.mark.parametrize("engine", ["memory", "gram"])
def test_data_that_do_not_fit_come_from_the_host(device: str, engine: str, monkeypatch: Any, caplog: Any) -> None:
    views, options = tables("rows"), {"random_state": 0, "max_iter": 40, "engine": engine, "search": None}
    with warnings.catch_warnings(action="ignore"):
        expected = SSHIBA(4, TYPES, **options).fit(views)
        monkeypatch.setattr(Device, "holds", lambda self, n_bytes: False)
        ours = SSHIBA(4, TYPES, device=device, **options).fit(views)
    np.testing.assert_allclose(ours.elbo_path_, expected.elbo_path_, rtol=1e-8)
    assert_close(ours.impute(views), expected.impute(views))
    assert "do not fit" in caplog.text


@every_device
def test_a_full_device_mid_fit(device: str, monkeypatch: Any, caplog: Any) -> None:
    """The data leave it, and the fit ends as if nothing had happened; where that is not enough one sentence says so."""
    calls, full_at = [0], {17}

    def local_step_or_full(*args: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] in full_at:
            raise torch.OutOfMemoryError
        return local_step(*args, **options)

    views, options = tables("cells"), {"random_state": 0, "max_iter": 40, "search": None}
    with warnings.catch_warnings(action="ignore"):
        expected = SSHIBA(4, TYPES, **options).fit(views)
        monkeypatch.setattr("sshiba.engines.memory.local_step", local_step_or_full)
        ours = SSHIBA(4, TYPES, device=device, **options).fit(views)
        np.testing.assert_allclose(ours.elbo_path_, expected.elbo_path_, rtol=1e-8)
        assert caplog.text.count("do not fit") == 1
        calls[0], full_at = 0, set(range(17, 100))
        with pytest.raises(MemoryError, match=f"device='{device}' has too little memory .* fewer factors"):
            SSHIBA(4, TYPES, device=device, **options).fit(views)


def counting(method: Any, kind: type, travelled: list[int]) -> Any:
    """The method, which notes the sizes of the arrays that it moves: those not yet of the kind that they become."""

    def counted(self: Device, value: Any) -> Any:
        map_arrays(value, kind, lambda array: travelled.append(int(np.prod(array.shape))))
        return method(self, value)

    return counted


@every_device
def test_a_saved_model_goes_on_and_answers_elsewhere(device: str, tmp_path: Any, monkeypatch: Any) -> None:
    views = tables("rows")
    with pytest.warns(match="still rose"):
        model = SSHIBA(4, TYPES, device=device, max_iter=5, random_state=0, search=None).fit(views)
    model.save(tmp_path / "model.sshiba")
    again = load(tmp_path / "model.sshiba")
    assert again.device == device
    assert again.set_params(max_iter=300).resume(views).converged_
    expected = model.transform(views)
    again = load(tmp_path / "model.sshiba")
    monkeypatch.setattr("sshiba.fitted.answers.device_or_host", lambda name, data: HOST)
    np.testing.assert_allclose(again.transform(views), expected, atol=1e-6)


@every_device
def test_there_and_back(device: str) -> None:
    groups = ColumnGroups.single(3)
    value = {"a": 1}, (np.arange(6.0).reshape(2, 3), [np.float64(2.0), np.zeros(())], groups, None)
    numbers = (np.arange(6.0).reshape(2, 3), groups, [np.zeros(()), np.ones((0, 2))])
    at_once = find_device(device).put_at_once(numbers)
    assert at_once[0].device.type == device
    np.testing.assert_array_equal(at_once[0].cpu(), numbers[0])
    assert [part.shape for part in at_once[2]] == [(), (0, 2)]
    there = find_device(device).put(value)
    assert isinstance(there[1][0], torch.Tensor)
    assert there[1][0].device.type == device
    assert there[1][2] is groups
    back = find_device(device).fetch(there)
    np.testing.assert_array_equal(back[1][0], value[1][0])
    assert back[1][1][1].shape == ()
    assert HOST.put(value) is value
    assert find_device(device).fetch(groups) is groups


def test_what_is_wrong_with_a_device_is_said_in_one_sentence(tmp_path: Any) -> None:
    for name in ("gpu", "cuda:x", "mps", 1):
        with pytest.raises(ValueError, match="device must be None, 'cpu', 'cuda'"):
            SSHIBA(device=name).fit({"x": np.eye(5)})
    with pytest.raises(ValueError, match=r"device='cuda:99'.*Name no device"):
        SSHIBA(device="cuda:99").fit({"x": np.eye(5)})
    assert device_or_host("cuda:99") is HOST
    pd.DataFrame(tables("none")["x"]).to_csv(tmp_path / "x.csv", index=False)
    done = sshiba("fit", "x.csv", "--device", "cuda:99", "-o", "m.sshiba", cwd=tmp_path)
    assert done.returncode == 2
    assert "device='cuda:99'" in done.stderr
    assert "Traceback" not in done.stderr
    done = sshiba("fit", "x.csv", "--device", "cpu", "--components", 4, "-o", "m.sshiba", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert load(tmp_path / "m.sshiba").device == "cpu"


@every_device
def test_rows_drawn_on_a_device(device: str) -> None:
    """They have the moments of those drawn with NumPy, and the same seed draws the same."""
    views = tables("none")
    ours, theirs = (SSHIBA(4, TYPES, device=name, random_state=0, search=None).fit(views) for name in (device, None))
    found, expected = ours.sample(4000, random_state=1), theirs.sample(4000, random_state=1)
    for name in ("x", "y", "bits"):
        spread = expected[name].std(axis=0)
        np.testing.assert_allclose(found[name].mean(axis=0), expected[name].mean(axis=0), atol=0.1 * spread.max())
        np.testing.assert_allclose(found[name].std(axis=0), spread, rtol=0.1)
    for kind in np.unique(views["kind"]):
        assert np.mean(found["kind"] == kind) == pytest.approx(np.mean(expected["kind"] == kind), abs=0.04)
    assert_close(ours.sample(7, random_state=2), ours.sample(7, random_state=2))


# ------------------------------------------------------------------------------------------- tensors as views


def on_device(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of this device stay there; those of the CPU would not."""
    if device == "cpu":
        monkeypatch.setattr("sshiba.data.tensors.is_on_device", lambda value: True)


@pytest.mark.usefixtures("with_search")
@every_device
@pytest.mark.parametrize("holes", ["none", "rows", "cells"])
def test_tensors_are_views_like_arrays(device: str, holes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    views = tables(holes)
    options = {"random_state": 0, "max_iter": 60}
    with warnings.catch_warnings(action="ignore"):
        expected = SSHIBA(6, TYPES, **options).fit(views)
        on_device(device, monkeypatch)
        tensors = {name: torch.tensor(values, device=device) for name, values in views.items() if name != "kind"}
        ours = SSHIBA(6, TYPES, **options).fit({name: tensors.get(name, views[name]) for name in views})
    assert ours.fitted_.choice == expected.fitted_.choice
    assert ours.elbo_ == pytest.approx(expected.elbo_, rel=1e-7)
    for mine, theirs in zip(ours.fitted_.posterior.views, expected.fitted_.posterior.views):
        np.testing.assert_allclose(np.abs(mine.w_mean), np.abs(theirs.w_mean), atol=1e-4)
    assert_close(ours.transform(tensors), expected.transform({name: views[name] for name in tensors}))
    assert_close(ours.impute(tensors), expected.impute({name: views[name] for name in tensors}))
    shown = {"x": tensors["x"]}
    assert_close(ours.predict(shown, "y"), expected.predict({"x": views["x"]}, "y"))
    assert ours.score(tensors) == pytest.approx(expected.score({name: views[name] for name in tensors}), rel=1e-6)


@every_device
def test_real_tensors_never_come_back(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are looked at to learn their scales and, of some rows, errors; what is fitted to is made where they are."""
    on_device(device, monkeypatch)
    went_up: list[int] = []
    put, counted = Device.put, counting(Device.put, np.ndarray, went_up)
    monkeypatch.setattr(Device, "put", lambda self, value: (put if self.is_host else counted)(self, value))
    x = torch.tensor(tables("none")["x"], device=device)
    before = x.clone()
    with warnings.catch_warnings(action="ignore"):
        SSHIBA(4, max_iter=5, search=None).fit({"x": x})
    assert max(went_up) < x.numel()
    torch.testing.assert_close(x, before, rtol=0, atol=0)


@every_device
def test_what_is_wrong_with_a_tensor(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    on_device(device, monkeypatch)
    x = torch.tensor(tables("none")["x"], device=device)
    for odd, words in ((float("inf"), "infinite"), (1e305, "far-off")):
        bad = x.clone()
        bad[120, 3] = odd
        with pytest.raises(ValueError, match=f"view 'x': 1 {words}.*row 120, column 3"):
            SSHIBA(3).fit({"x": bad})
    model = SSHIBA(3, search=None).fit({"x": x})
    bad = x.clone()
    bad[7, 2] = float("inf")
    with pytest.raises(ValueError, match=r"1 infinite value.*row 7, column 2"):
        model.transform({"x": bad})
    with pytest.raises(ValueError, match="has 3 columns, in training it had 12"):
        model.transform({"x": x[:, :3]})
    with pytest.raises(ValueError, match=r"different numbers of rows"):
        SSHIBA(3).fit({"x": x, "y": np.ones(4)})


def test_tensors_of_the_host_are_arrays() -> None:
    x = torch.tensor(tables("none")["x"], requires_grad=True)
    ours, expected = (SSHIBA(3, random_state=0).fit({"x": values}) for values in (x, x.detach().numpy()))
    assert ours.elbo_ == expected.elbo_


MEMORY_OF_A_FIT = """
import sys, threading
import numpy as np, torch
from sshiba import SSHIBA

def anonymous():
    lines = open("/proc/self/status").read().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))

SSHIBA(2, device=sys.argv[2], max_iter=1, tol=1e9).fit({"x": np.random.default_rng(0).normal(size=(50, 4))})
peak, stop = [anonymous()], threading.Event()
first = peak[0]
def watch():
    while not stop.wait(0.005):
        peak[0] = max(peak[0], anonymous())
threading.Thread(target=watch, daemon=True).start()
SSHIBA(5, {"x": "real"}, device=sys.argv[2], max_memory="100MB", max_iter=2, tol=1e9).fit({"x": sys.argv[1]})
stop.set()
print(peak[0] - first)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is read from Linux's /proc")
@every_device
def test_rows_that_are_read_for_a_device_keep_to_max_memory(device: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30_000, 400))  # 96 MB
    x[rng.random(x.shape) < 0.1] = np.nan
    np.save(tmp_path / "x.npy", x)
    command = [sys.executable, "-W", "ignore", "-c", MEMORY_OF_A_FIT, str(tmp_path / "x.npy"), device]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[-1]) < 110e6
