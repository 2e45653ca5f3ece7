"""The job on the fake device: order, resume, interruption, time, and every kind of failure."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tuning_tasks import TARGET, plain_task

from workbench.errors import KernelError, SetupError
from workbench.graph.serialise import from_json, to_json
from workbench.kernels.workload import KernelCall, LoweredModel
from workbench.store.record import ScheduleSpec
from workbench.tuning import Budget, Event, MemoryStore, Task, TuneResult, make_tasks, tune_tasks
from workbench.tuning.builders import BuildResult, FakeBuilder
from workbench.tuning.runners import FakeRunner, RunResult
from workbench.tuning.storage import is_mark, trials_of
from workbench.tuning.strategies import NotTunable
from workbench.tuning.strategies.fake import GridStrategy


def grid_latency(schedule: ScheduleSpec) -> float:
    """A valley with its bottom, 1 ms, at x = 37; the default takes 5 ms."""
    return 5e-3 if schedule.kind == "default" else 1e-3 + 1e-5 * abs(schedule.data["x"] - 37)


def tune(tasks: list[Task], store: MemoryStore, budget: Budget | None = None, **options: Any) -> TuneResult:
    options.setdefault("builder", FakeBuilder())
    options.setdefault("runner", FakeRunner(grid_latency))
    options.setdefault("chooser", lambda task: GridStrategy)
    return tune_tasks(tasks, budget or Budget(trials_per_task=20), store=store, **options)


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class SlowDevice(FakeRunner):
    """Every trial takes this many seconds; finals take none."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        super().__init__(grid_latency)
        self._clock, self._seconds = clock, seconds

    def run(self, task: Task, builds: Sequence[BuildResult]) -> list[RunResult]:
        self._clock.now += self._seconds * len(builds)
        return super().run(task, builds)

    def compare(self, task: Task, builds: Sequence[BuildResult], rounds: int) -> list[RunResult]:
        now = self._clock.now
        try:
            return super().compare(task, builds, rounds)
        finally:
            self._clock.now = now


def test_finds_the_best_of_the_whole_space() -> None:
    store = MemoryStore()
    result = tune([plain_task()], store, Budget(trials_per_task=101))
    best = result.results[0].best
    assert best is not None
    assert best.schedule.data == {"x": 37}
    assert best.median_s == 1e-3
    assert result.results[0].default_s == 5e-3
    assert result.trials == 101  # the default and the 100 points
    assert [kernel.schedule for kernel in store.kernels.values()] == [best.schedule]


def test_the_default_is_measured_first_and_wins_when_nothing_beats_it() -> None:
    store = MemoryStore()
    result = tune([plain_task()], store, runner=FakeRunner(lambda s: 1e-3 if s.kind == "default" else 2e-3))
    assert store.all[0].schedule.kind == "default"
    best = result.results[0].best
    assert best is not None
    assert (best.schedule.kind, best.stage) == ("default", "winner")


def test_a_second_run_makes_no_trial_and_starts_nothing() -> None:
    store = MemoryStore()
    tasks = [plain_task("a"), plain_task("b")]
    first = tune(tasks, store)
    builder = FakeBuilder()
    second = tune(tasks, store, builder=builder)
    assert (first.trials, second.trials, second.hits, builder.built) == (40, 0, 2, 0)
    assert all(item.cached for item in second.results)
    assert [item.best for item in first.results] == [item.best for item in second.results]


def test_a_larger_budget_continues_without_repeating() -> None:
    store = MemoryStore()
    tune([plain_task()], store, Budget(trials_per_task=20))
    result = tune([plain_task()], store, Budget(trials_per_task=50))
    assert result.trials == 30
    points = [record.schedule.data["x"] for record in trials_of(store.all) if record.schedule.kind == "library"]
    assert len(points) == len(set(points)) == 49


