"""Data in which there is nothing to find: a model without factors, and all that it still answers."""

from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest
from cases import Problem, make_problem
from commands import sshiba

from sshiba import SSHIBA, Binary, Categorical, Count, Ordinal, Real, load, plots
from sshiba.core.coded import CodedView
from sshiba.data.types import View
from sshiba.evaluate import holdout, match, stability
from sshiba.files.export import export_model
from sshiba.fitting.budget import Budget, FitOptions
from sshiba.fitting.size import try_larger, try_smaller
from sshiba.fitting.sweep import State, sweep

matplotlib.use("Agg")
from matplotlib import pyplot as plt

N = 200
LABELS = ["low", "middle", "high"]


def noise(kind: str, seed: int = 0) -> dict[str, pd.DataFrame | pd.Series]:
    """Rows that tell nothing of one another's cells, in named frames."""
    rng = np.random.default_rng(seed)
    rows = [f"row {i}" for i in range(N)]
    x = pd.DataFrame(3 + rng.standard_normal((N, 10)), rows, list("abcdefghij"))
    signs = pd.DataFrame(rng.random((N, 5)) < 0.3, rows, list("vwxyz")).astype(float)
    label = pd.Series(rng.choice(LABELS, N, p=[0.6, 0.3, 0.1]), rows, name="label")
    if kind == "holes":
        return {"x": x.mask(rng.random(x.shape) < 0.1), "signs": signs.mask(rng.random(signs.shape) < 0.1)}
    several = {"x": x.iloc[:, :6], "y": x.iloc[:, 6:] * 5}
    return {
        "real": {"x": x},
        "several": several,
        "gaps": {**several, "y": several["y"].iloc[40:]},
        "yes/no": {"x": x, "signs": signs},
        "yes/no alone": {"signs": signs},
        "classes": {"x": x, "label": label.where(np.arange(N) % 7 > 0)},
        "all": {"x": x, "signs": signs, "label": label},
    }[kind]


CASES: dict[str, tuple[str, dict[str, View], dict]] = {
    "real": ("real", {}, {}),
    "real, one noise": ("real", {"x": Real(noise="view")}, {}),
    "real, selected": ("real", {"x": Real(select_features=True)}, {}),
    "real, several": ("several", {}, {"engine": "gram"}),
    "whole rows missing": ("gaps", {}, {}),
    "holes": ("holes", {}, {}),
    "holes, mean-field": ("holes", {}, {"missing": "mean-field"}),
    "yes/no": ("yes/no", {}, {}),
    "yes/no alone": ("yes/no alone", {}, {}),
    "yes/no, logit": ("yes/no", {"signs": Binary(link="logit")}, {"acceleration": None}),
    "classes": ("classes", {}, {}),
    "all": ("all", {"label": Categorical()}, {"n_init": 2}),
}


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> tuple[dict, SSHIBA]:
    kind, types, options = CASES[request.param]
    views = noise(kind)
    return views, SSHIBA(8, types, random_state=0, **options).fit(views)


# ---------------------------------------------------------------------------------------------------- the fit


def test_noise_has_no_factors(case: tuple[dict, SSHIBA]) -> None:
    views, model = case
    assert model.n_components_ == 0
    assert model.converged_
    assert (model.r2_.to_numpy() == 0).all()
    assert list(model.r2_.index) == ["all"]
    assert model.factors_.shape == model.factors_std_.shape == (N, 0)
    for name, weights in model.weights_.items():
        assert weights.shape == (len(model.bias_[name]), 0)
        assert model.factor_relevance_[name].shape == (0,)
        assert np.isfinite(model.feature_relevance_[name]).all()
        assert not model.views_[name].select_features or model.feature_relevance_[name].std() < 1e-6
    assert np.diff(model.elbo_path_[-5:]).min() >= 0


@pytest.mark.parametrize("start", ["principal", "random"])
@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_start(start: str, seed: int) -> None:
    x = np.random.default_rng(seed).standard_normal((N, 10))
    assert SSHIBA(random_state=seed, start=start).fit({"x": x}).n_components_ == 0


def test_a_factor_stays_where_the_bound_is_higher_with_it() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, 10)) + 0.5 * rng.standard_normal((N, 1))
    assert SSHIBA(random_state=0).fit({"x": x}).n_components_ == 1


OTHERS = [Binary(), Categorical(), Ordinal(), Count(size=False)]


