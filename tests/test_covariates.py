"""Covariates: known inputs that take no factor, with effects that are found, and needed again for new rows."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cases import Problem, covariances, make_problem
from commands import sshiba as sshiba_command
from scipy.stats import multivariate_normal, norm

import sshiba
from sshiba import SSHIBA, Real, plots
from sshiba.core import local_step, machine
from sshiba.core.blocks import Block
from sshiba.core.bound import elbo
from sshiba.core.coded import CodedView
from sshiba.core.devices import Device
from sshiba.core.global_step import global_step
from sshiba.core.likelihoods import Gaussian
from sshiba.core.messages import make_messages
from sshiba.core.spec import KNOWN_PRECISION, ModelSpec, Priors, known_view, view_spec
from sshiba.core.start import posterior_along, random_factors
from sshiba.core.state import Fixed, Posterior, WeightCovariance
from sshiba.core.work import n_operations
from sshiba.data.types import Binary, Categorical
from sshiba.engines import make_rows, memory
from sshiba.engines.memory import MemoryRows
from sshiba.fitted.inference import infer_factors, log_likelihood
from sshiba.fitting.budget import FitOptions
from sshiba.fitting.loop import Fit, StartingPoint, run

N = 150
LABELS = ("first", "second", "third")


def truth(seed: int = 0, n: int = N) -> dict[str, Any]:
    """Two factors, three batches and an age in seven numbers, and a label."""
    rng = np.random.default_rng(seed)
    z, W = rng.standard_normal((n, 2)), rng.standard_normal((7, 2))
    batch, age = rng.integers(0, 3, n), rng.normal(50, 10, n)
    shifts, slope = np.vstack([np.zeros(7), rng.normal(0, 2, (2, 7))]), rng.normal(0, 0.1, 7)
    x = z @ W.T + shifts[batch] + age[:, None] * slope + 0.4 * rng.standard_normal((n, 7))
    table = pd.DataFrame(x, columns=[f"x{d}" for d in range(7)])
    label = np.where(z[:, 0] + 0.5 * rng.standard_normal(n) > 0, "ill", "well")
    table = table.assign(kind=label, batch=np.array(LABELS)[batch], age=age)
    return {"table": table, "effects": np.column_stack([shifts[1], shifts[2], slope])}


def fit(data: Any, **options: Any) -> SSHIBA:
    options = {"n_components": 5, "covariates": ["batch", "age"], "search": None, "random_state": 0, **options}
    return SSHIBA(**options).fit(data)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return truth()["table"]


@pytest.fixture(scope="module")
def model(table: pd.DataFrame) -> SSHIBA:
    return fit(table)


# ----------------------------------------------------------------------------------------------- the mathematics


def fixed_weights(problem: Problem) -> Posterior:
    """The same with W, b and tau known, so that rows are normal."""
    views = []
    for view, spec in zip(problem.posterior.views, problem.spec.views):
        if spec.known:
            views.append(view)
            continue
        nothing = WeightCovariance(0 * view.w_cov.basis, view.w_cov.spread, view.w_cov.logdet, view.w_cov.groups)
        rng = np.random.default_rng(1)
        w, b = rng.standard_normal(view.w_mean.shape), rng.standard_normal(len(view.b_mean))
        tau = Fixed(np.linspace(1, 4, len(b)))
        views.append(replace(view, b_mean=b, b_var=0 * b, tau=tau).with_weights(w, nothing))
    return Posterior(tuple(views))


@pytest.mark.parametrize("holes", ["none", "cells"])
def test_rows_are_normal_given_their_covariates(holes: str) -> None:
    """log p(x | c) and E[z | x, c] by dense matrices; c has noise of a thousandth, which is seen in the sixth digit."""
    problem = make_problem([Real()], [5], [holes], n=10, n_covariates=2)
    posterior = fixed_weights(problem)
    view, (rows, known) = posterior.views[0], problem.data
    w, effects, noise = view.w_mean[:, :3], view.w_mean[:, 3:], np.diag(1 / view.tau.mean)
    total, means = 0.0, []
    for n in range(10):
        seen = np.ones(5, bool) if rows.observed is None else rows.observed[n]
        left = (rows.target[n] - view.b_mean - effects @ known.target[n])[seen]
        cov = (w @ w.T + noise)[np.ix_(seen, seen)]
        total += multivariate_normal(np.zeros(seen.sum()), cov).logpdf(left)
        means.append(w[seen].T @ np.linalg.solve(cov, left))
    assert log_likelihood(problem.rows, posterior) == pytest.approx(total, rel=1e-4)
    found, _ = infer_factors(problem.rows, posterior)
    np.testing.assert_allclose(found, means, atol=1e-4)


def test_every_block_is_stationary() -> None:
    """After an update no change of W, its covariance or tau raises the bound; covariates stay what they are."""
    problem = make_problem([Real(select_features=True)], [5], ["cells"], n=20, n_covariates=2)
    _, stats = problem.rows.step(problem.posterior, problem.rows.start(problem.posterior))
    posterior = global_step(stats, problem.posterior, problem.spec)[0]
    posterior = Posterior((global_step(stats, posterior, problem.spec)[0].views[0], posterior.views[1]))
    assert posterior.views[1] is problem.posterior.views[1]
    view = global_step(stats, posterior, problem.spec)[0].views[0]
    rng = np.random.default_rng(0)

    def bound(w: np.ndarray) -> float:
        fresh = replace(posterior.views[0], gamma=posterior.views[0].gamma).with_weights(w, view.w_cov)
        return sum(elbo(Posterior((fresh, posterior.views[1])), stats, problem.spec).values())

    best = bound(view.w_mean)
    for _ in range(5):
        step = 1e-3 * rng.standard_normal(view.w_mean.shape)
        assert bound(view.w_mean + step) < best
        assert bound(view.w_mean - step) < best
        np.testing.assert_allclose(bound(view.w_mean + step), bound(view.w_mean - step), rtol=0, atol=1e-6)


def test_a_birth_stands_before_the_covariates() -> None:
    problem = make_problem([Real(), Binary()], [5, 4], ["none", "cells"], n=20, n_covariates=2)
    born = random_factors(problem.spec, 1, problem.rows.groups, np.random.default_rng(0))
    joined, old = problem.posterior.add_factors(born, 0.5), [0, 1, 2, 4, 5]
    assert (joined.n_components, joined.n_known) == (4, 2)
    for mine, new, both in zip(problem.posterior.views[:2], born.views, joined.views):
        np.testing.assert_array_equal(both.w_mean[:, old], mine.w_mean)
        np.testing.assert_array_equal(both.w_mean[:, 3], 0.5 * new.w_mean[:, 0])
        np.testing.assert_allclose(both.alpha.mean[3], new.alpha.mean[0] / 0.25)
        for d, cov in enumerate(covariances(both.w_cov)):
            np.testing.assert_allclose(cov[np.ix_(old, old)], covariances(mine.w_cov)[d])
            np.testing.assert_allclose(cov[3], np.eye(6)[3] * 0.25 * covariances(new.w_cov)[d][0, 0])


def test_a_start_is_that_of_what_covariates_leave() -> None:
    """The leading directions of the residuals of a regression, and the regression itself; the same in Gram space."""
    problem = make_problem([Real(), Real()], [6, 4], ["none", "none"], n=40, n_covariates=2)
    x, c = np.hstack([view.target for view in problem.data[:2]]), problem.data[2].target
    scale, size = np.linalg.norm(x, axis=0), np.linalg.norm(c, axis=0)
    slopes = np.linalg.lstsq(c, x, rcond=None)[0]
    left = x - c @ slopes
    share = np.linalg.norm(left, axis=0)
    _, values, axes = np.linalg.svd(left / share)
    for space in ("memory", "gram"):
        found = replace(problem, space=space).rows.directions(3)
        np.testing.assert_allclose(found[:10, 3:], (slopes * size[:, None] / scale).T, atol=1e-9)
        expected = (share / scale)[:, None] * axes[:3].T * values[:3]
        np.testing.assert_allclose(np.abs(found[:10, :3]), np.abs(expected), atol=1e-9)
        assert not found[10:].any()


def test_the_log_evidence_is_that_of_what_covariates_leave() -> None:
    """Turn the rows so that the covariates stand in the first C of them, and 1 is even over the others. These are rows
    without covariates, whose log evidence is checked elsewhere; the first ones are N(0, 100 s²) but for a thousandth.
    """
    rng, n, n_known = np.random.default_rng(0), 60, 2
    x = rng.standard_normal((n, 3)) @ rng.standard_normal((3, 8)) + 0.7 * rng.standard_normal((n, 8))
    c = rng.standard_normal((n, n_known))
    c = (c - c.mean(axis=0)) / c.std(axis=0)
    x = (x - x.mean(axis=0)) / x.std(axis=0) + 0.5 * c @ rng.standard_normal((n_known, 8))
    axes, sizes, _ = np.linalg.svd(c)
    along_one = axes[:, n_known:].T @ np.ones(n)
    apart = along_one - np.linalg.norm(along_one) / np.sqrt(n - n_known)
    others = axes[:, n_known:] @ (np.eye(n - n_known) - 2 * np.outer(apart, apart) / (apart @ apart))
    of_first = norm.logpdf(axes[:, :n_known].T @ x, 0, np.sqrt(100 * sizes[:, None] ** 2 + 1)).sum()
    fits = [run_on(x, c), run_on(others.T @ x, None)]
    assert [fit.state.posterior.n_components for fit in fits] == [3, 3]
    with_c, without = fits
    assert with_c.state.bound - without.state.bound - of_first < -5
    assert -1.5 < with_c.log_evidence - without.log_evidence - of_first < 0.5


def run_on(x: np.ndarray, c: np.ndarray | None) -> Fit:
    n, d = x.shape
    specs = [view_spec("x", Gaussian(), "feature", np.full(d, float(n)), np.ones(d), Priors())]
    data = [CodedView(x, None)]
    if c is not None:
        specs.append(known_view("c", c.shape[1]))
        data.append(CodedView(c, None))
    rows = make_rows(data, ModelSpec(tuple(specs)), 5)
    start = posterior_along(rows.spec, rows.groups, rows.directions(5), np.random.default_rng(0))
    return run(rows, StartingPoint(start, 5), FitOptions(max_iter=500, tol=1e-6, prune_tol=1e-6, rotate=True))


# ----------------------------------------------------------------------------------------------------- what is found


def test_no_factor_is_spent_on_covariates(table: pd.DataFrame, model: SSHIBA) -> None:
    assert model.n_components_ == 2
    known = np.column_stack([pd.get_dummies(table["batch"]), table["age"]]).astype(float)
    known -= known.mean(axis=0)
    correlation = np.corrcoef(np.hstack([model.factors_, known]).T)[:2, 2:]
    assert np.abs(correlation).max() < 0.02
    assert fit(table.drop(columns="age"), covariates=None).n_components_ > 2
    assert list(model.r2_.index) == ["factor 1", "factor 2", "covariates", "all"]
    assert model.r2_.loc["covariates", "numeric"] > 0.4


def test_effects_are_found_with_intervals_that_cover() -> None:
    """Factors and effects are known together only: intervals of effects given the factors hold 55 % of them."""
    inside = []
    for seed in range(6):
        case = truth(seed, 60)
        model = fit(case["table"].drop(columns="kind"), max_iter=100, tol=1e-5)
        own = model.covariate_effects_.loc["numeric"]
        assert list(own.loc["x0"].index) == ["batch=second", "batch=third", "age"]
        true = case["effects"].ravel()
        inside.append((own["low"] < true) & (true < own["high"]))
    assert 0.88 < np.mean(inside) < 1


def test_units_of_a_covariate_do_not_matter(table: pd.DataFrame, model: SSHIBA) -> None:
    other = fit(table.assign(age=365 * table["age"] - 4000))
    assert other.elbo_ == pytest.approx(model.elbo_, rel=1e-9)
    np.testing.assert_allclose(other.factors_, model.factors_, atol=1e-5)
    days = other.covariate_effects_.xs("age", level="covariate")
    years = model.covariate_effects_.xs("age", level="covariate")
    np.testing.assert_allclose(365 * days["effect"], years["effect"], rtol=1e-4, atol=1e-6)


def test_a_bound_with_covariates_is_one_of_the_data_alone(table: pd.DataFrame, model: SSHIBA) -> None:
    """A covariate that has nothing to do with the data costs some nats a feature, and adds no density of its own."""
    noise = table.assign(noise=np.random.default_rng(1).standard_normal(N))
    more = fit(noise, covariates=["batch", "age", "noise"])
    assert model.elbo_ - 60 < more.elbo_ < model.elbo_
    assert model.score(table) > fit(table.drop(columns=["batch", "age"]), covariates=None).score(table) + 2


# --------------------------------------------------------------------------------------------------- the user's data


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_dict_of_views_has_them_beside(table: pd.DataFrame, model: SSHIBA) -> None:
    """As an entry of any name, as columns of the entry "covariates", as arrays; rows go by their labels."""
    views = {"numeric": table.filter(like="x"), "kind": table["kind"]}
    shuffled = table[["batch", "age"]].sample(frac=1, random_state=0)
    for extra, names in (
        ({"clinic": shuffled}, "clinic"),
        ({"covariates": shuffled.assign(other=1.0)}, ["batch", "age"]),
        ({"batch": shuffled["batch"], "age": table["age"]}, {"batch": "categorical", "age": Real()}),
    ):
        other = fit({**views, **extra}, covariates=names)
        assert other.elbo_ == pytest.approx(model.elbo_, rel=1e-9)
        np.testing.assert_allclose(other.transform({**views, **extra}), model.transform(table), atol=1e-6)
        with pytest.raises(ValueError, match=r"are missing.*covariates='mean'"):
            other.transform(views)
    arrays = {name: value.to_numpy() for name, value in {**views, "age": table[["age"]]}.items()}
    assert list(fit(arrays, covariates="age", max_iter=20).covariate_effects_.loc["numeric"].loc[0].index) == ["age"]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_that_only_covariates_have_are_no_rows(table: pd.DataFrame) -> None:
    half = {"numeric": table.filter(like="x").iloc[:80], "clinic": table[["batch", "age"]]}
    model = fit(half, covariates="clinic", max_iter=30)
    assert len(model.factors_) == 80


def test_what_is_missing_is_taken_at_the_average(table: pd.DataFrame, model: SSHIBA) -> None:
    mean, share = table["age"].mean(), [np.mean(table["batch"] == label) for label in LABELS[1:]]
    rows = table.head(4)
    with pytest.warns(UserWarning, match=r"covariate 'age': 4 values missing, taken at its mean"):
        found = model.transform(rows.assign(age=np.nan))
    np.testing.assert_allclose(found, model.transform(rows.assign(age=mean)), atol=1e-9)
    np.testing.assert_allclose(found, model.transform(rows.drop(columns="age"), covariates="mean"), atol=1e-9)
    with pytest.warns(UserWarning, match=r"covariate 'batch': 'fourth' unseen in training, 4 rows"):
        unseen = model.predict(rows.assign(batch="fourth"), "x0", use_target=True)
    gone = model.predict(rows.drop(columns="batch"), "x0", use_target=True, covariates="mean")
    np.testing.assert_allclose(unseen, gone)
    alone = (
        model.predict(rows[["age"]], covariates="mean")["x0"] - model.predict(rows[["age"]].assign(batch="first"))["x0"]
    )
    effects = model.covariate_effects_.loc["numeric"].loc["x0", "effect"]
    np.testing.assert_allclose(alone, share @ effects[:2], rtol=1e-5)
    with pytest.raises(ValueError, match=r"must be None .* or 'mean'"):
        model.transform(table, covariates="median")


def test_answers_know_the_covariates(table: pd.DataFrame, model: SSHIBA) -> None:
    """Holes are filled with what the batch does; draws have it; covariates themselves are no target."""
    holes = table.assign(x0=np.nan)
    error = model.impute(holes)["x0"] - table["x0"]
    assert error.std() < 0.5 * table["x0"].std()
    assert model.impute(holes)["batch"].equals(table["batch"])
    given = pd.DataFrame({"batch": ["second"] * 400, "age": 50.0})
    drawn, usual = model.sample(400, 0, covariates=given), model.sample(400, 0, covariates=given.assign(batch="first"))
    effect = model.covariate_effects_.loc[("numeric", "x1", "batch=second"), "effect"]
    assert (drawn["x1"] - usual["x1"]).mean() == pytest.approx(effect, abs=0.1 * abs(effect))
    assert list(model.sample(2)) == [f"x{d}" for d in range(7)] + ["kind"]
    with pytest.raises(ValueError, match="unknown target"):
        model.predict(table, "batch")
    assert set(model.influence("kind")) == {"numeric"}


def test_files_hold_them(table: pd.DataFrame, model: SSHIBA, tmp_path: Path) -> None:
    model.save(tmp_path / "m.sshiba")
    again = sshiba.load(tmp_path / "m.sshiba")
    pd.testing.assert_frame_equal(again.covariate_effects_, model.covariate_effects_)
    pd.testing.assert_frame_equal(again.transform(table), model.transform(table), check_exact=True)
    stopped = fit(table, max_iter=5)
    stopped.save(tmp_path / "stopped.sshiba")
    went_on = sshiba.load(tmp_path / "stopped.sshiba").set_params(max_iter=2000).resume(table)
    assert went_on.elbo_ == pytest.approx(model.elbo_, rel=1e-4)
    with pytest.raises(ValueError, match=r"covariates was .* in the interrupted fit"):
        sshiba.load(tmp_path / "stopped.sshiba").set_params(covariates=["age"]).resume(table)


@pytest.mark.parametrize(
    ("covariates", "change", "message"),
    [
        (["bath"], {}, "there is no column 'bath'"),
        (pd.DataFrame({"a": [1]}), {}, "A frame of them is given to fit"),
        ({"age": "ordinal"}, {}, "must be 'real' or 'categorical'"),
        ({"batch": "real"}, {}, "covariate 'batch' cannot be 'real': it holds text, first .*: if they are labels, say"),
        (["batch"], {"batch": [f"sample {i}" for i in range(N)]}, "different text in every row"),
        (["age"], {"covariates": ["a", "b"] * (N // 2)}, "cannot be called 'covariates'"),
    ],
)
def test_what_cannot_be_a_covariate(covariates: Any, change: dict[str, Any], message: str, table: pd.DataFrame) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        fit(table.assign(**change), covariates=covariates)


@pytest.mark.usefixtures("with_search")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_evaluation_keeps_covariates_in_sight(table: pd.DataFrame) -> None:
    """They are shown to every refit, and never hidden or judged; a search shows them, too."""
    model = fit(table, search="auto", max_iter=15)
    assert set(model.search_.filter(like="score").columns) == {"score numeric", "score kind"}
    short = fit(table, max_iter=15)
    found = sshiba.evaluate.holdout(short, table)
    assert list(found.index) == ["numeric", "kind"]
    assert found.loc["numeric", "rmse"] < 0.5
    assert len(sshiba.evaluate.stability(short, table, n=1, kind="bootstrap").table) == short.n_components_


@pytest.mark.parametrize("space", ["memory", "gram"])
def test_rows_know_their_covariates(space: str) -> None:
    """To a thousandth of their deviation, beside labels and holes."""
    problem = make_problem([Real(), Binary(), Categorical()], [6, 4, 3], ["cells", "rows", "none"], n_covariates=1)
    rows = replace(problem, space=space, block_rows=7).rows
    _, stats = rows.step(problem.posterior, rows.start(problem.posterior))
    exact = float(np.sum(problem.data[3].target ** 2))
    assert stats.zz[3, 3] == pytest.approx(exact, rel=100 / KNOWN_PRECISION)


def test_rows_have_room_for_all_their_covariates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row of a block has a covariance of z, which the labels of a batch make large."""
    problem = make_problem([Real(), Binary()], [6, 4], ["cells", "cells"], n=200, n_components=2, n_covariates=40)
    sizes: list[int] = []

    def settle(block: Block, *rest: Any) -> Any:
        sizes.append(block.n)
        return local_step.settle(block, *rest)

    monkeypatch.setattr(memory, "settle", settle)
    of_a_row = 32 * problem.posterior.n_factors**2
    device = Device(block_bytes=100 * of_a_row, part_bytes=20 * of_a_row)
    rows = MemoryRows(problem.data, problem.spec, 2, block_rows=200, device=device)
    for posterior in (problem.posterior, make_messages(problem.posterior, problem.spec, rows.groups)):
        rows.settle(posterior, rows.start(posterior))
        assert len(list(rows.infer(posterior))) > 10
    assert max(sizes) <= 20
    assert max(block.n for block in MemoryRows(problem.data, problem.spec, 2, device=device).blocks) <= 20


