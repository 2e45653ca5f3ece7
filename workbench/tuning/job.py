"""The tuning job: all tasks, one budget, one store."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..errors import KernelError
from ..graph.serialise import to_json
from ..store.record import MeasureSettings
from ..tvm_seam import tvm_version
from .budget import MIN_TRIALS, Preflight, preflight
from .builders._base import Builder
from .builders.local import LocalBuilder
from .interrupt import InterruptGuard
from .progress import Event, Listener
from .runners._base import Runner
from .runners.local import LocalRunner
from .schedule import choose as choose_task
from .schedule import worth_of_a_minute
from .search import BATCH, Search
from .storage import TuningStore, best_of, default_seconds, trials_of
from .strategies import NotTunable, Strategy, choose
from .task import Budget, Task, TaskResult, TuneResult
from .turns import Choice, TaskTurns

logger = logging.getLogger(__name__)
Chooser = Callable[[Task], type[Strategy]]
Maker = Callable[[int, int, float | None], TaskTurns]
FINALS_S, FINALS_PART = 2.0, 0.1  # kept for finals: seconds a task, or the part of a short time
FIRST_TURN = MIN_TRIALS - 1  # beside the default


def tune_tasks(
    tasks: Sequence[Task],
    budget: Budget,
    *,
    store: TuningStore,
    builder: Builder | None = None,
    runner: Runner | None = None,
    on_event: Listener | None = None,
    jobs: int | None = None,
    settings: MeasureSettings | None = None,
    chooser: Chooser = choose,
    clock: Callable[[], float] = time.monotonic,
) -> TuneResult:
    """Searches every task within the budget; tasks that the store covers cost nothing.

    ``jobs``: build processes, by default one a core. ``builder`` and ``runner`` default to this machine's; those given
    stay open. ``on_event`` hears of every step. Whatever goes wrong in one task leaves the others alone, and Ctrl-C
    returns what was measured, with ``complete`` False.
    Raises SetupError when worker processes cannot start, StoreError when the store or the disk takes nothing more.
    """
    store.add_groups(_groups(tasks))
    job = _Job(tasks, budget, store, on_event or (lambda event: None), chooser, clock)
    if not job.plan.work:  # no process needs to start
        return job.result(True)
    with InterruptGuard() as guard:
        try:
            with _devices(tasks[0], builder, runner, jobs, settings) as (building, running):
                job.run(building, running, guard)
        except KeyboardInterrupt:
            logger.warning("interrupted; what was measured is kept")
            return job.result(False, "interrupted")
    return job.result(True)


def _groups(tasks: Sequence[Task]) -> dict[str, dict[str, Any]]:
    """What the tasks compute, as JSON, so that cost models can learn from their times."""
    graphs = {task.workload.key: task.workload.graph for task in tasks}
    return {key: to_json(graph) for key, graph in graphs.items() if graph is not None}


@contextmanager
def _devices(
    task: Task, builder: Builder | None, runner: Runner | None, jobs: int | None, settings: MeasureSettings | None
) -> Iterator[tuple[Builder, Runner]]:
    """The given builder and runner, or this machine's, closed at the end; both start their processes at once."""
    building = builder or LocalBuilder(jobs)
    try:
        running = runner or LocalRunner(settings, threads=task.target.threads)
        try:
            yield building, running
        finally:
            if runner is None:
                running.close()
    finally:
        if builder is None:
            building.close()


def _choose(task: Task, chooser: Chooser) -> Choice:
    try:
        return Choice(chooser(task))
    except NotTunable as reason:
        return Choice(None, str(reason))
    except KernelError as reason:
        return Choice(None, str(reason), split=True)