def test_an_exhausted_space_is_remembered() -> None:
    store = MemoryStore()
    result = tune([plain_task()], store, Budget(trials_per_task=500))
    assert result.trials == 101
    assert result.complete
    assert sum(map(is_mark, store.all)) == 1
    assert tune([plain_task()], store, Budget(trials_per_task=500)).trials == 0


def test_minutes_end_the_search_and_the_same_minutes_do_not_start_it_again() -> None:
    clock, store = Clock(), MemoryStore()
    tasks = [plain_task("a"), plain_task("b")]
    budget = Budget(minutes=1, trials_per_task=None)
    result = tune(tasks, store, budget, clock=clock, runner=SlowDevice(clock, 2.0))
    assert clock.now == pytest.approx(56, abs=2)  # each task keeps two seconds for its finals
    assert sum(item.trials for item in result.results) == 28
    assert tune(tasks, store, budget, clock=clock, runner=SlowDevice(clock, 2.0)).trials == 0
    more = tune(tasks, store, Budget(minutes=2, trials_per_task=None), clock=clock, runner=SlowDevice(clock, 2.0))
    assert more.trials > 0


def test_every_task_has_its_default_measured_even_when_the_time_is_over() -> None:
    clock, store = Clock(), MemoryStore()
    tasks, budget = [plain_task("a"), plain_task("b")], Budget(minutes=1, trials_per_task=None)
    result = tune(tasks, store, budget, clock=clock, runner=SlowDevice(clock, 90.0))
    assert [item.trials for item in result.results] == [1, 1]
    assert all(item.best is not None for item in result.results)
    assert tune(tasks, store, budget, clock=clock, runner=SlowDevice(clock, 90.0)).trials == 0


def test_time_that_one_task_leaves_is_given_to_the_next() -> None:
    clock, store = Clock(), MemoryStore()
    tasks = [plain_task("a", flops=1e9), plain_task("b")]
    budget = Budget(minutes=1, trials=None, trials_per_task=None)

    def chooser(task: Task) -> type[GridStrategy]:
        return Small if task is tasks[0] else GridStrategy

    class Small(GridStrategy):
        size = 4

    result = tune(tasks, store, budget, clock=clock, runner=SlowDevice(clock, 1.0), chooser=chooser)
    assert [item.trials for item in result.results] == [5, 51]  # two seconds each are kept for the finals


def test_ctrl_c_keeps_what_was_measured() -> None:
    store, count = MemoryStore(), 0

    def fault(schedule: ScheduleSpec) -> None:
        nonlocal count
        count += 1
        if count == 25 + 5:  # the default and four more are in the finals of the first task
            os.kill(os.getpid(), signal.SIGINT)

    tasks = [plain_task("a"), plain_task("b"), plain_task("c")]
    before = signal.getsignal(signal.SIGINT)
    result = tune(tasks, store, runner=FakeRunner(grid_latency, fault))
    assert signal.getsignal(signal.SIGINT) is before
    assert (result.complete, result.incomplete_reason) == (False, "interrupted")
    assert len(trials_of(store.all)) == result.trials == 24
    assert [item.trials for item in result.results] == [20, 4, 0]
    assert result.results[1].best is not None
    assert result.results[2].best is None
    resumed = tune(tasks, store)
    assert resumed.complete
    assert resumed.trials == 60 - 24


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_tvm_turned_into_another_error_is_still_one(number: signal.Signals) -> None:
    class Inside(GridStrategy):
        def ask(self, n: int) -> Any:
            try:
                os.kill(os.getpid(), number)
            except KeyboardInterrupt:
                raise RuntimeError("") from None
            return super().ask(n)

    before = signal.signal(number, signal.default_int_handler)
    try:
        result = tune([plain_task()], MemoryStore(), chooser=lambda task: Inside)
    finally:
        signal.signal(number, before)
    assert result.incomplete_reason == "interrupted"
    assert result.trials == 1


