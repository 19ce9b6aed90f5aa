"""The search: which priors, which factors and which weight of labels predict rows best that a fit did not see."""

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets
from sklearn.exceptions import ConvergenceWarning

from sshiba import SSHIBA, Binary, Candidate, Categorical, Priors, Real, load
from sshiba.core.coded import CodedView
from sshiba.core.likelihoods import Gaussian, Logistic, MultinomialProbit, Threshold
from sshiba.core.spec import ModelSpec
from sshiba.core.work import n_operations
from sshiba.data.reading import read_training
from sshiba.evaluate.metrics import binary_log_likelihood, class_log_likelihood, rmse
from sshiba.fitted import hidden_cells, search, short_fits, training
from sshiba.fitted.candidates import ALL_PRIORS
from sshiba.fitted.hidden_cells import add_losses, difference, hide_in_turn, in_groups
from sshiba.fitted.search import choose, clearly_worse
from sshiba.fitted.short_fits import ShortFits
from sshiba.fitted.training import fit_options

pytestmark = pytest.mark.usefixtures("with_search")


def mixed(n: int = 120, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((n, 2))
    x = z @ rng.standard_normal((2, 7)) + 0.5 * rng.standard_normal((n, 7))
    x[rng.random(x.shape) < 0.1] = np.nan
    yes = (z @ rng.standard_normal((2, 3)) + rng.standard_normal((n, 3)) > 0).astype(float)
    return {"x": x, "yes": yes, "kind": np.array(list("abc"))[np.argmax(z @ rng.standard_normal((2, 3)), axis=1)]}


def spec_of(views: dict[str, np.ndarray], types: dict | None = None) -> tuple[list[CodedView], ModelSpec]:
    schema, data, index = read_training(views, types, "float64")
    return list(data.values()), schema.model_spec(len(index), Priors(), "exact")


def test_few_factors_are_kept_where_they_predict_as_well() -> None:
    rng = np.random.default_rng(0)
    z, w = rng.standard_normal((200, 3)), rng.standard_normal((3, 20))
    model = SSHIBA(15, random_state=0).fit({"x": z @ w + rng.standard_normal((200, 20))})
    assert model.n_components_ == 3
    assert model.fitted_.choice.keep == "fewest"
    assert model.search_["n_components"].tolist() == [3, model.search_["n_components"][1]]


def test_all_factors_are_kept_where_they_predict_better() -> None:
    """On digits one factor less is a higher bound, again and again, and a worse guess."""
    digits = sklearn.datasets.load_digits()
    rows = np.random.default_rng(0).permutation(len(digits.data))[:900]
    x, y = digits.data[rows][:, digits.data.std(axis=0) > 0], digits.target[rows].astype(str)
    train, test = slice(0, 450), slice(450, 900)
    right = {}
    for how in (None, "auto"):
        model = SSHIBA(30, search=how, random_state=0).fit({"x": x[train], "y": y[train]})
        right[how] = np.mean(model.predict({"x": x[test]}, "y") == y[test])
    assert model.fitted_.choice.keep == "all"
    assert model.search_["chosen"].tolist().count(True) == 1
    assert model.search_["mean"][1:].max() > model.search_["mean"][0] + 0.002
    assert right["auto"] > right[None]


def test_a_fit_that_keeps_all_factors_goes_on_from_the_search() -> None:
    """It ends no lower than from the principal components, sooner, and the same in each run."""
    cancer = sklearn.datasets.load_breast_cancer()
    views = {"x": cancer.data[:300], "y": cancer.target[:300, None].astype(float)}
    model = SSHIBA(20, random_state=0).fit(views)
    assert model.fitted_.choice.keep == "all"
    afresh = SSHIBA(20, search=[model.fitted_.choice], random_state=0).fit(views)
    assert model.elbo_ > afresh.elbo_ - 1e-4 * abs(afresh.elbo_)
    assert model.n_iter_ < afresh.n_iter_
    assert SSHIBA(20, random_state=0).fit(views).elbo_ == model.elbo_


def test_numbers_of_few_rows_start_anew() -> None:
    """Three quarters of few rows may miss a factor that all of them show."""
    x = sklearn.datasets.load_breast_cancer().data[:200]
    model = SSHIBA(20, random_state=0).fit({"x": x})
    assert model.fitted_.choice.keep == "all"
    assert model.elbo_ == SSHIBA(20, search=[model.fitted_.choice], random_state=0).fit({"x": x}).elbo_


def test_one_view_of_yes_and_no_is_judged_by_its_own_columns() -> None:
    """Without other views nothing would tell candidates apart if it were hidden as a whole."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((300, 2))
    yes = (2 * z @ rng.standard_normal((2, 10)) + rng.standard_normal((300, 10)) > 0).astype(float)
    model = SSHIBA(5, {"yes": Binary()}, random_state=0).fit({"yes": yes})
    chance = -np.mean([-np.mean(np.log(np.where(column, p, 1 - p))) for column, p in zip(yes.T, yes.mean(axis=0))])
    assert model.search_["mean"].max() > chance + 0.1
    assert model.n_components_ >= 2


def test_what_the_user_says_is_not_searched() -> None:
    views = mixed()
    given = Priors(alpha=(2.0, 1.0))
    model = SSHIBA(5, priors=given, random_state=0, max_iter=30).fit(views)
    assert {c.priors for c in model.fitted_.search.candidates} == {given}
    model = SSHIBA(5, keep="fewest", random_state=0, max_iter=30).fit(views)
    assert model.search_ is None
    assert model.fitted_.choice == Candidate()
    model = SSHIBA(5, search=None, random_state=0, max_iter=30).fit(views)
    assert model.search_ is None
    assert model.fitted_.choice == Candidate()
    model = SSHIBA(5, search=None, keep="all", random_state=0, max_iter=30).fit(views)
    assert model.fitted_.choice == Candidate(ALL_PRIORS, "all")
    several = [Candidate(Priors(alpha=(a, a))) for a in (0.01, 1.0)]
    model = SSHIBA(5, search=several, random_state=0, max_iter=30).fit(views)
    assert model.search_["alpha"].tolist() == [(0.01, 0.01), (1.0, 1.0)]


def test_a_search_without_labels_has_one_candidate_less() -> None:
    views = mixed()
    assert len(SSHIBA(5, random_state=0, max_iter=30).fit({"x": views["x"]}).search_) == 2
    assert SSHIBA(5, random_state=0, max_iter=30).fit(views).search_["label_weight"].tolist() == [1.0, 1.0, 0.5]


def test_the_same_seed_finds_the_same() -> None:
    first, second = (SSHIBA(5, random_state=3).fit(mixed()) for _ in range(2))
    pd.testing.assert_frame_equal(first.search_, second.search_)
    assert first.elbo_ == second.elbo_


def test_large_data_are_not_searched_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MOST_OPERATIONS", 1)
    assert SSHIBA(4, random_state=0, max_iter=20).fit(mixed()).search_ is None
    several = [Candidate(), Candidate(ALL_PRIORS, "all")]
    assert len(SSHIBA(4, search=several, random_state=0, max_iter=20).fit(mixed()).search_) == 2


def test_many_rows_with_gaps_are_searched_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows with a covariance each: as many of them as a search can afford; the fit itself may have more factors."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1500, 6)) @ rng.standard_normal((6, 12)) + rng.standard_normal((1500, 12))
    x[rng.random(x.shape) < 0.1] = np.nan
    data, spec = spec_of({"x": x})
    monkeypatch.setattr(search, "MOST_OPERATIONS", 1.0)
    monkeypatch.setattr(search, "PART_COMPONENTS", 7)
    monkeypatch.setattr(search, "PART_OPERATIONS", 0.4 * n_operations(data, spec, 7) + 1)
    (part,), n_components = search.affordable(data, spec, 10, np.random.SeedSequence(0))
    assert (part.n_rows, n_components) == (600, 7)
    shown = {row.tobytes() for row in np.where(data[0].observed, data[0].target, np.nan)}
    assert all(row.tobytes() in shown for row in np.where(part.observed, part.target, np.nan))

    fits = [SSHIBA(10, keep=keep, random_state=0, max_iter=40).fit({"x": x}) for keep in (None, "all")]
    assert len(fits[0].search_) == 2
    assert fits[0].search_["n_components"].max() == 7
    assert fits[1].n_components_ == 10

    monkeypatch.setattr(search, "PART_OPERATIONS", np.inf)
    assert search.affordable(data, spec, 10, np.random.SeedSequence(0))[0][0].n_rows == 750  # no more than half
    monkeypatch.setattr(search, "PART_OPERATIONS", 0.3 * n_operations(data, spec, 7))
    assert search.affordable(data, spec, 10, np.random.SeedSequence(0)) is None  # 450: too few to judge by
    monkeypatch.setattr(search, "PART_OPERATIONS", np.inf)
    complete, spec = spec_of({"x": np.nan_to_num(x)})
    assert search.affordable(complete, spec, 10, np.random.SeedSequence(0)) is None


def test_features_that_are_selected_are_to_be_read() -> None:
    model = SSHIBA(4, {"x": Real(select_features=True)}, random_state=0, max_iter=20).fit(mixed())
    assert model.search_ is None
    assert model.fitted_.choice.keep == "fewest"


def test_tiny_data_are_not_searched() -> None:
    assert SSHIBA(2, random_state=0).fit({"x": np.random.default_rng(0).standard_normal((6, 2))}).search_ is None


def test_each_cell_is_asked_for_once_and_not_shown() -> None:
    views = mixed()
    views["rows"] = np.where(np.arange(120)[:, None] % 3, views["x"][:, :2], np.nan)
    views["yes"][:9] = np.nan
    data, spec = spec_of(views, {"x": Real(), "yes": Binary(), "kind": Categorical()})
    questions = hide_in_turn(data, spec, np.random.default_rng(0))
    for i, view in enumerate(data):
        asked = [question for question in questions if i in question.hidden]
        width = 1 if view.target.ndim == 1 else view.target.shape[1]
        seen = np.broadcast_to(np.True_ if view.observed is None else view.observed, (len(view.target), width))
        np.testing.assert_array_equal(sum(question.hidden[i].astype(int) for question in asked), seen)
        for question in asked:
            shown = question.shown[i]
            assert not (np.broadcast_to(shown.observed, seen.shape) & question.hidden[i]).any()
            if view.target.ndim == 2:
                assert (shown.target[question.hidden[i]] == 0).all()


@pytest.mark.parametrize(("clear", "n_fits"), [(np.inf, 6), (0.0, 3)])
def test_the_rows_that_judge_are_not_fitted(clear: float, n_fits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two folds of each candidate, but for those that are clearly worse on the first, or the only one that is not."""
    monkeypatch.setattr(search, "CLEAR", clear)
    fitted_rows = []
    own = short_fits.run
    monkeypatch.setattr(
        short_fits, "run", lambda rows, *rest, **named: fitted_rows.append(rows.n_rows) or own(rows, *rest, **named)
    )
    SSHIBA(3, random_state=0, max_iter=10).fit(mixed(300))
    assert fitted_rows == [225] * n_fits


def test_losses_are_those_of_the_metrics() -> None:
    rng = np.random.default_rng(0)
    t, p = (rng.random((50, 3)) < 0.4).astype(float), rng.random((50, 3))
    for likelihood in (Threshold(), Logistic()):
        assert -likelihood.losses(t, p, p).mean() == pytest.approx(binary_log_likelihood(t, p))
    codes, proba = rng.integers(0, 4, 50), rng.dirichlet(np.ones(4), 50)
    assert -MultinomialProbit().losses(codes, proba, proba).mean() == pytest.approx(class_log_likelihood(codes, proba))
    x, guess = rng.standard_normal((2, 50))
    assert np.sqrt(Gaussian().losses(x, guess, guess).mean()) == pytest.approx(rmse(x, guess))


def test_the_error_of_a_difference_counts_rows() -> None:
    """Against the spread of the difference over many samples of rows, whose cells are alike within a row."""
    _, spec = spec_of({"x": np.random.default_rng(0).standard_normal((9, 4))})
    rng = np.random.default_rng(1)
    found = []
    for _ in range(400):
        row = rng.standard_normal((2, 80, 1))
        before, after = (np.abs(1 + 0.2 * row[k] + 0.05 * rng.standard_normal((80, 4))) for k in (0, 1))
        found.append(difference({0: before}, {0: after}, spec.views))
    gains, errors = np.array(found).T
    assert errors.mean() == pytest.approx(gains.std(), rel=0.15)
    assert choose([{0: before}, {0: 0.99 * before}], [1, 5], spec.views) == 1
    assert choose([{0: before}, {0: 0.997 * before}], [1, 5], spec.views) == 0  # not by MARGIN
    assert choose([{0: before}, {0: 0.997 * before}], [5, 5], spec.views) == 1
    assert choose([{0: before}, {0: after}], [1, 5], spec.views) == int(gains[-1] > max(0.002, errors[-1]))


def test_a_candidate_is_clearly_worse_by_more_than_chance() -> None:
    _, spec = spec_of({"x": np.random.default_rng(0).standard_normal((9, 4))})
    rng = np.random.default_rng(1)
    good, same = rng.random((2, 80, 4))
    losses = [{0: good}, {0: same}, {0: 1.5 * good}]
    assert [clearly_worse(i, [0, 1, 2], losses, spec.views) for i in range(3)] == [False, False, True]
    assert not clearly_worse(2, [1, 2], [{0: good}, {0: 0.999 * good}, {0: good}], spec.views)  # not by MARGIN


def test_label_weight_is_for_labels_that_have_none_of_their_own() -> None:
    _, spec = spec_of(mixed(), {"x": Real(), "yes": Binary(weight=3.0), "kind": Categorical()})
    tempered = Candidate(label_weight=0.5).spec(lambda priors: spec)
    assert [view.weight for view in tempered.views] == [1.0, 3.0, 0.5]


def test_files_keep_what_was_found(tmp_path) -> None:
    model = SSHIBA(5, random_state=0, search=[Candidate(ALL_PRIORS, "all", 0.5), Candidate()]).fit(mixed())
    model.save(tmp_path / "m.sshiba")
    again = load(tmp_path / "m.sshiba")
    assert again.fitted_.choice == model.fitted_.choice
    assert again.fitted_.search == model.fitted_.search
    assert again.search == model.search
    assert [v.weight for v in again.fitted_.spec.views] == [v.weight for v in model.fitted_.spec.views]
    pd.testing.assert_frame_equal(again.search_, model.search_)


def test_a_fit_that_goes_on_does_not_search_again(monkeypatch: pytest.MonkeyPatch) -> None:
    views = mixed()
    model = SSHIBA(5, random_state=0, max_iter=15)
    with pytest.warns(match="still rose"):
        model.fit(views)
    found = model.search_
    monkeypatch.setattr(training, "run_search", None)
    model.set_params(max_iter=500).resume(views)
    assert model.converged_
    pd.testing.assert_frame_equal(model.search_, found)


@pytest.mark.parametrize("when", ["fitting", "judging"])
def test_ctrl_c_while_searching_ends_the_fit(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stops: list[int] = []

    def press(*arguments: object) -> None:
        stops.append(1)

    if when == "judging":
        last = hidden_cells.predict_views
        monkeypatch.setattr(hidden_cells, "predict_views", lambda *given: press() or last(*given))
    data, spec = spec_of(mixed())
    options = fit_options(SSHIBA(), read_training(mixed(), None, "float64")[0], 0.0)
    candidates, seed = [Candidate(), Candidate(ALL_PRIORS, "all")], np.random.SeedSequence(0)
    fits = ShortFits(options, 1e-5, watch=press if when == "fitting" else None, stop_requests=stops)
    with pytest.raises(KeyboardInterrupt):
        search.run_search(candidates, data, lambda _: spec, 3, fits, seed)


def test_a_search_that_is_cut_short_says_nothing() -> None:
    with pytest.warns(ConvergenceWarning):
        model = SSHIBA(6, random_state=0, max_time=1e-3).fit(mixed())
    assert model.search_ is None
    assert model.fitted_.choice == Candidate()


def test_many_views_of_labels_are_hidden_in_groups() -> None:
    labels = {f"label {j}": np.array(list("ab"))[np.arange(60) // (j + 1) % 2] for j in range(9)}
    data, spec = spec_of(labels)
    questions = hide_in_turn(data, spec, np.random.default_rng(0))
    assert sorted(len(question.hidden) for question in questions) == [3, 3, 3]


@pytest.mark.parametrize("widths", [(1, 1, 1, 1, 1, 1), (2, 2, 2), (40,), (12, 8, 1), (1,)])
def test_columns_are_dealt_to_groups_whatever_views_they_are_in(widths: tuple[int, ...]) -> None:
    """A tenth of all columns at a time, or one; the columns of a view go to as many groups as there are."""
    groups = in_groups(dict(enumerate(widths)), np.random.default_rng(0))
    assert len(groups) == min(10, sum(widths))
    sizes = [sum(int(own.sum()) for own in group.values()) for group in groups]
    assert sum(sizes) == sum(widths)
    assert max(sizes) - min(sizes) <= 1
    for i, width in enumerate(widths):
        own = np.sum([group[i] for group in groups if i in group], axis=0)
        np.testing.assert_array_equal(own, np.ones(width))
        assert max(int(group[i].sum()) for group in groups if i in group) == -(-width // len(groups))


def test_columns_in_views_of_their_own_are_told_from_one_another() -> None:
    """Six columns with two factors and little noise: hidden all at once they would be predicted by their means."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 6)) + 0.3 * rng.standard_normal((300, 6))
    found = SSHIBA(random_state=0, max_iter=50).fit({f"column {j}": x[:, [j]] for j in range(6)}).search_
    assert found["mean"].max() > 0.5


def test_losses_of_questions_about_other_cells_share_one_array() -> None:
    rng = np.random.default_rng(0)
    order = rng.permutation(30).reshape(5, 6) % 3
    questions = [np.where(order == k, rng.random((5, 6)), np.nan) for k in (0, 1, 2, 0)]
    parts: list[np.ndarray] = []
    for own in questions:
        add_losses(parts, own.copy())
    assert len(parts) == 2  # the last one asks again
    np.testing.assert_array_equal(parts[0], np.nansum(questions[:3], axis=0))
    np.testing.assert_array_equal(parts[1], questions[3])


def test_the_order_of_candidates_does_not_matter() -> None:
    _, spec = spec_of({"x": np.random.default_rng(0).standard_normal((9, 4))})
    losses = {0: np.random.default_rng(1).random((50, 4))}
    assert choose([losses, losses], [10, 2], spec.views) == 1
    assert choose([losses, losses], [2, 10], spec.views) == 0


def test_restarts_do_not_change_the_search() -> None:
    one, two = (SSHIBA(4, n_init=n, random_state=0, max_iter=20).fit(mixed()).search_ for n in (1, 2))
    pd.testing.assert_frame_equal(one, two)


def test_columns_of_the_table_keep_apart_from_views() -> None:
    views = mixed()
    table = SSHIBA(4, random_state=0, max_iter=20).fit({"mean": views["x"], "alpha": views["x"][:, :3]}).search_
    assert {"mean", "alpha", "score mean", "score alpha"} <= set(table)


def test_numbers_of_other_kinds_are_saved(tmp_path) -> None:
    priors = Priors(alpha=[np.int64(1), np.float32(0.5)])
    several = [Candidate(priors, label_weight=np.float32(0.5)), Candidate()]
    SSHIBA(3, search=several, random_state=0, max_iter=20).fit(mixed()).save(tmp_path / "m.sshiba")
    assert load(tmp_path / "m.sshiba").search[0].priors.alpha == (1.0, 0.5)


@pytest.mark.parametrize(
    ("setting", "value", "kind"),
    [
        ("search", "always", ValueError),
        ("search", [1], TypeError),
        ("search", [], TypeError),
        ("search", 3, TypeError),
        ("search", Candidate(), TypeError),
        ("keep", "few", ValueError),
    ],
)
def test_bad_settings_are_refused(setting: str, value: object, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=setting):
        SSHIBA(**{setting: value}).fit({"x": np.zeros((3, 2))})


def test_bad_candidates_are_refused() -> None:
    with pytest.raises(ValueError, match="keep"):
        Candidate(keep="some")
    with pytest.raises(ValueError, match="label_weight"):
        Candidate(label_weight=0)
    with pytest.raises(TypeError, match="priors"):
        Candidate(priors=1)


def test_a_list_has_its_own_priors() -> None:
    with pytest.raises(ValueError, match="their own priors and keep"):
        SSHIBA(keep="all", search=[Candidate()]).fit({"x": np.zeros((3, 2))})