@pytest.mark.parametrize("views", [[Real()], *([Real(), other] for other in OTHERS)])
def test_the_trial_without_factors_is_judged_by_the_bound(views: list[View]) -> None:
    """A factor of noise goes because the bound is higher without it, and none is born where it would be lower."""
    x = np.random.default_rng(0).standard_normal((100, 6))
    problem = with_numbers(make_problem(views, [6, 3][: len(views)], ["none", "rows"], n=100, n_components=1), x)
    options = FitOptions(tol=1e-3)
    one = State(problem.posterior, problem.rows.start(problem.posterior))
    for _ in range(60):
        one = sweep(problem.rows, one, rotating=False)
    none = try_smaller(problem.rows, one, options, Budget(options), 1).better
    assert none is not None
    assert (one.posterior.n_components, none.posterior.n_components) == (1, 0)
    assert none.bound > one.bound
    for _ in range(60):
        none = sweep(problem.rows, none, rotating=True, momentum=True)
    assert try_smaller(problem.rows, none, options, Budget(options), 3).better is None
    assert try_larger(problem.rows, none, options, Budget(options), 0).better is None


def with_numbers(problem: Problem, x: np.ndarray) -> Problem:
    """The same with other numbers in the first view."""
    data = [CodedView((x - x.mean(axis=0)) / x.std(axis=0), None), *problem.data[1:]]
    return Problem(data, problem.spec, problem.posterior)