class _Job:
    """The state of one call of :func:`tune_tasks`."""

    def __init__(
        self,
        tasks: Sequence[Task],
        budget: Budget,
        store: TuningStore,
        listener: Listener,
        chooser: Chooser,
        clock: Callable[[], float],
    ) -> None:
        self.budget, self.store, self.listener = budget, store, listener
        self.clock, self.began = clock, clock()
        self.choices = [_choose(task, chooser) for task in tasks]
        self.plan: Preflight = preflight(tasks, budget, store, [choice.kind is not None for choice in self.choices])
        self.results: dict[int, TaskResult] = {}
        self.running: dict[int, TaskTurns] = {}
        self.made = 0  # trials of tasks that have ended
        self.worth: float | None = None
        self.worthless = False  # a minute is worth less than was asked for
        self.emit("plan", message=self.plan.message)

    @property
    def elapsed(self) -> float:
        """Seconds since the job began."""
        return self.clock() - self.began

    def run(self, builder: Builder, runner: Runner, guard: InterruptGuard) -> None:
        """All tasks with something to measure, the largest share first, so that an early end loses the least."""
        pooled = self.budget.pooled
        todo = [
            index
            for index, planned in enumerate(self.plan.tasks)
            if (planned.most_left if pooled else planned.trials_left) or planned.finals
        ]
        todo.sort(key=lambda index: (-self.plan.tasks[index].share, index))

        def make(index: int, trials: int, deadline: float | None) -> TaskTurns:
            return self.open(index, trials, deadline, builder, runner, guard)

        try:
            if pooled:
                self.by_turns(todo, make)
            else:
                self.one_by_one(todo, make)
        finally:
            for index in list(self.running):  # an interrupt or a fault ended the job: no finals, but what there is
                self.close(index, interrupted=True)

    def open(
        self,
        index: int,
        trials: int,
        deadline: float | None,
        builder: Builder,
        runner: Runner,
        guard: InterruptGuard,
    ) -> TaskTurns:
        """A task's search, with its default measured and its strategy made."""
        task, choice, seed = self.plan.tasks[index].task, self.choices[index], self.budget.seed
        search = Search(
            task,
            choice.kind,
            builder,
            runner,
            self.store,
            trials=trials,
            seed=seed,
            deadline=deadline,
            clock=self.clock,
        )
        turns = TaskTurns(search, choice, guard, self.clock)
        self.running[index] = turns
        self.emit("task_start", index)
        changed = turns.start() if trials else ""
        turns.going = turns.going and trials > 0
        if changed:
            self.emit("note", index, changed)
        return turns

    def one_by_one(self, todo: Sequence[int], make: Maker) -> None:
        """Each task to its own end: the trials of one are no trials of another."""
        for index in todo:
            turns = make(index, self.plan.tasks[index].trials_left, None)
            while turns.going:
                self.turn(index, BATCH)
            self.end(index)

    def by_turns(self, todo: Sequence[int], make: Maker) -> None:
        """A first look at every task, then turn by turn to the one that is expected to gain the whole most."""
        deadline = self.deadline(len(todo))
        for index in todo:
            spent = self.pool_left() == 0
            if spent and not self.plan.tasks[index].finals:
                continue
            turns = make(index, 0 if spent else self.plan.tasks[index].most_left, deadline)
            if turns.going:
                self.turn(index, FIRST_TURN)
        while (chosen := self.next_task()) is not None:
            self.turn(chosen, BATCH)
        for index in list(self.running):
            self.end(index)

    def turn(self, index: int, n: int) -> None:
        """One batch of a task, as far as the trials of all reach."""
        left = self.pool_left()
        wanted = n if left is None else min(n, left)
        if wanted > 0:
            said = self.running[index].turn(wanted)
            self.emit("batch", index)
            if said:
                self.emit("note", index, said)

    def next_task(self) -> int | None:
        """Where the next batch goes; None when nothing is left to be spent, or no longer worth it."""
        if self.pool_left() == 0:
            return None
        progress = {index: turns.progress for index, turns in self.running.items()}
        self.worth = worth_of_a_minute(progress, BATCH)
        if self.budget.until is not None and 100 * self.worth < self.budget.until:
            self.worthless = True
            return None
        return choose_task(progress, BATCH)

    def pool_left(self) -> int | None:
        """Trials that all tasks together may still make; those that are only answered again by the store count too."""
        if self.plan.pool is None:
            return None
        owned = sum(turns.search.owned for turns in self.running.values())
        return max(0, self.plan.pool + owned - sum(turns.search.spent for turns in self.running.values()))

    def end(self, index: int) -> None:
        """The task's finals, and its result."""
        turns, planned = self.running[index], self.plan.tasks[index]
        if self.worthless and turns.going:
            turns.search.end = "worth"
        turns.finals(planned.seconds, self.budget.until)
        self.close(index)

    def close(self, index: int, interrupted: bool = False) -> None:
        """Keeps the winner, and says what came of the task."""
        turns = self.running[index]
        result = turns.result(self.plan.tasks[index].cached, interrupted)
        self.results[index] = result
        self.emit("task_end", index, result.note)
        self.made += len(turns.search.records)
        del self.running[index]

    def deadline(self, tasks: int) -> float | None:
        """When the searches must end: what is left of the time, less what the finals will take."""
        if self.budget.minutes is None:
            return None
        left = max(0.0, 60 * self.budget.minutes - self.elapsed)
        return self.clock() + left - min(FINALS_S * tasks, FINALS_PART * left)

    def result(self, complete: bool, reason: str = "") -> TuneResult:
        """Everything found; what was not searched comes from the store."""
        for index in range(len(self.plan.tasks)):
            if index not in self.results:
                self.take_stored(index)
        results = tuple(self.results[index] for index in range(len(self.plan.tasks)))
        self.emit("end", message=reason)
        return TuneResult(results, self.elapsed, self.made, complete, reason)

    def take_stored(self, index: int) -> None:
        """A task that needs no trial, or did not get any."""
        planned, choice = self.plan.tasks[index], self.choices[index]
        task = planned.task
        stored = self.store.records(task.workload.key, task.target.key, tvm_version())
        best, note = best_of(stored), choice.note
        if not planned.cached and not note:
            note = "the budget did not reach this task"
        self.results[index] = TaskResult(
            task=task,
            best=None if choice.split else best,
            records=tuple(trials_of(stored)),
            default_s=default_seconds(stored),
            failed={},
            cached=planned.cached,
            rank_correlation=None,
            note=note,
        )
        self.emit("task_end", index, message=note)

    def emit(self, kind: str, index: int = 0, message: str = "") -> None:
        """Tells the listener where things stand."""
        turns, known = self.running.get(index), self.results.get(index)
        search = None if turns is None else turns.search
        planned = self.plan.tasks[index] if kind not in ("plan", "end", "note") else None
        best = search.best if search is not None else known.best if known is not None else None
        records = (*search.history, *search.records) if search is not None else known.records if known else ()
        total = self.made + sum(len(one.search.records) for one in self.running.values())
        planned_trials = 0 if planned is None else planned.trials_left
        self.listener(
            Event(
                kind=kind,
                task=planned.task if planned is not None else None,
                index=index,
                tasks=len(self.plan.tasks),
                trials=len(search.records) if search is not None else 0,
                trials_planned=max(planned_trials, len(search.records)) if search is not None else planned_trials,
                total_trials=total,
                total_planned=max(total, self.plan.trials),
                best_s=None if best is None else best.median_s,
                default_s=default_seconds(records),
                failed=search.failed if search is not None else {},
                elapsed_s=self.elapsed,
                remaining_s=self.remaining(total),
                message=message,
                worth=self.worth,
                model=None if search is None else search.model_round,
            )
        )

    def remaining(self, total: int) -> float | None:
        """Seconds to go: at the pace so far, and never more than the budget has left."""
        pace = None if not total else self.elapsed / total * max(0, self.plan.trials - total)
        if self.budget.minutes is None:
            return pace
        left = max(0.0, 60 * self.budget.minutes - self.elapsed)
        return left if pace is None else min(left, pace)
