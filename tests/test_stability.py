"""Factors of several fits matched with one another: which of them other starts and other rows find again."""

from dataclasses import replace

import anndata
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from matplotlib import pyplot as plt
from sklearn.exceptions import NotFittedError

from sshiba import SSHIBA, Binary, Categorical, Priors, plots
from sshiba.evaluate import Stability, match, stability
from sshiba.evaluate.hiding import take_drawn

N = 150


def planted(seed: int = 0, n: int = N) -> dict[str, np.ndarray]:
    """Three factors, one of each view and one of both: no turn of the axes is as good."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, 3))
    own, shared = np.repeat([1.0, 0.0], [8, 4]), np.repeat([0.0, 1.0], [4, 8])
    weights = rng.uniform(0.7, 1.3, (2, 2, 12)) * [own, shared]
    noise = 0.6 * rng.standard_normal((2, n, 12))
    return {"a": z[:, [0, 2]] @ weights[0] + noise[0], "b": z[:, [1, 2]] @ weights[1] + noise[1]}


@pytest.fixture(scope="module")
def views() -> dict[str, np.ndarray]:
    return planted()


@pytest.fixture(scope="module")
def model(views: dict) -> SSHIBA:
    return SSHIBA(6, random_state=0).fit(views)


@pytest.fixture(scope="module")
def both(model: SSHIBA, views: dict) -> list[Stability]:
    return [stability(model, views, n=4, kind=kind) for kind in ("restarts", "bootstrap")]


def turned(model: SSHIBA, order: list[int], signs: list[float]) -> object:
    """The same fit with its factors in another order, some of them upside down."""
    fit = model.fitted_
    return replace(fit, posterior=fit.posterior.select_factors(np.array(order), np.array(signs)))


# --------------------------------------------------------------------------------------------------------- match


def test_a_permuted_and_flipped_copy_matches_perfectly(model: SSHIBA) -> None:
    assert model.n_components_ == 3
    table = match([model, turned(model, [2, 0, 1], [1.0, -1.0, -1.0]), model])
    assert list(table.columns) == ["model", "factor", "match", "sign", "congruence"]
    assert table["model"].tolist() == [1, 1, 1, 2, 2, 2]
    assert table["factor"].tolist() == ["factor 1", "factor 2", "factor 3"] * 2
    assert table["match"].tolist() == ["factor 2", "factor 3", "factor 1", "factor 1", "factor 2", "factor 3"]
    assert table["sign"].tolist() == [-1, -1, 1, 1, 1, 1]
    np.testing.assert_allclose(table["congruence"], 1.0, atol=1e-12)


def test_factors_that_a_model_lacks_have_no_match(model: SSHIBA) -> None:
    table = match([model, turned(model, [1], [1.0])]).set_index("factor")
    assert table["match"].tolist() == [None, "factor 1", None]
    np.testing.assert_allclose(table["congruence"], [0.0, 1.0, 0.0], atol=1e-12)
    assert match([turned(model, [1], [1.0]), model])["match"].tolist() == ["factor 2"]


def test_units_of_the_data_do_not_count(model: SSHIBA, views: dict) -> None:
    grams = {"b": 1000 * views["b"], "a": 5 + views["a"] * np.linspace(0.2, 5, 12)}
    assert match([model, SSHIBA(6, random_state=0).fit(grams)])["congruence"].min() > 0.999


def test_pairs_have_the_largest_sum(model: SSHIBA) -> None:
    """Two copies of one factor: the better one goes to whom it helps more, and each is given away once."""
    one, two = model.fitted_, turned(model, [0, 0, 1], [1.0, 1.0, 1.0])
    table = match([one, two])
    assert sorted(table["match"]) == ["factor 1", "factor 2", "factor 3"]
    assert (table["congruence"] > 0.99).sum() == 2


def test_models_that_cannot_be_matched(model: SSHIBA, views: dict) -> None:
    with pytest.raises(ValueError, match="two models or more, not 1"):
        match([model])
    with pytest.raises(NotFittedError):
        match([model, SSHIBA(3)])
    quick = {"n_components": 3, "max_iter": 5, "tol": 0.9}
    with pytest.raises(ValueError, match="different views"):
        match([model, SSHIBA(**quick).fit({"a": views["a"]})])
    with pytest.raises(ValueError, match="view 'a' has other features"):
        match([model, SSHIBA(**quick).fit({**views, "a": views["a"][:, 1:]})])
    labels = [{"b": views["b"], "y": np.resize(list(letters), N)} for letters in ("xyz", "xyw")]
    with pytest.raises(ValueError, match="view 'y' has other classes"):
        match([SSHIBA(**quick).fit(one) for one in labels])


# ----------------------------------------------------------------------------------------------------- stability


def test_planted_factors_are_stable(both: list[Stability]) -> None:
    restarts, bootstrap = both
    assert restarts.table["mean"].min() >= 0.99
    assert restarts.table["stable"].tolist() == [True] * 3
    assert bootstrap.table["mean"].min() >= 0.95
    assert list(restarts.table.index) == ["factor 1", "factor 2", "factor 3"]
    assert restarts.congruence.shape == (4, 3)
    assert restarts.n_components == (3, 3, 3, 3)
    for found in both:
        assert (found.table["low"] <= found.table["high"]).all()
    assert len(set(restarts.elbos)) == 4, "the starts are random"


def test_a_factor_of_noise_is_not_stable(views: dict) -> None:
    """Noise fitted as if it were a factor: other rows, and other starts, do not find it again."""
    rng = np.random.default_rng(3)
    noisy = {**views, "noise": rng.standard_normal((N, 12))}
    first = SSHIBA(6, random_state=0).fit(noisy)
    view = first.fitted_.posterior.views
    spoiled = tuple(
        replace(q, w_mean=np.column_stack([q.w_mean[:, :2], rng.standard_normal(len(q.w_mean)) * (i == 2)]))
        for i, q in enumerate(view)
    )
    fit = replace(first.fitted_, posterior=replace(first.fitted_.posterior, views=spoiled))
    first.fitted_ = fit
    found = stability(first, noisy, n=3)
    assert found.table["stable"].tolist() == [True, True, False]
    assert found.table["mean"].iloc[2] < 0.5


def test_the_same_seed_the_same_answer(model: SSHIBA, views: dict, both: list[Stability]) -> None:
    again = stability(model, views, n=2, kind="bootstrap")
    pd.testing.assert_frame_equal(again.congruence, both[1].congruence.head(2))
    other = stability(model, views, n=2, kind="bootstrap", random_state=1)
    assert not np.allclose(other.congruence, again.congruence)


def test_it_reads_well(both: list[Stability]) -> None:
    for found, words in zip(both, ("4 restarts, which found 3", "4 bootstraps, which found 3 to 5")):
        assert repr(found).splitlines()[0] == f"3 of 3 factors stable (mean of 0.95 or more) over {words}"
    lines = repr(both[1]).splitlines()
    assert lines[1].split() == ["mean", "low", "high", "stable"]
    assert lines[2].startswith("factor 1")
    assert lines[2].endswith(("yes", "no"))


def mixed(views: dict) -> dict:
    """Frames with names, one of which lacks rows; yes and no; labels with a rare one; holes."""
    names = [f"row {i}" for i in range(N)]
    labels = np.array(["low", "high"])[(views["b"][:, 0] > 0).astype(int)]
    labels[:3] = "rare"
    a = pd.DataFrame(views["a"], names).mask(np.random.default_rng(0).random(views["a"].shape) < 0.1)
    return {
        "a": a,
        "b": pd.DataFrame(views["b"], names).iloc[20:],
        "signs": pd.DataFrame(views["a"][:, :4] > 0, names).astype(int),
        "kind": pd.Series(labels, names, dtype="category"),
    }


@pytest.mark.parametrize(
    ("container", "kind"),
    [
        ("frames", "bootstrap"),
        ("lists", "bootstrap"),
        ("table", "bootstrap"),
        ("polars", "bootstrap"),
        ("polars", "restarts"),
        ("arrow", "bootstrap"),
        ("anndata", "bootstrap"),
        ("anndata", "restarts"),
    ],
)
def test_all_that_a_fit_takes(container: str, kind: str, views: dict) -> None:
    frames = mixed(views)
    table = frames["signs"].add_prefix("s").assign(kind=frames["kind"]).join(frames["a"].add_prefix("a"))
    given = {
        "frames": frames,
        "lists": {"a": views["a"].tolist(), "kind": frames["kind"].tolist()},
        "table": table,
        "polars": pl.from_pandas(table),
        "arrow": {"a": pa.table(frames["a"].add_prefix("a")), "kind": pa.table({"kind": frames["kind"].tolist()})},
        "anndata": anndata.AnnData(frames["a"].rename(columns=str)),
    }[container]
    first = SSHIBA(4, random_state=0, max_iter=25, tol=1e-4).fit(given)
    found = stability(first, given, n=1, kind=kind)
    assert found.congruence.shape == (1, first.n_components_)
    assert found.congruence.max().max() > 0.7


def test_a_draw_has_the_rows_that_were_drawn(views: dict) -> None:
    frames = mixed(views)
    rows = np.array([0, 30, 30, 25])
    index = frames["a"].index
    drawn = {name: take_drawn(value, index, rows) for name, value in frames.items()}
    np.testing.assert_array_equal(drawn["a"], frames["a"].iloc[rows])
    assert drawn["a"].index.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(drawn["b"], frames["b"].loc[["row 30", "row 30", "row 25"]])
    assert drawn["b"].index.tolist() == [1, 2, 3]
    assert drawn["kind"].dtype == frames["kind"].dtype


def test_a_class_of_one_row_stays_in_every_draw(views: dict) -> None:
    labels = np.where(np.arange(N) == 7, "once", np.where(views["b"][:, 0] > 0, "high", "low"))
    given = {"b": views["b"], "kind": labels}
    first = SSHIBA(3, {"kind": Categorical()}, random_state=0, max_iter=20, tol=1e-4).fit(given)
    assert stability(first, given, n=5, kind="bootstrap").congruence.shape[0] == 5


def test_cells_that_no_draw_keeps(views: dict) -> None:
    sparse = np.where(np.eye(N, 60, dtype=bool), views["a"][:, :1], np.nan)
    given = {"b": views["b"], "sparse": sparse}
    first = SSHIBA(3, random_state=0, max_iter=5, tol=0.5).fit(given)
    with pytest.raises(ValueError, match="hardly any row has"):
        stability(first, given, n=1, kind="bootstrap")


def test_what_is_refused(model: SSHIBA, views: dict) -> None:
    with pytest.raises(NotFittedError):
        stability(SSHIBA(3), views)
    for n in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match="n must be a whole number"):
            stability(model, views, n=n)
    with pytest.raises(ValueError, match="kind must be one of"):
        stability(model, views, kind="jackknife")
    with pytest.raises(ValueError, match="lack view 'b'"):
        stability(model, {"a": views["a"]})
    with pytest.raises(ValueError, match="they have 10 rows, the fit 150"):
        stability(model, {name: view[:10] for name, view in views.items()})
    with pytest.raises(ValueError, match="start must be one of"):
        SSHIBA(3, start="zero").fit(views)


def test_ctrl_c_keeps_the_refits_that_are_done(
    model: SSHIBA, views: dict, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fits, whole = [], SSHIBA.fit

    def fit(self: SSHIBA, given: dict) -> SSHIBA:
        fits.append(self)
        if len(fits) == stop:
            raise KeyboardInterrupt
        return whole(self, given)

    monkeypatch.setattr(SSHIBA, "fit", fit)
    stop = 3
    assert len(stability(model, views, n=5).congruence) == 2
    assert "2 of 5 refits are kept" in caplog.text
    stop = 4
    with pytest.raises(KeyboardInterrupt):
        stability(model, views, n=5)


def test_refits_have_the_settings_of_the_fit(views: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, whole = [], SSHIBA.fit
    first = SSHIBA(4, {"b": Binary()}, n_init=2, tol=1e-3, random_state=0, callback=lambda _: None)
    given = {**views, "b": (views["b"] > 0).astype(int)}
    first.fit(given)
    monkeypatch.setattr(SSHIBA, "fit", lambda self, data: whole(seen.append(self) or self, data))
    first.set_params(n_components=1, tol=0.5)
    stability(first, given, n=1)
    stability(first, given, n=1, kind="bootstrap")
    assert [refit.start for refit in seen] == ["random", "principal"]
    for refit in seen:
        assert (refit.n_components, refit.n_init, refit.tol, refit.callback) == (4, 2, 1e-3, None)
        assert refit.views_["b"] == Binary()


@pytest.mark.parametrize("settings", [{"keep": "all"}, {"keep": "fewest"}, {"priors": Priors(alpha=(1.0, 0.1))}])
def test_what_the_user_decided_holds_in_refits(views: dict, settings: dict) -> None:
    fit = SSHIBA(4, random_state=0, max_iter=30, **settings).fit(views)
    assert stability(fit, views, n=1).congruence.shape == (1, fit.n_components_)


# ------------------------------------------------------------------------------------------------------ pictures


def test_the_picture_shows_both_kinds(both: list[Stability]) -> None:
    ax = plots.stability(both)
    table = plots.stability_data(both)
    assert table["kind"].tolist() == ["restarts"] * 3 + ["bootstrap"] * 3
    line, *dots = ax.lines
    assert line.get_ydata()[0] == 0.95
    drawn = np.concatenate([part.get_ydata() for part in dots])
    np.testing.assert_allclose(drawn, table["mean"])
    ends = np.concatenate([[segment[:, 1] for segment in part.get_segments()] for part in ax.collections])
    np.testing.assert_allclose(ends, table[["low", "high"]])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["4 restarts", "4 bootstraps"]
    own = plt.figure().subplots()
    assert plots.stability(both[0], ax=own) is own
    plt.close("all")
    with pytest.raises(TypeError, match=r"sshiba\.evaluate\.stability"):
        plots.stability(3)
    with pytest.raises(TypeError, match="one or several"):
        plots.stability([])
