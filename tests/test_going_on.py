"""A fit that was stopped goes on to where it would have come."""

import pytest
from samples import make_views, with_holes
from sklearn.exceptions import ConvergenceWarning

from sshiba import SSHIBA, Progress, load


def interrupting(restart: int, sweep: int):
    """A callback that presses Ctrl-C."""

    def callback(progress: Progress) -> None:
        if (progress.restart, progress.sweep) == (restart, sweep):
            raise KeyboardInterrupt

    return callback


@pytest.mark.parametrize(("restart", "sweep"), [(0, 5), (0, 45), (1, 30), (2, 60)])
def test_an_interrupted_fit_goes_on_to_the_same_bound(restart: int, sweep: int, tmp_path) -> None:
    views = with_holes(make_views())
    options = {"n_components": 6, "n_init": 3, "random_state": 3, "tol": 1e-8}
    whole = SSHIBA(**options).fit(views)
    stopped = SSHIBA(**options, callback=interrupting(restart, sweep)).fit(views)
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
