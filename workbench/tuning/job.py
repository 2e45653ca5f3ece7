"""The tuning job: all tasks, one budget, one store."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ..errors import KernelError, SetupError, StoreError
from ..graph.serialise import to_json
from ..store.record import MeasureSettings
from ..tvm_seam import tvm_version
from .budget import Preflight, preflight
from .builders._base import Builder
from .builders.local import LocalBuilder
from .finals import words
from .interrupt import InterruptGuard
from .progress import Event, Listener
from .runners._base import Runner
from .runners.local import LocalRunner
from .search import Search
from .storage import TuningStore, best_of, default_seconds, trials_of
from .strategies import NotTunable, Strategy, choose
from .task import Budget, Task, TaskResult, TuneResult

logger = logging.getLogger(__name__)
Chooser = Callable[[Task], type[Strategy]]
FINALS_S, FINALS_PART = 2.0, 0.1  # kept of a task's time for its finals: seconds, or the part of a short time


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


@dataclass(frozen=True)
class _Choice:
    """The strategy of a task, or why it has none; ``split``: the group should not be one kernel."""

    kind: type[Strategy] | None
    note: str = ""
    split: bool = False


def _choose(task: Task, chooser: Chooser) -> _Choice:
    try:
        return _Choice(chooser(task))
    except NotTunable as reason:
        return _Choice(None, str(reason))
    except KernelError as reason:
        return _Choice(None, str(reason), split=True)


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
        self.made = 0
        self.emit("plan", message=self.plan.message)

    @property
    def elapsed(self) -> float:
        """Seconds since the job began."""
        return self.clock() - self.began

    def run(self, builder: Builder, runner: Runner, guard: InterruptGuard) -> None:
        """All tasks with something to measure, the largest share first, so that an early end loses the least."""
        todo = [index for index, planned in enumerate(self.plan.tasks) if planned.trials_left or planned.finals]
        todo.sort(key=lambda index: (-self.plan.tasks[index].share, index))
        for position, index in enumerate(todo):
            self.tune(index, self.deadline(todo[position:]), builder, runner, guard)

    def tune(self, index: int, deadline: float | None, builder: Builder, runner: Runner, guard: InterruptGuard) -> None:
        """One task; its failure is its own."""
        planned, choice = self.plan.tasks[index], self.choices[index]
        search = Search(
            planned.task,
            choice.kind,
            builder,
            runner,
            self.store,
            trials=planned.trials_left,
            seed=self.budget.seed,
            deadline=deadline,
            clock=self.clock,
        )
        self.emit("task_start", index, search)
        note = "interrupted"
        try:
            notes = [self.own_failure(index, guard, lambda: self.search(index, search, choice))]
            notes.append(self.own_failure(index, guard, lambda: self.finals(search)))
            note = "; ".join(filter(None, notes))
        finally:
            if search.strategy is not None:
                search.strategy.close()
            self.made += len(search.records)
            self.end_task(index, search, note)

    def own_failure(self, index: int, guard: InterruptGuard, work: Callable[[], str]) -> str:
        """What ``work`` says, or why it failed: TVM raises anything, and one task must not end the others."""
        try:
            return work()
        except (SetupError, StoreError, KeyboardInterrupt):
            raise
        except Exception as error:
            if guard.interrupted:  # Ctrl-C inside a callback of TVM
                raise KeyboardInterrupt from error
            note = " ".join(str(error).split()) or type(error).__name__
            logger.warning("task %d: %s", index + 1, note, exc_info=not isinstance(error, KernelError))
            return note

    def finals(self, search: Search) -> str:
        """Chooses the winner; a note where people should know more than its name."""
        verdict = search.verify()
        return "" if verdict is None else words(verdict, search.drift)

    def search(self, index: int, search: Search, choice: _Choice) -> str:
        """Default first, then the strategy until it ends; returns a note for people."""
        if not self.plan.tasks[index].trials_left:
            return choice.note
        search.measure_default()
        if choice.kind is None:
            return choice.note
        if not search.end:
            try:
                search.begin()
            except KernelError:
                search.mark_end(choice.kind.name, None)
                raise
            if search.changed:
                self.emit("note", index, search, search.changed)
        going = not search.end
        while going:
            going = search.step()
            self.emit("batch", index, search)
        search.mark_end(choice.kind.name, self.plan.tasks[index].seconds)
        return ""

    def end_task(self, index: int, search: Search, note: str) -> None:
        """Keeps the winner, and says what came of the task."""
        result = search.finish(note)
        result = replace(result, cached=self.plan.tasks[index].cached)
        if self.choices[index].split:
            result = replace(result, best=None)
        elif result.best is None and not note:
            error = result.first_error
            why = f"no candidate worked: {error}" if error else "the budget ended before a candidate was tried"
            result = replace(result, note=why)
        self.results[index] = result
        self.emit("task_end", index, search, result.note)

    def deadline(self, rest: Sequence[int]) -> float | None:
        """When the search of the first of the remaining tasks must end: its share of the time that is left, less what
        its finals will take."""
        if self.budget.minutes is None:
            return None
        left = max(0.0, 60 * self.budget.minutes - self.elapsed)
        shares = [self.plan.tasks[index].share for index in rest]
        share = left * shares[0] / sum(shares)
        return self.clock() + share - min(FINALS_S, FINALS_PART * share)

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

    def emit(self, kind: str, index: int = 0, search: Search | None = None, message: str = "") -> None:
        """Tells the listener where things stand."""
        known = self.results.get(index)
        planned = self.plan.tasks[index] if kind not in ("plan", "end", "note") else None
        best = search.best if search is not None else known.best if known is not None else None
        records = (*search.history, *search.records) if search is not None else known.records if known else ()
        running = len(search.records) if search is not None and kind != "task_end" else 0
        total = self.made + running
        self.listener(
            Event(
                kind=kind,
                task=planned.task if planned is not None else None,
                index=index,
                tasks=len(self.plan.tasks),
                trials=len(search.records) if search is not None else 0,
                trials_planned=planned.trials_left if planned is not None else 0,
                total_trials=total,
                total_planned=self.plan.trials,
                best_s=None if best is None else best.median_s,
                default_s=default_seconds(records),
                failed=search.failed if search is not None else {},
                elapsed_s=self.elapsed,
                remaining_s=self.remaining(total),
                message=message,
            )
        )

    def remaining(self, total: int) -> float | None:
        """Seconds to go: at the pace so far, and never more than the budget has left."""
        pace = None if not total else self.elapsed / total * max(0, self.plan.trials - total)
        if self.budget.minutes is None:
            return pace
        left = max(0.0, 60 * self.budget.minutes - self.elapsed)
        return left if pace is None else min(left, pace)