def test_work_is_counted_with_covariates() -> None:
    data, specs = [], []
    for n_covariates in (0, 30):
        problem = make_problem([Real()], [40], ["cells"], n=50, n_components=2, n_covariates=n_covariates)
        data.append(problem.data)
        specs.append(problem.spec)
    few, many = (n_operations(own, spec, 2) for own, spec in zip(data, specs))
    assert many > 100 * few


def test_pictures_reports_and_tables_show_their_effects(table: pd.DataFrame, model: SSHIBA, tmp_path: Path) -> None:
    numbers = plots.covariate_effects_data(model)
    assert len(numbers) == 9 * 3
    assert numbers["effect"].abs().is_monotonic_decreasing
    age = plots.covariate_effects_data(model, "age").set_index("feature").loc["x2", "effect"]
    own = model.covariate_effects_.loc["numeric"].loc[("x2", "age"), "effect"]
    assert age == pytest.approx(own * table["age"].std(ddof=0) / table["x2"].std(ddof=0))
    assert len(plots.covariate_effects(model, n=5).get_yticks()) == 5
    assert list(plots.variance_explained_data(model).index) == ["factor 1", "factor 2"]
    with pytest.raises(ValueError, match="there is no effect of 'batch'"):
        plots.covariate_effects(model, "batch")
    model.report(tmp_path / "report.html", table, fraction=0)
    parts = json.loads(re.search(r'id="data">(.*?)</script>', (tmp_path / "report.html").read_text())[1])
    assert parts["effects"]["rows"][0][0] in ("batch=second", "batch=third", "age")
    assert "2 factors and the covariates explain" in parts["variance"]["words"]


