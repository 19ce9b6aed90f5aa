"""Options by cross-validation."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from sshiba import SSHIBA, Binary, Categorical, Real, tune
from sshiba.data.sparse_tables import SparseTable
from sshiba.evaluate.hiding import take_drawn, take_rows
from sshiba.evaluate.tuning import configured
from sshiba.sklearn import SSHIBAClassifier


@pytest.fixture(scope="module")
def views() -> dict[str, np.ndarray]:
    """Three factors drive 12 numbers, four labels and one of three classes."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((240, 3))
    x = z @ rng.standard_normal((3, 12)) + 0.5 * rng.standard_normal((240, 12))
    labels = (z @ rng.standard_normal((3, 4)) * 2 + rng.logistic(size=(240, 4)) > 0).astype(int)
    kind = np.array(["a", "b", "c"])[np.argmax(2 * z + rng.standard_normal((240, 3)), axis=1)]
    return {"x": x, "labels": labels, "kind": kind}


def test_the_better_option_wins(views: dict) -> None:
    """One factor cannot predict what three cause; both scores say so, on rows and on cells."""
    pair = {"x": views["x"], "labels": views["labels"]}
    for hide in ("rows", "cells"):
        for scoring in ("auc", "log-likelihood"):
            model = SSHIBA(views={"labels": Binary()}, random_state=0)
            found = tune(model, pair, {"n_components": [1, 6]}, "labels", hide, 3, scoring)
            assert found.options == {"n_components": 6}, (hide, scoring, found.table)
            assert found.model.n_components == 6
            assert not hasattr(found.model, "elbo_")


def test_options_of_views(views: dict) -> None:
    grid = {"labels.noise": [0.1, 1.0], "x.noise": ["view", "feature"]}
    found = tune(SSHIBA(6, random_state=0), {"x": views["x"], "labels": views["labels"]}, grid, "labels", n_folds=2)
    assert len(found.table) == 4
    assert found.model.views["labels"].noise == found.options["labels.noise"]
    assert found.model.views["x"].noise == found.options["x.noise"]
    best = found.table.loc[found.table["score"].idxmax()]
    assert found.options == {name: best[name] for name in grid}
    assert found.table["score"].nunique() == 4
    assert (found.table["se"] > 0).all()


def test_classes_of_text_and_real_targets(views: dict) -> None:
    model = SSHIBA(random_state=0)
    kinds = tune(model, {"x": views["x"], "kind": views["kind"]}, {"n_components": [1, 6]}, "kind", n_folds=3)
    assert kinds.options == {"n_components": 6}
    real = tune(model, views, {"n_components": [1, 6]}, "x", hide="cells", n_folds=3)
    assert real.options == {"n_components": 6}
    assert -2.0 < real.table["score"].max() < 0.0  # nats per cell of unit noise or so


def test_frames_with_different_rows(views: dict) -> None:
    x = pd.DataFrame(views["x"], index=[f"r{i}" for i in range(240)])
    labels = pd.DataFrame(views["labels"], index=x.index, columns=list("abcd")).iloc[::-1].iloc[:200]
    for hide in ("rows", "cells"):
        found = tune(SSHIBA(random_state=0), {"x": x, "labels": labels}, {"n_components": [1, 6]}, "labels", hide, 3)
        assert found.options == {"n_components": 6}


def quick(views: dict[str, pd.DataFrame]) -> float:
    """The score of one way to predict the numbers "target" of rows that were held out."""
    model = SSHIBA(3, random_state=0, max_iter=30)
    return tune(model, views, {"n_components": [3]}, "target", n_folds=3).table["score"].iloc[0]


@pytest.fixture(scope="module")
def frames(views: dict) -> dict[str, pd.DataFrame]:
    x = pd.DataFrame(views["x"], index=[f"r{i}" for i in range(240)])
    return {"target": x.iloc[:, :3], "x": x.iloc[:, 3:8], "more": x.iloc[:, 8:]}


def test_rows_of_one_label_are_held_out_one_by_one(frames: dict) -> None:
    same_labels = [f"r{i // 2}" for i in range(240)]
    assert quick({name: part.set_axis(same_labels) for name, part in frames.items()}) == quick(frames)


def test_rows_of_one_label_are_taken_by_place() -> None:
    index, held_out = pd.Index(["p", "p", "q", "r"]), np.array([False, True, False, False])
    view = pd.DataFrame({"a": range(4)}, index)
    table = SparseTable(sparse.csr_array(np.arange(4.0)[:, None]), view.columns, index, has_names=True)
    assert take_rows(view, index, ~held_out)["a"].tolist() == [0, 2, 3]
    assert take_rows(view["a"], index, held_out).tolist() == [1]
    assert take_rows(table, index, ~held_out).matrix.toarray().ravel().tolist() == [0, 2, 3]
    assert take_drawn(table, index, np.array([1, 1, 3])).matrix.toarray().ravel().tolist() == [1, 1, 3]


