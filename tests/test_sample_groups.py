"""Groups of samples: shared factors with an activity in each group, intercepts of each, and rows of no known group."""

import json
import re
import signal
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cases import make_problem
from commands import sshiba as sshiba_command
from dask.distributed import Client, LocalCluster
from sklearn.exceptions import ConvergenceWarning

from sshiba import SSHIBA, Priors, load, plots
from sshiba.core import machine
from sshiba.core.bound import elbo
from sshiba.core.coded import CodedView
from sshiba.core.explained import order_factors
from sshiba.core.global_step import global_step
from sshiba.core.state import Gamma
from sshiba.core.streamed import StreamedView
from sshiba.data.types import Binary, Categorical, Real
from sshiba.engines import Rows, make_rows
from sshiba.fitted import training
from sshiba.fitted.residuals import find_residual_shapes
from sshiba.fitting.sweep import State, sweep

NAMES = np.array(["east", "north", "south"])
ACTIVE = np.array([[1, 0, 1, 1], [1, 1, 0, 1], [1, 0, 1, 1]], dtype=bool)  # groups x factors: one in the north alone
IN_VIEW = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], dtype=bool)


def simulated() -> tuple[dict[str, pd.DataFrame], np.ndarray, list[np.ndarray]]:
    """Views, groups of the rows, and the weights."""
    rng = np.random.default_rng(4)
    labels = rng.permutation(np.repeat([0, 1, 2], [50, 60, 40]))
    z, index = rng.standard_normal((150, 4)) * ACTIVE[labels], [f"r{n}" for n in range(150)]
    views, weights = {}, []
    for m, width in enumerate((14, 10)):
        w = rng.standard_normal((width, 4)) * IN_VIEW[m]
        shift = 2 * rng.standard_normal((3, width))
        x = z @ w.T + shift[labels] + rng.standard_normal((150, width))
        views[f"v{m}"] = pd.DataFrame(x, index, [f"x{m}.{d}" for d in range(width)])
        weights.append(w)
    return views, labels, weights


@pytest.fixture(scope="module")
def data() -> tuple[dict[str, pd.DataFrame], np.ndarray, list[np.ndarray]]:
    return simulated()


@pytest.fixture(scope="module")
def model(data: tuple) -> SSHIBA:
    views, labels, _ = data
    cohort = pd.Series(NAMES[labels], views["v0"].index)
    return SSHIBA(8, sample_groups="cohort", search=None, random_state=0).fit({**views, "cohort": cohort})


def matched(model: SSHIBA, weights: list[np.ndarray]) -> list[int]:
    """The factor that was found for each true one, by its weights."""
    found = np.concatenate([model.weights_[f"v{m}"].to_numpy() for m in range(2)])
    likeness = np.abs(np.corrcoef(np.concatenate(weights).T, found.T)[:4, 4:])
    assert likeness.max(axis=1).min() > 0.9
    return likeness.argmax(axis=1).tolist()


def test_factors_of_one_group_are_found_as_such(model: SSHIBA, data: tuple) -> None:
    views, labels, weights = data
    assert model.n_components_ == 4
    order = matched(model, weights)
    assert sorted(order) == [0, 1, 2, 3]
    activity = model.activity_.loc[NAMES].to_numpy()[:, order]
    assert activity[~ACTIVE].max() < 0.03
    assert activity[ACTIVE].min() > 0.5
    sizes = np.bincount(labels)
    np.testing.assert_allclose(sizes @ activity / 150, 1, atol=0.05)  # on average over rows
    shares = model.r2_by_group_.to_numpy().reshape(3, 5, 2)[:, order]
    there = ACTIVE[:, :, None] & IN_VIEW.T[None]
    assert shares[~there].max() < 0.01 < 0.05 < shares[there].min()
    assert list(model.r2_.index[-2:]) == ["covariates", "all"]
    means = views["v1"].groupby(NAMES[labels]).mean()
    np.testing.assert_allclose(model.bias_by_group_["v1"], means.loc[list(model.activity_.index)], atol=0.1)
    assert model.log_evidence_ is None