def test_the_command(table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_csv(tmp_path / "t.csv", index=False)
    words = ["--covariate", "batch=categorical", "--covariate", "age", "--margin", "auto", "-o", "m.sshiba"]
    done = sshiba_command("fit", "t.csv", "--components", 4, *words, cwd=tmp_path)
    assert "covariates: batch (3 labels), age" in done.stderr
    table.drop(columns="age").head(3).to_csv(tmp_path / "new.csv", index=False)
    refused = sshiba_command("transform", "m.sshiba", "new.csv", cwd=tmp_path)
    assert refused.returncode == 2
    assert "'age' are missing" in refused.stderr
    assert "--covariates-at-mean" in refused.stderr
    found = sshiba_command("transform", "m.sshiba", "new.csv", "--covariates-at-mean", cwd=tmp_path)
    assert found.stdout.startswith("factor 1,")
    assert len(found.stdout.splitlines()) == 4
    sshiba_command("export", "m.sshiba", "-o", "tables", cwd=tmp_path)
    effects = pd.read_csv(tmp_path / "tables" / "covariate_effects.csv")
    assert set(effects["covariate"]) == {"batch=second", "batch=third", "age"}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_in_a_file_are_fitted_as_in_memory(
    table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The covariates are columns of a file that is read again in each sweep."""
    monkeypatch.setattr(machine, "LEAST", 1000)
    table.to_parquet(tmp_path / "t.parquet")
    options = {"max_iter": 12, "engine": "memory"}
    here, there = fit(table, **options), fit(tmp_path / "t.parquet", max_memory=20_000, **options)
    assert there.elbo_ == pytest.approx(here.elbo_, rel=1e-9)
    np.testing.assert_allclose(there.transform(tmp_path / "t.parquet"), here.transform(table), atol=1e-7)
