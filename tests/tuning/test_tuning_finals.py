"""The last step of a search: who is a finalist, who wins, and what of it the store keeps."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tuning_tasks import plain_task

from workbench.fusion import plan
from workbench.graph import from_model
from workbench.kernels import lower
from workbench.kernels.kernel import Kernel
from workbench.models import zoo
from workbench.store import Store
from workbench.store.record import MeasureSettings, Record, ScheduleSpec, Stage
from workbench.targets import resolve
from workbench.tuning import Budget, MemoryStore, Task, TuneResult, make_tasks, tune_tasks
from workbench.tuning.builders import BuildResult, FakeBuilder
from workbench.tuning.finals import FINALISTS, contenders, decide, needed
from workbench.tuning.runners import FakeRunner, RunResult
from workbench.tuning.search import DEFAULT
from workbench.tuning.storage import best_of, standing, trials_of
from workbench.tuning.strategies import LibraryStrategy
from workbench.tuning.strategies.fake import GridStrategy
from workbench.tuning.task import Candidate
from workbench.tuning.testing import record_of

TASK = plain_task()


def point(x: int) -> ScheduleSpec:
    return ScheduleSpec("library", "grid", {"x": x})


def trial(spec: ScheduleSpec, seconds: float | None, stage: Stage = "search", number: int = 0) -> Record:
    made = record_of(TASK, Candidate(spec, None), seconds)
    return dataclasses.replace(made, stage=stage, trial=number)


def ok(*seconds: float) -> RunResult:
    return RunResult("ok", seconds, "")


WRONG = RunResult("wrong_output", (), "NaN")
STEADY = (1.00, 1.01, 0.99, 1.00, 1.00, 1.01, 0.99)


def times(factor: float, start: int = 0) -> RunResult:
    """``start`` shifts the noise, so that two of them are no exact multiples."""
    return ok(*(factor * value for value in (*STEADY[start:], *STEADY[:start])))


def noisy(factor: float) -> RunResult:
    return ok(*(factor * value for value in (0.9, 1.1, 1.2, 0.8, 1.0, 1.3, 0.7)))


def test_the_fastest_beyond_the_interval_wins_with_its_gain() -> None:
    verdict = decide([times(2.0), times(1.2), times(1.0)])
    assert verdict.winner == 2
    assert verdict.tied == (2,)
    assert verdict.gain is not None
    assert verdict.gain.low <= 2.0 <= verdict.gain.high


def test_the_default_stays_where_it_is_tied() -> None:
    verdict = decide([noisy(1.0), times(0.98)])
    assert (verdict.winner, verdict.gain, verdict.tied) == (0, None, (0, 1))


def test_of_tied_ones_the_first_wins() -> None:
    verdict = decide([times(3.0), times(1.0, 1), times(0.9999, 3), times(1.0)])
    assert (verdict.winner, verdict.tied) == (1, (1, 2, 3))


def test_what_is_tied_with_the_fastest_but_not_surely_faster_than_the_default_does_not_win() -> None:
    default, unsure, fastest = times(1.05), noisy(1.001), times(1.0)
    assert decide([default, unsure, fastest]).winner == 2


def test_wrong_ones_lose_and_a_default_that_fails_needs_no_beating() -> None:
    assert decide([times(2.0), WRONG, times(1.5)]).winner == 2
    assert decide([WRONG, times(1.5)]).winner == 1
    assert decide([WRONG, times(1.5)]).gain is None
    assert decide([times(1.0), WRONG]).winner == 0
    assert decide([WRONG, WRONG]).winner is None


def test_a_default_that_was_timed_once_has_a_ratio_without_an_interval() -> None:
    gain = decide([ok(30.0), times(1.0)]).gain
    assert gain is not None
    assert gain.median == gain.low == gain.high == pytest.approx(30.0)


def test_finalists_are_few_close_and_in_the_order_of_their_measurement() -> None:
    slow_to_fast = [trial(point(x), 1e-3 * (1.6 - 0.05 * x)) for x in range(10)]
    found = contenders([trial(DEFAULT, 9e-3), *slow_to_fast], DEFAULT)
    assert found == [DEFAULT, *(point(x) for x in range(10 - FINALISTS, 10))]
    far = contenders([trial(DEFAULT, 9e-3), trial(point(0), 2e-3), trial(point(1), 1e-3)], DEFAULT)
    assert far == [DEFAULT, point(1)]


def test_the_winner_of_before_defends_itself() -> None:
    records = [
        trial(DEFAULT, 9e-3),
        trial(point(0), 2e-3),
        trial(point(0), 2.1e-3, "winner"),
        trial(DEFAULT, 9e-3, "final"),
        trial(point(1), 1.5e-3),
    ]
    assert contenders(records, DEFAULT) == [DEFAULT, point(0), point(1)]


def test_finals_are_needed_where_a_trial_beats_what_stands() -> None:
    default = trial(DEFAULT, 9e-3)
    assert not needed([])
    assert not needed([default])
    assert not needed([default, trial(point(0), None)])
    found = [default, trial(point(0), 5e-3)]
    assert needed(found)
    judged = [*found, trial(point(0), 5e-3, "winner"), trial(DEFAULT, 9e-3, "final")]
    assert not needed(judged)
    assert not needed([*judged, trial(point(1), 6e-3)])
    assert needed([*judged, trial(point(1), 4e-3)])


@st.composite
def histories(draw: st.DrawFn) -> list[Record]:
    made = []
    for number in range(draw(st.integers(0, 12))):
        spec = draw(st.sampled_from([DEFAULT, point(0), point(1), point(2)]))
        stage = draw(st.sampled_from(["search", "search", "final", "winner"]))
        seconds = draw(st.sampled_from([None, 1e-3, 2e-3, 3e-3]))
        if stage == "winner" and seconds is None:
            stage = "final"
        made.append(trial(spec, seconds, stage, number))
    return made


@given(histories())
@settings(max_examples=60, deadline=None)
def test_the_stores_query_and_the_searchs_function_agree(tmp_path_factory: Any, records: list[Record]) -> None:
    path: Path = tmp_path_factory.mktemp("store")
    key = (TASK.workload.key, TASK.target.key, records[0].tvm if records else "x")
    with Store(path) as store:
        store.add_records(records)
        kept = store.records(*key)
        assert store.best(*key) == best_of(kept)
        store.add_groups({key[0]: {"schema": 1}})
        expected = best_of(kept)
        assert store.best_records(*key[1:]) == ([] if expected is None else [expected])
        assert store.measured_groups(*key[1:]) == int(bool(standing(kept)))


class Moody(FakeRunner):
    """Times in a search are lucky or not; interleaved ones are true. ``wrong``: schedules that only finals find out."""

    def __init__(self, wrong: Sequence[int] = (), slower: float = 1.0) -> None:
        super().__init__(lambda spec: 5e-3 if spec.kind == "default" else 1e-3 * (1 + spec.data["x"] / 100))
        self.wrong, self.slower, self.compared = wrong, slower, 0

    def run(self, task: Task, builds: Sequence[BuildResult]) -> list[RunResult]:
        results = super().run(task, builds)
        lucky = [build.kernel is not None and build.kernel.schedule.data.get("x") == 50 for build in builds]
        return [
            dataclasses.replace(one, seconds=(1e-4,)) if luck else one for one, luck in zip(results, lucky, strict=True)
        ]

    def compare(self, task: Task, builds: Sequence[BuildResult], rounds: int) -> list[RunResult]:
        self.compared += 1
        results = [
            dataclasses.replace(one, seconds=(one.seconds[0] * self.slower,) * rounds)
            for one in FakeRunner.run(self, task, builds)
        ]
        return [WRONG if self._is_wrong(build) else one for one, build in zip(results, builds, strict=True)]

    def _is_wrong(self, build: BuildResult) -> bool:
        kernel: Kernel | None = build.kernel
        return kernel is not None and kernel.schedule.data.get("x") in self.wrong


def tune(store: Any, runner: FakeRunner, trials: int = 101) -> TuneResult:
    return tune_tasks(
        [TASK],
        Budget(trials_per_task=trials),
        store=store,
        builder=FakeBuilder(),
        runner=runner,
        chooser=lambda task: GridStrategy,
    )


def test_a_lucky_trial_does_not_win_by_its_luck() -> None:
    """With x = 50 out of reach of all others' times, it is the only finalist beside the default."""
    store, runner = MemoryStore(), Moody()
    result = tune(store, runner).results[0]
    assert result.best is not None
    assert result.best.schedule == point(50)
    assert result.best.median_s == pytest.approx(1.5e-3)  # as it was when timed again
    assert result.gain is not None
    assert result.gain.median == pytest.approx(5 / 1.5)
    assert [kernel.schedule for kernel in store.kernels.values()] == [point(50)]