def test_new_rows(model: SSHIBA, data: tuple) -> None:
    """Of a known group as in training; of an unseen one, or of none, z ~ N(0, I) about the average intercepts."""
    views, labels, _ = data
    some = {name: frame.iloc[:6] for name, frame in views.items()}
    known = model.transform({**some, "cohort": pd.Series(NAMES[labels[:6]], some["v0"].index)})
    np.testing.assert_allclose(known, model.factors_.iloc[:6], atol=1e-6)
    plain = model.transform(some)
    with pytest.warns(UserWarning, match="'west' unseen in training"):
        unseen = model.transform({**some, "cohort": pd.Series(["west"] * 6, some["v0"].index)})
    pd.testing.assert_frame_equal(unseen, plain)
    posterior, codings = model.fitted_.posterior, model.fitted_.schema.codings
    precision, pull = np.eye(4), np.zeros((6, 4))
    for view, (name, coding) in zip(posterior.views, codings.items()):
        x = (some[name].to_numpy() - coding.centre) / coding.scale - view.b_mean
        w, tau = view.w_mean[:, :4], view.tau.mean
        cov = view.w_cov.basis[0] @ (view.w_cov.spread[:, :, None] * view.w_cov.basis[0].T)
        second = cov[:, :4, :4] + w[:, :, None] * w[:, None, :]
        precision, pull = precision + np.einsum("d,dij->ij", tau, second), pull + x * tau @ w
    np.testing.assert_allclose(plain, np.linalg.solve(precision, pull.T).T, atol=2e-3)  # c is known to a thousandth
    with pytest.warns(UserWarning, match="6 values missing"):
        missing = model.predict({**some, "cohort": pd.Series([None] * 6, some["v0"].index)}, "v1")
    pd.testing.assert_frame_equal(missing, model.predict(some, "v1"))


def test_files_pictures_and_draws(model: SSHIBA, data: tuple, tmp_path: Path) -> None:
    model.save(tmp_path / "m.sshiba")
    again = load(tmp_path / "m.sshiba")
    assert again.sample_groups == "cohort"
    pd.testing.assert_frame_equal(again.activity_, model.activity_)
    pd.testing.assert_frame_equal(again.r2_by_group_, model.r2_by_group_)
    some = {name: frame.iloc[:4] for name, frame in data[0].items()}
    cohort = pd.Series(["north"] * 4, some["v0"].index)
    pd.testing.assert_frame_equal(
        again.transform({**some, "cohort": cohort}), model.transform({**some, "cohort": cohort})
    )
    shares = plots.variance_by_group_data(model)
    assert shares.columns[:3].to_list() == [("v0", name) for name in model.activity_.index]
    np.testing.assert_array_equal(
        shares["v1"]["south"], model.r2_by_group_.loc["south"]["v1"].iloc[: model.n_components_]
    )
    np.testing.assert_array_equal(plots.activity_data(model).T, model.activity_)
    assert "groups" in plots.variance_by_group(model).get_title()
    assert "groups" in plots.activity(model).get_title()
    idle = model.sample(4000, 0, pd.DataFrame({"cohort": ["east"] * 4000}).to_dict("series"))["v0"]
    busy = model.sample(4000, 0, {"cohort": pd.Series(["north"] * 4000)})["v0"]
    k = int(model.activity_.loc["north"].argmax())
    feature = int(model.weights_["v0"].iloc[:, k].abs().argmax())
    assert busy.iloc[:, feature].std() > idle.iloc[:, feature].std()


