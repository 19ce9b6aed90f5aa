"""A sample of each suite of torture/, and the runner itself; `make torture` runs them in full."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import pytest

import torture
from torture import limits, side_by_side
from torture.__main__ import SHARES
from torture.runner import FAILED, Kept, Result, Suite, attempt, run, run_kept, summary

SAMPLES = {"inputs": 30, "commands": 8, "strangers": 40, "bounds": 6}


@pytest.mark.usefixtures("with_search")
@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_of_each_suite(name: str) -> None:
    suite = import_module(f"torture.{name}").SUITE
    suite.prepare()
    failed = [result for seed in range(SAMPLES[name]) if (result := attempt(suite, seed)).outcome == FAILED]
    assert failed == []


def test_every_suite_has_its_share_of_the_time() -> None:
    suites = {path.stem for path in Path(torture.__file__).parent.glob("*.py") if "SUITE = Suite(" in path.read_text()}
    assert set(SHARES) == suites
    assert sum(SHARES.values()) == pytest.approx(1)


def test_a_sample_of_limits_in_this_process(tmp_path: Path) -> None:
    """Their memory is measured in processes of their own, which take longer."""
    limits.names_with_quotes_newlines_and_emoji(tmp_path).do()


@pytest.mark.filterwarnings("ignore:The bound still rose")  # filters of warnings are those of all threads
def test_a_sample_of_work_side_by_side() -> None:
    assert side_by_side.one_model_in_many_threads() == "same"
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(side_by_side.work, [1, 1])
    assert first == second


@pytest.mark.slow
@pytest.mark.parametrize("name", ["killed", "side_by_side"])
def test_a_sample_in_processes_of_their_own(name: str) -> None:
    suite = import_module(f"torture.{name}").SUITE
    assert [result for seed in range(6) if (result := attempt(suite, seed)).outcome == FAILED] == []


def broken(seed: int) -> str:
    if seed == 1:
        raise ValueError("one")
    if seed == 2:
        os._exit(3)
    if seed == 3:
        time.sleep(1000)
    return "fine"


def test_failures_deaths_and_hangs_are_told_and_the_rest_goes_on(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("torture.runner.STARTING", 0.0)
    suite = Suite("broken", broken, 6, seconds=0.5)
    found = run_kept(suite, list(range(6)), 2, tmp_path)
    words = {seed: found[seed].words for seed in found if found[seed].outcome == FAILED}
    assert sorted(words) == [1, 2, 3]
    assert "ValueError: one" in words[1]
    assert "the process ended: 3" in words[2]
    assert "hangs" in words[3]
    table = summary({"broken": found})
    assert "python -m torture.broken --seed 2" in table
    assert "3 fine" in table


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    suite = Suite("fine", lambda seed: "fine", 3)
    Kept(suite, tmp_path).add(Result(0, "known", 0.1))
    with Kept(suite, tmp_path).path.open("a") as file:
        file.write('\n{"seed": 1, "outc')  # killed while it wrote
    found = run_kept(suite, [0, 1, 2], 1, tmp_path)
    assert [found[seed].outcome for seed in range(3)] == ["known", "fine", "fine"]
    assert {seed: result.outcome for seed, result in Kept(suite, tmp_path).all().items()} == {
        **{0: "known", 1: "fine", 2: "fine"}
    }


def test_no_seed_is_begun_after_its_time() -> None:
    assert list(run(Suite("fine", lambda seed: "fine", 3), [0, 1, 2], 1, until=time.perf_counter())) == []