# T01: every candidate fails.
def test_nothing_measured_is_seen_and_leaves_no_kernel() -> None:
    store = MemoryStore()
    runner = FakeRunner(fault=lambda schedule: RunResult("run_error", (), "no device\nat all"))
    result = tune([plain_task()], store, runner=runner)
    assert result.nothing_measured
    assert result.first_error == "no device at all"
    assert result.results[0].best is None
    assert result.results[0].failed == {"run_error": 20}
    assert "no device at all" in result.results[0].note
    assert store.kernels == {}
    repaired = tune([plain_task()], store)  # what failed before does not count as tried
    assert repaired.trials == 20
    assert repaired.results[0].best is not None


# T13: a device that says it took no time.
@pytest.mark.parametrize("times", [(), (0.0,), (1e-3, 0.0), (float("nan"),), (float("inf"),)])
def test_no_time_is_a_failure(times: tuple[float, ...]) -> None:
    store = MemoryStore()
    odd = FakeRunner(grid_latency, lambda schedule: RunResult("ok", times, "") if schedule.data else None)
    result = tune([plain_task()], store, runner=odd)
    assert result.results[0].failed == {"no_time": 19}
    assert all(record.seconds == () for record in store.all if record.status == "no_time")
    assert result.results[0].best is store.all[0]


# T18: one group cannot be set up, another fails in the middle.
@pytest.mark.parametrize("error", [KernelError("no space"), RuntimeError("C++ says no"), ValueError("odd")])
def test_one_task_failing_leaves_the_others_alone(error: Exception) -> None:
    class NoSpace(GridStrategy):
        def __init__(self, *arguments: Any) -> None:
            raise error

    class Breaks(GridStrategy):
        def tell(self, *arguments: Any) -> None:
            raise error

    kinds = {"a": NoSpace, "b": GridStrategy, "c": Breaks}
    tasks = [plain_task(key) for key in kinds]
    store = MemoryStore()
    result = tune(tasks, store, chooser=lambda task: kinds[task.workload.key[0]])
    assert result.complete
    assert [item.trials for item in result.results] == [1, 20, 17]
    assert str(error) in result.results[0].note
    assert str(error) in result.results[2].note
    assert all(item.best is not None for item in result.results)
    assert result.results[0].best is not None
    assert result.results[0].best.schedule.kind == "default"
    if isinstance(error, KernelError):  # known to be so again
        assert [item.trials_left for item in _plan(tasks[:1], store)] == [0]


def _plan(tasks: list[Task], store: MemoryStore) -> Any:
    from workbench.tuning import preflight

    return preflight(tasks, Budget(trials_per_task=20), store).tasks


def test_broken_set_up_is_not_taken_for_a_failed_task() -> None:
    class Broken(FakeBuilder):
        def build(self, *arguments: Any) -> Any:
            raise SetupError("no linker")

    with pytest.raises(SetupError, match="no linker"):
        tune([plain_task()], MemoryStore(), builder=Broken())


# T06, T09: nothing to search.
def test_a_task_that_is_not_tunable_keeps_its_default() -> None:
    def chooser(task: Task) -> type[GridStrategy]:
        if task.workload.key[0] == "a":
            raise NotTunable("while loop")
        return GridStrategy

    store = MemoryStore()
    tasks = [plain_task("a"), plain_task("b")]
    result = tune(tasks, store, chooser=chooser)
    assert [item.trials for item in result.results] == [1, 20]
    assert result.results[0].note == "while loop"
    assert result.results[0].best is not None
    assert result.results[0].best.schedule.kind == "default"
    assert tune(tasks, store, chooser=chooser).trials == 0


def test_a_group_that_nothing_can_schedule_has_no_best_but_a_default_time() -> None:
    def chooser(task: Task) -> type[GridStrategy]:
        raise KernelError("nothing can schedule this group")

    store = MemoryStore()
    for trials in (1, 0):
        result = tune([plain_task()], store, chooser=chooser)
        assert result.trials == trials
        assert result.results[0].best is None
        assert result.results[0].default_s == 5e-3
        assert "nothing can schedule" in result.results[0].note
        assert not result.nothing_measured


