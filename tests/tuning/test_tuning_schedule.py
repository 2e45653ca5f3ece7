"""One budget for all tasks: where the next batch goes, what a minute is worth, and when it is no longer worth it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tuning_tasks import plain_task

from workbench.errors import BudgetError, KernelError
from workbench.store.record import ScheduleSpec
from workbench.tuning import Budget, Event, MemoryStore, Task, TuneResult, tune_tasks
from workbench.tuning.budget import MIN_TRIALS
from workbench.tuning.builders import BuildResult, FakeBuilder
from workbench.tuning.runners import FakeRunner, RunResult
from workbench.tuning.schedule import USUAL, Progress, choose, exponent, gain, worth_of_a_minute
from workbench.tuning.storage import schedule_key, trials_of
from workbench.tuning.strategies.fake import GridStrategy


def progress(*times: float, weight: int = 1, seconds: float = 10.0, open_: bool = True) -> Progress:
    return Progress(times, weight, seconds, open_)


def test_a_curve_that_falls_as_usual_has_the_usual_exponent() -> None:
    usual = [1e-3 * count**-USUAL for count in range(1, 65)]
    assert exponent(usual) == pytest.approx(USUAL, rel=0.02)
    assert exponent([1e-3] * 64) == pytest.approx(USUAL / 2)  # it has stopped, which may be an accident
    assert exponent([math.inf, math.inf, 1e-3]) == USUAL


def test_the_gain_is_what_the_power_law_says() -> None:
    times = [1e-3 * count**-USUAL for count in range(1, 65)]
    expected = 3 * times[-1] * (1 - (64 / 80) ** exponent(times))
    assert gain(progress(*times, weight=3), 16) == pytest.approx(expected)
    assert gain(progress(*times, open_=False), 16) == 0
    assert gain(progress(math.inf, math.inf), 16) == math.inf


@given(st.lists(st.floats(1e-6, 1e-2), min_size=2, max_size=40), st.integers(1, 20))
def test_more_trials_never_gain_less_and_never_more_than_there_is(times: list[float], weight: int) -> None:
    one = progress(*times, weight=weight)
    gains = [gain(one, trials) for trials in (1, 8, 64, 512)]
    assert gains == sorted(gains)
    assert 0 <= gains[-1] < weight * min(times)


def test_the_next_batch_goes_where_the_whole_gains_most() -> None:
    heavy, light = progress(*[2e-3] * 16), progress(*[1e-3] * 16)
    assert choose({0: light, 1: heavy}, 16) == 1
    assert choose({0: progress(*[1e-3] * 16, weight=3), 1: heavy}, 16) == 0
    assert choose({0: light, 1: progress(*[2e-3] * 400)}, 16) == 0  # the heavy one has had its turns
    assert choose({0: light, 1: light}, 16) == 0
    assert choose({0: progress(1.0, open_=False)}, 16) is None
    assert choose({}, 16) is None


def test_a_minute_is_worth_less_the_longer_a_search_has_lasted() -> None:
    worths = [worth_of_a_minute({0: progress(*[1e-3] * count, seconds=count)}, 16) for count in (16, 64, 256, 1024)]
    assert worths == sorted(worths, reverse=True)
    assert 0 < worths[-1] < worths[0] < 1
    assert worth_of_a_minute({0: progress(*[1e-3] * 64, seconds=64.0, open_=False)}, 16) == 0
    assert worth_of_a_minute({0: progress(math.inf)}, 16) == math.inf


class Machine(FakeRunner):
    """Task "a" has a long way to go, all others' schedules are all the same."""

    def run(self, task: Task, builds: Sequence[BuildResult]) -> list[RunResult]:
        hilly = task.workload.key.startswith("a")
        self._latency = _hills if hilly else lambda schedule: 1e-3
        return super().run(task, builds)


def _hills(schedule: ScheduleSpec) -> float:
    return 5e-2 if schedule.kind == "default" else 1e-3 + 2e-4 * schedule.data["x"]


def tune(tasks: list[Task], store: MemoryStore, budget: Budget, **options: Any) -> TuneResult:
    options = {"runner": Machine(), "chooser": lambda task: GridStrategy, **options}
    return tune_tasks(tasks, budget, store=store, builder=FakeBuilder(), **options)


TASKS = [plain_task("b"), plain_task("a", weight=6), plain_task("c")]
POOL = Budget(trials=120, trials_per_task=None)


def test_trials_go_to_the_task_that_gains_most() -> None:
    result = tune(TASKS, MemoryStore(), POOL)
    made = [item.trials for item in result.results]
    assert sum(made) == result.trials == 120
    assert min(made) >= MIN_TRIALS
    assert made[1] > 2 * made[0]


def test_the_same_trials_are_not_made_twice_and_more_go_on() -> None:
    store = MemoryStore()
    tune(TASKS, store, POOL)
    assert tune(TASKS, store, POOL).trials == 0
    more = tune(TASKS, store, Budget(trials=150, trials_per_task=None))
    assert more.trials == 30
    keys = [(one.workload, schedule_key(one.schedule)) for one in trials_of(store.all)]
    assert len(keys) == len(set(keys)) == 150