def test_a_finalist_that_is_wrong_is_never_used_and_the_next_best_is() -> None:
    store = MemoryStore()
    result = tune(store, Moody(wrong=[50])).results[0]
    assert result.best is not None
    assert result.best.schedule == DEFAULT  # the only other contender
    assert result.failed == {"wrong_output": 1}
    assert "nothing beat the default" in result.note
    again = tune(store, Moody(wrong=[50])).results[0]
    assert again.best == result.best


def test_a_second_run_holds_no_finals_and_a_larger_one_does() -> None:
    store, runner = MemoryStore(), FakeRunner()
    assert tune(store, runner, 20).trials == 20
    finals = [one for one in store.all if one.stage != "search"]
    assert [one.stage for one in finals].count("winner") == 1
    measured = len(runner.measured)
    assert tune(store, runner, 20).hits == 1
    assert len(runner.measured) == measured
    tune(store, runner, 60)
    assert len([one for one in store.all if one.stage != "search"]) >= len(finals)
    assert len(trials_of(store.all)) == 60


def test_finals_that_a_kill_has_prevented_are_held_by_the_next_run() -> None:
    store, runner = MemoryStore(), FakeRunner()
    tune(store, runner, 20)
    expected = best_of(store.all)
    store.all = trials_of(store.all)
    result = tune(store, FakeRunner(), 20)
    assert (result.trials, result.hits) == (0, 1)
    assert best_of(store.all) is not None
    assert dataclasses.replace(best_of(store.all), created="", elapsed_s=0, seed=0, strategy="") == dataclasses.replace(
        expected, created="", elapsed_s=0, seed=0, strategy=""
    )


def test_a_machine_that_drifts_is_noticed() -> None:
    result = tune(MemoryStore(), Moody(slower=1.5)).results[0]
    assert result.drift == pytest.approx(1.5)
    assert "the machine drifted: the default took 1.50 times as long" in result.note
    assert "drifted" not in tune(MemoryStore(), Moody()).results[0].note


def test_schedules_of_the_library_are_finalists_too() -> None:
    """With the real builder, whose processes do not know the group's operators, and the real device."""
    model = zoo.build("residual_layernorm", rows=64, cols=128)
    target = resolve("llvm")
    tasks = make_tasks({"planned": lower(model, plan(from_model(model), target), "planned")}, target)
    settings = MeasureSettings(number=1, repeat=2, min_repeat_ms=1)
    store = MemoryStore()
    result = tune_tasks(
        tasks, Budget(trials_per_task=6), store=store, settings=settings, chooser=lambda task: LibraryStrategy
    )
    finals = [one for one in store.all if one.stage != "search"]
    assert {one.schedule.kind for one in finals} == {"default", "library"}
    assert {one.status for one in finals} == {"ok"}, [one.error for one in finals]
    assert len({len(one.seconds) for one in finals if one.schedule.kind == "library"}) == 1
    assert result.results[0].failed == {}