def test_the_command_and_the_report(data: tuple, tmp_path: Path) -> None:
    views, labels, _ = data
    table = pd.concat(views.values(), axis=1).assign(cohort=NAMES[labels])
    table.to_csv(tmp_path / "t.csv", index=False)
    options = ["--groups", "cohort", "--components", 6, "-o", "m.sshiba"]
    done = sshiba_command("fit", "t.csv", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    again = load(tmp_path / "m.sshiba")
    assert again.activity_.index.to_list() == list(NAMES)
    told = sshiba_command("report", "m.sshiba", "-o", "r.html", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    parts = json.loads(re.search(r'id="data">(.*?)</script>', (tmp_path / "r.html").read_text())[1])
    assert parts["groups"]["names"] == list(NAMES)
    assert np.shape(parts["groups"]["activity"]) == (again.n_components_, 3)
    assert "3 groups of samples, by cohort" in parts["groups"]["words"]
    new = table.head(3).assign(cohort=["north", "never seen", ""])
    new.to_csv(tmp_path / "new.csv", index=False)
    found = sshiba_command("transform", "m.sshiba", "new.csv", cwd=tmp_path)
    assert len(found.stdout.splitlines()) == 4


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_on_a_cluster_and_in_a_file_are_fitted_as_in_memory(
    data: tuple, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a covariate beside the groups."""
    monkeypatch.setattr(machine, "LEAST", 1000)
    views, labels, _ = data
    own = pd.DataFrame({"cohort": NAMES[labels], "age": np.arange(150) % 7 + 0.5}, views["v0"].index)
    table = pd.concat([*views.values(), own], axis=1)
    table.iloc[::9, 3] = np.nan
    table.to_parquet(tmp_path / "t.parquet")

    def fitted(rows: pd.DataFrame | Path, **options: object) -> SSHIBA:
        model = SSHIBA(5, sample_groups="cohort", covariates=["age"], search=None, random_state=0, max_iter=12)
        return model.set_params(**options).fit(rows)

    here = fitted(table, engine="memory")
    with LocalCluster(1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster, Client(cluster):
        there = fitted(table, engine="dask")
    read = fitted(tmp_path / "t.parquet", engine="memory", max_memory=20_000)
    for other in (there, read):
        assert other.elbo_ == pytest.approx(here.elbo_, rel=1e-8)
        np.testing.assert_allclose(other.activity_, here.activity_, rtol=1e-5)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("end", ["time", "ctrl-c"])
def test_a_fit_that_is_ended_does_not_wait_for_what_groups_show(
    end: str, data: tuple, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All else is there, and says what it can."""
    views, labels, _ = data
    asked, made = [], training.make_rows

    def make_rows(own: list, *rest: object, **options: object) -> Rows:
        asked.append(own[0].n_rows)
        return made(own, *rest, **options)

    def shapes(*arguments: object) -> object:
        if end == "ctrl-c":
            signal.raise_signal(signal.SIGINT)
        return find_residual_shapes(*arguments)

    monkeypatch.setattr(training, "make_rows", make_rows)
    monkeypatch.setattr(training, "find_residual_shapes", shapes)
    monkeypatch.setattr(training, "AFTER_SHARE", 0.0)
    limit = {"max_time": 1e-3} if end == "time" else {"max_iter": 3}
    cohort = pd.Series(NAMES[labels], views["v0"].index)
    model = SSHIBA(4, sample_groups="cohort", search=None, random_state=0, **limit).fit({**views, "cohort": cohort})
    assert asked == [150]
    assert model.r2_by_group_ is None
    assert list(model.activity_.index) == list(NAMES)
    with pytest.raises(ValueError, match="the fit was ended before"):
        plots.variance_by_group(model)
    model.save(tmp_path / "m.sshiba")
    load(tmp_path / "m.sshiba").report(tmp_path / "r.html", fraction=0)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    part = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])["groups"]
    assert np.shape(part["activity"]) == (4, 3)
    assert part["shares"] == part["columns"] == []


def test_mofa_file_has_the_groups(model: SSHIBA, data: tuple, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    model.to_mofa_hdf5(tmp_path / "m.hdf5")
    with h5py.File(tmp_path / "m.hdf5") as file:
        assert list(file["groups/groups"].asstr()) == list(model.activity_.index)
        north = data[1] == 1
        np.testing.assert_allclose(file["expectations/Z/north"][:].T, model.factors_[north])
        shares = model.r2_by_group_.loc["north"].iloc[:-1]
        np.testing.assert_allclose(file["variance_explained/r2_per_factor/north"][:].T, 100 * shares)


def test_one_table_with_odd_labels_and_rows_without_a_group(data: tuple, tmp_path: Path) -> None:
    """Labels are numbers; the fit goes on as if it had not been interrupted; one label only is one group."""
    views, labels, _ = data
    table = views["v0"].assign(site=(10 * labels).astype(float))
    table.loc[table.index[5], "site"] = np.nan
    with pytest.warns(UserWarning, match="'site': 1 value missing"), pytest.warns(ConvergenceWarning):
        fitted = SSHIBA(6, sample_groups="site", search=None, random_state=0, max_iter=25, tol=0).fit(table)
    assert fitted.activity_.index.tolist() == [0, 10, 20]
    assert fitted.fitted_.groups[5] == -1
    fitted.save(tmp_path / "m.sshiba")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        more = load(tmp_path / "m.sshiba").set_params(max_iter=30, verbose=0).resume(table)
        other = table.assign(site=np.where(labels == 0, 1.0, 2.0))
        with pytest.raises(ValueError, match="not the data of the interrupted fit"):
            load(tmp_path / "m.sshiba").set_params(max_iter=30).resume(other)
        alone = SSHIBA(3, sample_groups="site", search=None, max_iter=5).fit(table.assign(site="here"))
    assert more.elbo_ > fitted.elbo_
    assert alone.activity_.shape[0] == 1
    for wrong, words in (({"sample_groups": ["site"]}, "must be the name"), ({"sample_groups": "sote"}, "no column")):
        with pytest.raises((TypeError, ValueError), match=words):
            SSHIBA(3, **wrong).fit(table)


def test_one_group_under_a_firm_prior_is_the_plain_model() -> None:
    problem = make_problem([Real(), Binary()], [6, 5], ["cells", "none"], n=30)
    labels = CodedView(np.zeros(30, dtype=int), None)
    firm = Gamma(np.asarray(1e9), np.asarray(1e9))
    spec = replace(problem.spec, n_groups=1, activity_prior=firm)
    grouped = replace(problem.posterior, activity=Gamma(np.ones((1, 3)), np.ones((1, 3))))
    rows = make_rows([*problem.data, labels], spec, 3)
    one, two = (State(p, r.start(p)) for p, r in ((problem.posterior, problem.rows), (grouped, rows)))
    for _ in range(4):
        one, two = (sweep(r, state, rotating=False) for r, state in ((problem.rows, one), (rows, two)))
    for a, b in zip(one.posterior.views, two.posterior.views):
        np.testing.assert_allclose(a.w_mean, b.w_mean, atol=1e-6)
    assert one.bound == pytest.approx(two.bound, abs=1e-3)


@pytest.mark.parametrize("holes", ["none", "cells"])
def test_rows_that_are_read_and_those_in_gram_space_say_the_same(holes: str) -> None:
    views = [Real(), Binary(), Categorical()]
    sizes = {"n": 40, "n_groups": 3, "n_covariates": 1}
    problem = make_problem(views, [6, 4, 3], [holes] * 3, block_rows=7, space="memory", **sizes)

    def streamed(view: CodedView, width: int) -> StreamedView:
        empty = CodedView(view.target[:0], None)
        return StreamedView.of(lambda a, b: view.read(slice(a, b)), 40, empty, width, view.observed is None, 500.0)

    read = [streamed(view, own.n_features) for view, own in zip(problem.data, problem.spec.views)]
    others = [
        make_rows([*read, problem.data[-1]], problem.spec, 3, block_rows=9),
        make_rows(problem.data, problem.spec, 3, engine="gram", min_shared=2),
    ]
    posterior = replace(problem.posterior, activity=Gamma(np.linspace(0.5, 3, 9).reshape(3, 3), np.ones((3, 3))))
    bounds = []
    for rows in (problem.rows, *others):
        local, state = rows.start(posterior), posterior
        for _ in range(3):
            local, stats = rows.step(state, local)
            state, _ = global_step(stats, state, problem.spec)
        bounds.append(sum(elbo(state, stats, problem.spec).values()))
        assert stats.groups.n.tolist() == [10, 10, 10]
    np.testing.assert_allclose(bounds[1:], bounds[0], rtol=1e-10)


def test_factors_come_in_units_in_which_the_average_row_has_variance_1() -> None:
    """And what rows say of everything else stays as it was."""
    problem = make_problem([Real(), Real()], [5, 4], ["none", "cells"], n=30, n_groups=2, n_covariates=1)
    posterior, local = problem.posterior, problem.rows.start(problem.posterior)
    for _ in range(3):
        local, stats = problem.rows.step(posterior, local)
        posterior, _ = global_step(stats, posterior, problem.spec)
    _, stats = problem.rows.step(posterior, local)
    unit = np.array([0.1, 3.0, 1.0])
    _, scaled = problem.rows.step(posterior.in_units(unit), local)
    own = np.append(unit, 1.0)
    grouped = stats.groups.zz / own[:, None] / own
    np.testing.assert_allclose(scaled.groups.zz, grouped, rtol=1e-9)
    ordered, _, _ = order_factors(posterior, stats, problem.spec)
    squares = np.diagonal(stats.zz)[:3] / 30
    expected = posterior.activity.mean * squares
    np.testing.assert_allclose(np.sort(ordered.activity.mean), np.sort(expected), rtol=1e-9)


def test_a_prior_of_the_activity() -> None:
    assert Priors(activity=(1, 2)).activity == (1.0, 2.0)
    with pytest.raises(ValueError, match="activity"):
        Priors(activity=(0, 1))