def test_a_factor_is_born_where_there_were_none() -> None:
    """From no factor at all a trial finds one that is there."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, 1)) @ rng.standard_normal((1, 6)) + 0.5 * rng.standard_normal((N, 6))
    problem = with_numbers(make_problem([Real()], [6], ["none"], n=N), x)
    posterior = problem.posterior.select_factors(np.arange(0))
    none = sweep(problem.rows, State(posterior, problem.rows.start(posterior)), rotating=True)
    born = try_larger(problem.rows, none, FitOptions(), Budget(FitOptions()), 0).better
    assert born is not None
    assert born.posterior.n_components == 1
    assert born.bound > none.bound


def test_it_goes_on_from_a_file(tmp_path: Path) -> None:
    views = noise("all")
    whole = SSHIBA(8, random_state=0).fit(views)
    with pytest.warns(match="still rose"):
        short = SSHIBA(8, random_state=0, max_iter=whole.n_iter_ - 2).fit(views)
    short.save(tmp_path / "short.sshiba")
    again = load(tmp_path / "short.sshiba").set_params(max_iter=2000).resume(views)
    assert again.converged_
    assert again.n_components_ == 0
    assert again.elbo_ == pytest.approx(whole.elbo_, abs=0.1)


# ---------------------------------------------------------------------------------------------------- answers


def test_predictions_are_averages(case: tuple[dict, SSHIBA]) -> None:
    views, model = case
    given = {name: view.head(3) for name, view in views.items()}
    for name, view in views.items():
        if model.views_[name].latent:
            found = model.predict_proba(given, name, use_target=True)
            shares = view.value_counts(normalize=True) if name == "label" else view.mean()
            loose = 0.04 if isinstance(model.views_[name], Binary) and model.views_[name].link == "logit" else 0.015
            np.testing.assert_allclose(found, found.head(1).to_numpy().repeat(3, axis=0))
            np.testing.assert_allclose(found.iloc[0], shares[found.columns], atol=loose)
        else:
            mean, std = model.predict(given, name, return_std=True, use_target=True)
            np.testing.assert_allclose(mean.iloc[0], view.mean(), atol=0.05)
            np.testing.assert_allclose(std.iloc[0], view.std(), rtol=0.15)


def test_rows_have_no_coordinates(case: tuple[dict, SSHIBA]) -> None:
    views, model = case
    mean, std = model.transform(views, return_std=True)
    for frame in (mean, std):
        assert frame.shape == (N, 0)
        assert frame.index.equals(model.index_)


def test_holes_are_filled_with_averages(case: tuple[dict, SSHIBA]) -> None:
    views, model = case
    filled, std = model.impute(views, return_std=True)
    for name, view in views.items():
        assert filled[name].notna().all(axis=None)
        before = view.reindex(filled[name].index)
        seen = before.notna()
        assert (filled[name].eq(before) | ~seen).all(axis=None)
        assert ((std[name] > 0) != seen).all(axis=None)


def test_score_and_influence(case: tuple[dict, SSHIBA]) -> None:
    views, model = case
    far = {name: view + 10 if name == "x" else view for name, view in views.items()}
    assert np.isfinite(model.score(views))
    assert ("x" not in views) or model.score(far) < model.score(views)
    for name in views:
        for moved in model.influence(name).values():
            assert (moved == 0).all()


def test_draws_are_noise(case: tuple[dict, SSHIBA]) -> None:
    views, model = case
    drawn = model.sample(2000, random_state=0)
    for name, view in views.items():
        assert len(drawn[name]) == 2000
        if not model.views_[name].latent:
            np.testing.assert_allclose(drawn[name].mean(), view.mean(), atol=0.1 * view.std().max())
            np.testing.assert_allclose(drawn[name].std(), view.std(), rtol=0.1)


def test_the_score_of_real_noise_is_that_of_its_normal_distributions() -> None:
    views = noise("several")
    model = SSHIBA(8, random_state=0).fit(views)
    both = pd.concat(views.values(), axis=1)
    expected = -0.5 * (1 + np.log(2 * np.pi * both.var(ddof=0))).sum()
    assert model.score(views) == pytest.approx(expected, abs=0.15)


# ------------------------------------------------------------------------------------- files, pictures, report


def test_saved_and_read(case: tuple[dict, SSHIBA], tmp_path: Path) -> None:
    views, model = case
    model.save(tmp_path / "m.sshiba")
    again = load(tmp_path / "m.sshiba")
    assert again.n_components_ == 0
    assert again.score(views) == model.score(views)
    pd.testing.assert_frame_equal(again.transform(views), model.transform(views))
    tables = {path.stem: pd.read_csv(path, index_col=0) for path in export_model(model.fitted_, tmp_path / "tables")}
    assert tables["factors"].shape == (N, 0)
    assert list(tables["r2"].index) == ["all"]


def test_a_mofa_file(case: tuple[dict, SSHIBA], tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="needs the extra 'mofa'")
    case[1].to_mofa_hdf5(tmp_path / "m.hdf5")
    with h5py.File(tmp_path / "m.hdf5") as file:
        assert file["expectations/Z/group1"].shape == (0, N)


def test_annotated_data() -> None:
    anndata = pytest.importorskip("anndata", reason="needs the extra 'mudata'")
    data = anndata.AnnData(noise("real")["x"])
    model = SSHIBA(8, random_state=0).fit(data)
    model.write_to(data)
    assert data.obsm["X_sshiba"].shape == (N, 0)
    assert data.varm["sshiba"].shape == (10, 0)


@pytest.mark.parametrize("name", ["variance_explained", "factor_relevance", "factors", "factor_correlation", "weights"])
def test_pictures_say_that_there_are_no_factors(name: str, case: tuple[dict, SSHIBA]) -> None:
    views, model = case
    more = (next(iter(views)),) if name == "weights" else ()
    ax = getattr(plots, name)(model, *more)
    assert [text.get_text() for text in ax.texts] == ["no factors"]
    own = plt.figure().subplots()
    assert getattr(plots, name)(model, *more, ax=own) is own
    plt.close("all")
    if name != "factors":
        assert len(getattr(plots, f"{name}_data")(model, *more)) == 0


def test_the_other_pictures(case: tuple[dict, SSHIBA]) -> None:
    views, model = case
    plots.elbo(model)
    plots.overview(model, views)
    for name in views:
        plots.feature_relevance(model, name)
        assert len(plots.feature_relevance_data(model, name)) == len(model.bias_[name])
    plt.close("all")
    with pytest.raises(ValueError, match="there is no factor 1; the model has 0"):
        plots.factors_data(model)
    with pytest.raises(ValueError, match="unknown view 'q'"):
        plots.weights(model, "q")


def test_report(case: tuple[dict, SSHIBA], tmp_path: Path) -> None:
    pytest.importorskip("plotly", reason="needs the extra 'report'")
    views, model = case
    model.report(tmp_path / "r.html", views, fraction=0)
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "No factor was found" in page
    assert "There are no factors." in page


def test_held_out_cells_and_stability() -> None:
    views = noise("yes/no")
    model = SSHIBA(8, random_state=0).fit(views)
    assert holdout(model, views)["r2"].loc["x"] == pytest.approx(0, abs=0.02)
    for kind in ("restarts", "bootstrap"):
        found = stability(model, views, n=2, kind=kind)
        assert found.table.empty
        assert repr(found).startswith("0 of 0 factors stable")
    assert [text.get_text() for text in plots.stability(found).texts] == ["no factors"]
    assert match([model, model]).empty
    plt.close("all")


def test_the_command(tmp_path: Path) -> None:
    noise("all")["x"].assign(label=noise("all")["label"]).rename_axis("id").to_csv(tmp_path / "noise.csv")
    done = sshiba("fit", "noise.csv", "--index", "id", "-o", "m.sshiba", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "0 factors; converged" in done.stderr
    done = sshiba("stability", "m.sshiba", "noise.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.strip() == "Error: the model has no factors."
