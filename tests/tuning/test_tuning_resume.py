"""A search that was killed goes on as if nobody had: same candidates, same model, same winner."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tuning_tasks import TARGET, TwoTiles, matmul_task, plain_task

import schedules
from workbench.store import Store
from workbench.store.record import Record, ScheduleSpec
from workbench.tuning import Budget, MemoryStore, Search, Task, TuneResult, tune_tasks
from workbench.tuning.builders import FakeBuilder
from workbench.tuning.resume import look_back
from workbench.tuning.runners import FakeRunner, RunResult
from workbench.tuning.runners.fake import latency_by_hash
from workbench.tuning.storage import schedule_key, trials_of
from workbench.tuning.strategies import LibraryStrategy, MetaScheduleStrategy, Strategy, UnionStrategy
from workbench.tuning.strategies.fake import GridStrategy
from workbench.tuning.task import Candidate
from workbench.tuning.testing import record_of
from workbench.tvm_seam import tvm_version


class Killed(BaseException):
    """Stands for a process that ends."""


def tune(
    tasks: Sequence[Task], store: Any, kind: type[Strategy], trials: int, killed_at: int | None = None
) -> TuneResult:
    """A job on the fake device, which ends all of a sudden at its ``killed_at``-th measurement."""
    count = 0

    def fault(schedule: ScheduleSpec) -> None:
        nonlocal count
        count += 1
        if count == killed_at:
            raise Killed

    runner = FakeRunner(latency_by_hash, fault)
    budget = Budget(trials_per_task=trials)
    return tune_tasks(tasks, budget, store=store, builder=FakeBuilder(), runner=runner, chooser=lambda task: kind)


def sequence(store: MemoryStore) -> list[tuple[str, str, tuple[float, ...]]]:
    return [(one.workload, schedule_key(one.schedule), one.seconds) for one in trials_of(store.all)]


def end_of(result: TuneResult) -> list[tuple[Any, ...]]:
    return [(one.best and one.best.schedule, one.default_s, one.rank_correlation) for one in result.results]


def check_every_end(tasks: Sequence[Task], kind: type[Strategy], trials: int, ends: Sequence[int]) -> None:
    whole = MemoryStore()
    expected = tune(tasks, whole, kind, trials)
    assert expected.trials == trials * len(tasks)
    for end in ends:
        store = MemoryStore()
        with pytest.raises(Killed):
            tune(tasks, store, kind, trials, killed_at=end)
        made = len(trials_of(store.all))
        assert made < end <= made + 12  # the rest were finals
        result = tune(tasks, store, kind, trials)
        assert sequence(store) == sequence(whole), end
        assert result.trials == expected.trials - made
        assert end_of(result) == end_of(expected), end


@pytest.fixture
def two_tiles(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    entry = TwoTiles()
    monkeypatch.setattr(schedules, "for_workload", lambda workload, target: [entry])
    monkeypatch.setattr(schedules, "get", lambda name: entry)
    return entry


def test_wherever_it_is_killed_over_two_tasks() -> None:
    check_every_end([plain_task("a"), plain_task("b")], GridStrategy, 40, range(1, 81))


@pytest.mark.usefixtures("two_tiles")
def test_with_a_model_that_learns() -> None:
    check_every_end([matmul_task(64)], LibraryStrategy, 36, (1, 2, 16, 17, 18, 25, 33, 34, 36))


def test_with_an_evolution() -> None:
    check_every_end([matmul_task(64)], MetaScheduleStrategy, 36, (2, 18, 30))


@pytest.mark.usefixtures("two_tiles")
def test_with_two_spaces() -> None:
    check_every_end([matmul_task(64)], UnionStrategy, 36, (5, 20, 36))


def test_killed_twice_and_with_a_larger_budget_at_the_end() -> None:
    whole = MemoryStore()
    tune([matmul_task(64)], whole, MetaScheduleStrategy, 40)
    store = MemoryStore()
    for trials, end in ((20, 7), (30, 15)):
        with pytest.raises(Killed):
            tune([matmul_task(64)], store, MetaScheduleStrategy, trials, killed_at=end)
    tune([matmul_task(64)], store, MetaScheduleStrategy, 40)
    assert sequence(store) == sequence(whole)


def test_a_search_starts_from_what_was_there_when_it_first_began() -> None:
    task = matmul_task(64)
    earlier = MemoryStore()
    tune([task], earlier, MetaScheduleStrategy, 12)
    history = [one for one in earlier.all if one.schedule.kind == "trace"]

    def seeded() -> MemoryStore:
        store = MemoryStore()
        store.all = [record_of(task, Candidate(one.schedule, None), one.median_s) for one in history]
        return store

    whole, cut = seeded(), seeded()
    tune([task], whole, MetaScheduleStrategy, 30)
    with pytest.raises(Killed):
        tune([task], cut, MetaScheduleStrategy, 30, killed_at=9)
    tune([task], cut, MetaScheduleStrategy, 30)
    assert sequence(cut) == sequence(whole)


# U09: a resumed search must not meet the candidate that hung again.
def test_what_hung_crashed_or_was_wrong_is_not_tried_again() -> None:
    tried: list[str] = []

    def fault(schedule: ScheduleSpec) -> RunResult | None:
        tried.append(schedule_key(schedule))
        if schedule.kind == "library" and schedule.data["x"] % 3 == 0:
            return RunResult("timeout", (), "not measured within 30 s")
        if len(tried) == 30:
            raise Killed
        return None

    store = MemoryStore()
    for _ in range(2):
        runner = FakeRunner(latency_by_hash, fault)
        with contextlib.suppress(Killed):
            tune_tasks(
                [plain_task()],
                Budget(trials_per_task=60),
                store=store,
                builder=FakeBuilder(),
                runner=runner,
                chooser=lambda task: GridStrategy,
            )
    hung = [one for one in trials_of(store.all) if one.status == "timeout"]
    assert len(hung) > 10
    assert all(tried.count(schedule_key(one.schedule)) == 1 for one in hung)
    assert len(trials_of(store.all)) == 60


def test_another_seed_is_another_search_and_measures_nothing_twice() -> None:
    task, store = plain_task(), MemoryStore()
    tune([task], store, GridStrategy, 40)
    budget = Budget(trials_per_task=80, seed=1)
    tune_tasks(
        [task], budget, store=store, builder=FakeBuilder(), runner=FakeRunner(), chooser=lambda task: GridStrategy
    )
    points = [schedule_key(one.schedule) for one in trials_of(store.all)]
    assert len(points) == len(set(points)) == 80


def test_a_changed_space_is_a_new_search_and_says_so() -> None:
    class Larger(GridStrategy):
        size = 200

    task, store, said = plain_task(), MemoryStore(), []
    tune([task], store, GridStrategy, 30)
    tune_tasks(
        [task],
        Budget(trials_per_task=60),
        store=store,
        builder=FakeBuilder(),
        runner=FakeRunner(),
        chooser=lambda task: Larger,
        on_event=lambda event: said.append(event.message) if event.kind == "note" else None,
    )
    assert said == [
        "the space of strategy 'grid' has changed since 29 trials were made with seed 0: "
        "the search starts anew and learns from them"
    ]
    fresh = {one.space for one in trials_of(store.all)[30:]}
    assert fresh == {Larger.fingerprint(task)}
    assert Larger.fingerprint(task) != GridStrategy.fingerprint(task)
    assert len({schedule_key(one.schedule) for one in store.all}) == 60


def test_own_trials_and_those_of_others_are_told_apart() -> None:
    task = plain_task()

    def trial(x: int, **changes: Any) -> Record:
        import dataclasses

        made = record_of(task, Candidate(ScheduleSpec("library", "grid", {"x": x}), None), 1e-3)
        return dataclasses.replace(made, **{"strategy": "grid", "seed": 0, "space": "s", **changes})

    records = [trial(0, strategy="imported"), trial(1), trial(2, seed=5), trial(3)]
    past = look_back(records, "grid", 0, "s")
    assert (past.basis, past.own, past.changed) == ((records[0],), (records[1], records[3]), "")
    other = look_back(records, "grid", 0, "t")
    assert other.basis == tuple(records)
    assert other.own == ()
    assert "2 trials" in other.changed
    assert look_back(records[:1], "grid", 0, "s").changed == ""


def test_by_hand_ask_measure_tell() -> None:
    store = MemoryStore()
    search = Search(plain_task(), GridStrategy, FakeBuilder(), FakeRunner(), store, trials=21)
    assert search.measure_default() == 3e-3
    batches = 0
    while candidates := search.ask(8):
        records = search.measure(candidates)
        search.tell(candidates, records)
        batches += 1
    assert (batches, len(store.all), search.end) == (3, 21, "trials")
    assert search.best is min(store.all, key=lambda one: one.median_s)


JOB = """
import sys, time
sys.path.insert(0, {tests!r})
from tuning_tasks import plain_task
from workbench.store import Store
from workbench.tuning import Budget, tune_tasks
from workbench.tuning.builders import FakeBuilder
from workbench.tuning.runners import FakeRunner
from workbench.tuning.strategies.fake import GridStrategy
runner = FakeRunner(fault=lambda schedule: time.sleep({pause}))
with Store({store!r}) as store:
    tune_tasks([plain_task("a"), plain_task("b")], Budget(trials_per_task=60), store=store,
               builder=FakeBuilder(), runner=runner, chooser=lambda task: GridStrategy)
"""


def test_kill_9_costs_at_most_the_trial_in_flight(tmp_path: Path) -> None:
    tasks = [plain_task("a"), plain_task("b")]
    whole = MemoryStore()
    tune(tasks, whole, GridStrategy, 60)
    script = JOB.format(tests=str(Path(__file__).parent), store=str(tmp_path / "store"), pause=0.005)

    def stored() -> list[Record]:
        with Store(tmp_path / "store") as store:
            keys = [(task.workload.key, TARGET.key, tvm_version()) for task in tasks]
            return [one for key in keys for one in trials_of(store.records(*key))]

    killed = 0
    for wanted in (3, 30, 75):
        process = subprocess.Popen([sys.executable, "-c", script])
        while process.poll() is None and len(stored()) < wanted:
            time.sleep(0.02)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.wait()
    assert killed >= 2  # the third may come too late on a slow machine
    subprocess.run([sys.executable, "-c", script.replace("0.005", "0")], check=True)
    found = [(one.workload, schedule_key(one.schedule), one.seconds) for one in stored()]
    assert found == sequence(whole)