def test_predictions_are_compared_with_their_own_rows(frames: dict) -> None:
    """The views that predict may list the rows otherwise than all views together do, and lack some of them."""
    rows = frames["target"].index
    for some in ({"x": slice(120, None)}, {"x": slice(120, None), "more": slice(10, None)}):
        parts = frames | {name: frames[name].iloc[own] for name, own in some.items()}
        with_holes = {name: part.reindex(rows) for name, part in parts.items()}
        assert quick(parts) == pytest.approx(quick(with_holes), rel=1e-9)


def test_a_class_that_a_fold_never_saw_does_not_break_it(views: dict) -> None:
    kind = views["kind"].astype(object)
    kind[0] = "only here"
    found = tune(SSHIBA(6, random_state=0), {"x": views["x"], "kind": kind}, {"n_init": [1]}, "kind", n_folds=3)
    assert np.isfinite(found.table["score"]).all()


def test_same_seed_same_table(views: dict) -> None:
    pair = {"x": views["x"], "labels": views["labels"]}
    one, two = (tune(SSHIBA(3, random_state=0), pair, {"labels.weight": [1.0, 2.0]}, "labels") for _ in range(2))
    pd.testing.assert_frame_equal(one.table, two.table)


def test_values_at_a_limit_of_any_candidate_are_not_scored() -> None:
    """Whatever limits the model has itself, the table is the same."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((150, 2)) @ rng.standard_normal((2, 5)) + 0.3 * rng.standard_normal((150, 5))
    x[:, 0] = np.maximum(x[:, 0], 0)
    tables = []
    for limits in (None, {0: (0, None)}):
        model = SSHIBA(3, {"x": Real(limits=limits)}, max_iter=20, random_state=0)
        tables.append(tune(model, {"x": x}, {"x.limits": [None, {0: (0, None)}]}, "x", "cells", 3).table)
    pd.testing.assert_frame_equal(*tables)
    assert tables[0]["score"][1] > tables[0]["score"][0]


def test_limits_that_make_other_features_are_refused(views: dict) -> None:
    frame = pd.DataFrame(views["x"][:, :3], columns=["a", "b", "least"])
    frame["least"] = np.where(np.arange(240) % 2, -3.0, -2.0)
    model = SSHIBA(2, {"m": Real(limits={"a": ("least", None)})}, random_state=0)
    with pytest.raises(ValueError, match="Name the same such columns"):
        tune(model, {"m": frame}, {"m.limits": [None]}, "m", "cells", 2)


def test_folds_do_not_choose_margins_that_held_out_rows_refuse(views: dict) -> None:
    """The rows without the only 0 would choose the logarithm."""
    x = np.exp(views["x"][:, :3])
    x[0, 0] = 0.0
    pair = {"x": x, "labels": views["labels"]}
    model = SSHIBA(2, {"x": Real(margin="auto"), "labels": Binary()}, random_state=0, max_iter=10)
    found = tune(model, pair, {"x.margin": ["auto", {0: None, 1: "auto"}]}, "labels", n_folds=3)
    assert np.isfinite(found.table["score"]).all()
    assert found.model.views["x"].margin == found.options["x.margin"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "nothing"}, "unknown target 'nothing'"),
        ({"hide": "columns"}, "hide must be"),
        ({"scoring": "accuracy"}, "scoring must be"),
        ({"grid": {"n_componets": [1]}}, "unknown option 'n_componets': .* Did you mean 'n_components'"),
        ({"grid": {"labels.colour": [1]}}, "unknown option 'colour' of view 'labels'"),
        ({"target": "x", "scoring": "auc"}, "has no AUC"),
    ],
)
def test_wrong_arguments_are_named(views: dict, options: dict, message: str) -> None:
    arguments = {"grid": {"n_components": [2]}, "target": "labels", **options}
    with pytest.raises(ValueError, match=message):
        tune(SSHIBA(), {"x": views["x"], "labels": views["labels"]}, **arguments)


def test_configured_leaves_the_model_alone() -> None:
    model = SSHIBA(5, views={"kind": Categorical()})
    other = configured(model, {"x": Real(), "kind": Categorical()}, {"kind.weight": 2.0, "n_components": 7})
    assert (other.n_components, other.views["kind"].weight) == (7, 2.0)
    assert (model.n_components, model.views["kind"].weight) == (5, 1.0)


def test_the_only_view_cannot_be_predicted_from_others(views: dict) -> None:
    with pytest.raises(ValueError, match=r"nothing is left to predict 'x' from.*hide='cells'"):
        tune(SSHIBA(2), {"x": views["x"]}, {"n_components": [1, 2]}, "x")


def test_other_estimators_are_refused_with_what_tunes_them() -> None:
    with pytest.raises(TypeError, match=r"not SSHIBAClassifier. For estimators of one table X and y use GridSearchCV"):
        tune(SSHIBAClassifier(), pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 2.0]}), {"n_components": [1]}, "b")