def test_a_task_that_is_new_gets_its_trials_when_the_others_have_used_theirs() -> None:
    store = MemoryStore()
    tune(TASKS, store, POOL)
    result = tune([*TASKS, plain_task("d")], store, POOL)
    assert result.results[3].trials == MIN_TRIALS
    assert result.trials == MIN_TRIALS


def test_a_pool_that_was_killed_is_shared_as_before() -> None:
    class Killed(BaseException):
        pass

    def sequence(store: MemoryStore) -> list[tuple[str, str]]:
        return [(one.workload, schedule_key(one.schedule)) for one in trials_of(store.all)]

    whole = MemoryStore()
    tune(TASKS, whole, POOL)
    for end in (3, 9, 20, 26, 60, 100):
        runner, count = Machine(), [0]

        def fault(schedule: ScheduleSpec, end: int = end, count: list[int] = count) -> None:
            count[0] += 1
            if count[0] == end:
                raise Killed

        runner._fault = fault
        store = MemoryStore()
        with pytest.raises(Killed):
            tune(TASKS, store, POOL, runner=runner)
        assert len(trials_of(store.all)) == end - 1
        tune(TASKS, store, POOL)
        assert sorted(sequence(store)) == sorted(sequence(whole)), end


def test_the_search_ends_when_a_minute_is_not_worth_it_and_says_what_it_is_worth() -> None:
    clock, said = [0.0], list[Event]()

    class Slow(Machine):
        def run(self, task: Task, builds: Sequence[BuildResult]) -> list[RunResult]:
            clock[0] += 4.0
            return super().run(task, builds)

    def until(percent: float, store: MemoryStore) -> TuneResult:
        budget = Budget(trials_per_task=None, until=percent)
        return tune(TASKS, store, budget, runner=Slow(), clock=lambda: clock[0], on_event=said.append)

    store = MemoryStore()
    first = until(4.0, store)
    assert 3 * MIN_TRIALS <= first.trials < 303
    worths = [event.worth for event in said if event.worth is not None]
    assert worths
    assert worths[0] > worths[-1]
    assert until(4.0, store).trials == 0
    assert until(20.0, store).trials == 0
    assert until(1.0, store).trials > 0


@pytest.mark.parametrize("percent", [0.0, -1.0, 100.0, math.nan])
def test_a_per_cent_that_is_none_is_refused(percent: float) -> None:
    with pytest.raises(BudgetError, match="--until"):
        Budget(until=percent)


# T02, T12: nothing in the space works.
class Hopeless(GridStrategy):
    seeds: ClassVar[list[int]] = []

    def __init__(self, task: Task, seed: int, history: Sequence[Any]) -> None:
        super().__init__(task, seed, history)
        self.seeds.append(seed)


def test_a_group_without_a_valid_candidate_gets_three_seeds_and_the_reason_by_category() -> None:
    Hopeless.seeds.clear()

    def fault(schedule: ScheduleSpec) -> RunResult | None:
        if schedule.kind == "default":
            return None
        if schedule.data["x"] % 2:
            return RunResult("wrong_output", (), "row 3 is NaN")
        return RunResult("timeout", (), "not measured within 30 s")

    store = MemoryStore()
    result = tune(
        [plain_task()], store, Budget(trials_per_task=90), runner=FakeRunner(fault=fault), chooser=lambda t: Hopeless
    )
    item = result.results[0]
    assert Hopeless.seeds == [0, 1, 2]
    assert item.best is not None
    assert item.best.schedule.kind == "default"
    assert sum(item.failed.values()) == 48
    assert set(item.failed) == {"wrong_output", "timeout"}
    assert item.note.startswith("no valid candidate with 3 seeds: ")
    assert "wrong_output (row 3 is NaN)" in item.note
    assert "timeout (not measured within 30 s)" in item.note
    assert "the default schedule is used" in item.note


def test_a_space_that_cannot_be_made_is_tried_with_other_seeds_too() -> None:
    class Moody(GridStrategy):
        seeds: ClassVar[list[int]] = []

        def __init__(self, task: Task, seed: int, history: Sequence[Any]) -> None:
            self.seeds.append(seed)
            if seed < 2:
                raise KernelError("no sketch")
            super().__init__(task, seed, history)

    store = MemoryStore()
    result = tune([plain_task()], store, Budget(trials_per_task=20), chooser=lambda task: Moody)
    assert Moody.seeds == [0, 1, 2]
    assert result.trials == 20
    assert "no valid candidate" not in result.results[0].note

    class Never(GridStrategy):
        def __init__(self, task: Task, seed: int, history: Sequence[Any]) -> None:
            raise KernelError("no sketch")

    again = tune([plain_task("n")], store, Budget(trials_per_task=20), chooser=lambda task: Never)
    assert again.trials == 1
    assert "no valid candidate with 3 seeds: no sketch; the default schedule is used" in again.results[0].note
    assert tune([plain_task("n")], store, Budget(trials_per_task=20), chooser=lambda task: Never).trials == 0