@pytest.mark.parametrize("status", ["build_error", "timeout", "crash"])
def test_failed_builds_are_counted_by_category(status: Any) -> None:
    def fault(schedule: ScheduleSpec) -> Any:
        return (status, "made to fail") if schedule.data and schedule.data["x"] % 2 else None

    result = tune([plain_task()], MemoryStore(), Budget(trials_per_task=101), builder=FakeBuilder(fault))
    assert result.results[0].failed == {status: 50}
    assert result.results[0].best is not None
    assert result.results[0].best.schedule.data == {"x": 36}


def test_events_tell_the_whole_story() -> None:
    events: list[Event] = []
    tasks = [plain_task("a"), plain_task("b", flops=1e9)]
    tune(tasks, MemoryStore(), Budget(trials_per_task=33), on_event=events.append)
    assert [event.kind for event in events if event.index == 1] == ["task_start", "batch", "batch", "task_end"]
    assert events[0].kind == "plan"
    assert events[0].message == "2 tasks, 33 trials each, 66 in all"
    assert events[1].index == 1  # the largest first
    assert events[-1].kind == "end"
    assert events[-1].total_trials == events[-1].total_planned == 66
    assert [event.total_trials for event in events] == sorted(event.total_trials for event in events)


def test_records_say_how_they_came_to_be() -> None:
    store = MemoryStore()
    tune([plain_task()], store, Budget(trials_per_task=5, seed=11))
    trials = trials_of(store.all)
    assert [record.trial for record in trials] == [0, 1, 2, 3, 4]
    assert {record.strategy for record in trials} == {"default", "grid"}
    assert {record.strategy for record in store.all if record not in trials} == {"finals"}
    assert all(record.seed == 11 and record.created and record.target == TARGET.key for record in store.all)
    assert all(record.settings.threads == TARGET.threads for record in store.all)


# T26: layers that differ in their weights alone.
def test_equal_workloads_are_one_task_with_a_weight() -> None:
    first, second = plain_task("a").workload, plain_task("b").workload

    def lowered(name: str, keys: list[str]) -> LoweredModel:
        calls = tuple(KernelCall(f"g{i}", "f", key, (), ()) for i, key in enumerate(keys))
        return LoweredModel(name, None, {first.key: first, second.key: second}, calls, 0)

    variants = {
        "unfused": lowered("unfused", [second.key, first.key, first.key]),
        "planned": lowered("planned", [first.key]),
    }
    tasks = make_tasks(variants, TARGET)
    assert [(task.workload.key, task.weight) for task in tasks] == [(second.key, 1), (first.key, 3)]
    assert [task.variants for task in tasks] == [("unfused",), ("unfused", "planned")]


def test_the_result_shows_itself_as_a_table() -> None:
    page = tune([plain_task()], MemoryStore())._repr_html_()
    assert page.count("<tr>") == 2
    assert "matmul+relu" in page
    assert "5000" in page  # the default's microseconds


def test_no_tasks_no_trials() -> None:
    result = tune([], MemoryStore())
    assert (result.results, result.trials, result.complete) == ((), 0, True)


def test_what_the_tasks_compute_is_kept_beside_their_records() -> None:
    graph = from_json({
        "schema": 1,
        "values": [{"shape": [8], "dtype": "float32"}, {"shape": [8], "dtype": "float32"}],
        "nodes": [{"op": "exp", "inputs": ["v0"], "outputs": ["v1"], "attrs": {}}],
        "inputs": ["v0"],
        "outputs": ["v1"],
    })  # fmt: skip
    known, unknown = plain_task("w0"), plain_task("w1")
    known = replace(known, workload=replace(known.workload, graph=graph))
    store = MemoryStore()
    tune([known, unknown], store, Budget(trials_per_task=2))
    assert store.groups == {known.workload.key: to_json(graph)}
