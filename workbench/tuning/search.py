"""The search of one task: ask, build, run, tell, until something says stop.

A person can drive it by hand::

    search = Search(task, strategy, builder, runner, store, trials=64)
    search.measure_default()
    while search.step(16):
        print(search.best)
"""

from __future__ import annotations

import dataclasses
import datetime
import platform
import time
from collections.abc import Callable, Sequence

from ..kernels.kernel import Kernel
from ..store.record import Record, ScheduleSpec, Status
from ..tvm_seam import tvm_version
from .builders._base import Builder
from .runners._base import Runner, RunResult
from .storage import TuningStore, best_of, default_seconds, end_mark, trials_of
from .strategies._base import Strategy
from .task import Candidate, Task, TaskResult

DEFAULT = ScheduleSpec("default", "default", {})
BATCH = 16  # enough to keep the build workers busy, few enough to learn from each batch


class Search:
    """One task's search. Every trial is in the store as soon as it was measured."""

    def __init__(
        self,
        task: Task,
        strategy: Strategy | None,
        builder: Builder,
        runner: Runner,
        store: TuningStore,
        *,
        trials: int,
        seed: int = 0,
        deadline: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        on_record: Callable[[Record], None] = lambda record: None,
    ) -> None:
        """``strategy`` None: there is only the default schedule to measure.

        ``trials``: how many may be made. ``deadline``: on ``clock``, after which no trial starts.
        """
        self.task, self.strategy = task, strategy
        self._builder, self._runner, self._store = builder, runner, store
        self._limit, self._seed, self._deadline = trials, seed, deadline
        self._clock, self._began, self._on_record = clock, clock(), on_record
        self.history: list[Record] = trials_of(store.records(task.workload.key, task.target.key, tvm_version()))
        self.records: list[Record] = []
        self.end = ""  # why the search ended: "", "trials", "time", "exhausted"
        self._kernels: dict[int, Kernel] = {}  # of the best record so far, by id

    @property
    def best(self) -> Record | None:
        """The fastest trial, those of the store included."""
        return best_of([*self.history, *self.records])

    @property
    def failed(self) -> dict[str, int]:
        """Failed trials of this search by category, candidates that the strategy itself dropped included."""
        counts = dict(self.strategy.rejected) if self.strategy is not None else {}
        for record in self.records:
            if record.status != "ok":
                counts[record.status] = counts.get(record.status, 0) + 1
        return counts

    @property
    def late(self) -> bool:
        """Whether the time is over."""
        return self._deadline is not None and self._clock() >= self._deadline

    def measure_default(self) -> float | None:
        """Measures the default schedule unless the store has it; its seconds, or None when it failed.

        This one trial is made even when the time is over: a group without any measurement could be neither judged nor
        known as done by the next run of the same command.
        """
        known = default_seconds(self.history)
        if known is None and len(self.records) < self._limit:
            self._try([Candidate(DEFAULT, None)], "default", hurry=False)
        self._may_go_on()
        return default_seconds([*self.history, *self.records])

    def step(self, n: int = BATCH) -> bool:
        """One batch of at most ``n`` candidates; False when the search has ended, for the reason in ``end``."""
        if self.strategy is None:
            self.end = self.end or "exhausted"
        if self.end or not self._may_go_on() or self.strategy is None:
            return False
        candidates = self.strategy.ask(min(n, self._limit - len(self.records)))
        if not candidates:
            self.end = "exhausted"
            return False
        tried = self._try(candidates, self.strategy.name)
        self.strategy.tell(candidates[: len(tried)], tried)
        return self._may_go_on()

    def mark_end(self, strategy: str, allotted_s: float | None) -> None:
        """Keeps the news that this search ended by itself, so that the same command does not start it again."""
        if self.end == "exhausted" or (self.end == "time" and allotted_s is not None):
            key, target, settings = self.task.workload.key, self.task.target.key, self._runner.settings
            mark = end_mark(key, target, tvm_version(), strategy, self.end, allotted_s, settings)
            self._store.add_record(dataclasses.replace(mark, created=_now()))

    def finish(self, note: str = "") -> TaskResult:
        """Keeps the winner's kernel, and returns what was found."""
        best = self.best
        kernel = self._kernels.get(id(best))
        if kernel is not None:
            self._store.put(kernel)
        return TaskResult(
            task=self.task,
            best=best,
            records=(*self.history, *self.records),
            default_s=default_seconds([*self.history, *self.records]),
            failed=self.failed,
            cached=False,
            rank_correlation=None if self.strategy is None else self.strategy.rank_correlation,
            note=note,
            trials=len(self.records),
        )

    def _may_go_on(self) -> bool:
        if len(self.records) >= self._limit:
            self.end = self.end or "trials"
        elif self.late:
            self.end = self.end or "time"
        return not self.end

    def _try(self, candidates: Sequence[Candidate], strategy: str, hurry: bool = True) -> list[Record]:
        """Builds all, then measures one by one, in a hurry until the time is over; the records of those tried."""
        builds = self._builder.build(self.task, candidates)
        tried: list[Record] = []
        for candidate, build in zip(candidates, builds, strict=True):
            if hurry and self.late:
                break
            outcome = checked(self._runner.run(self.task, [build])[0])
            self._builder.discard(build)
            record = self._record(candidate, outcome, strategy)
            self._store.add_record(record)
            self.records.append(record)
            tried.append(record)
            if self.best is record and build.kernel is not None:
                self._kernels = {id(record): build.kernel}
            self._on_record(record)
        return tried

    def _record(self, candidate: Candidate, outcome: RunResult, strategy: str) -> Record:
        settings = dataclasses.replace(self._runner.settings, threads=self.task.target.threads)
        return Record(
            workload=self.task.workload.key,
            target=self.task.target.key,
            tvm=tvm_version(),
            schedule=candidate.schedule,
            status=outcome.status,
            seconds=outcome.seconds,
            settings=settings,
            error=outcome.error,
            strategy=strategy,
            seed=self._seed,
            trial=len(self.history) + len(self.records),
            elapsed_s=self._clock() - self._began,
            created=_now(),
            machine=platform.node(),
        )


def checked(result: RunResult) -> RunResult:
    """The result, as "no_time" where a device claims success without a positive, finite time."""
    if result.status != "ok":
        status: Status = result.status
        return dataclasses.replace(result, status=status, seconds=(), error=_line(result.error) or status)
    if result.seconds and all(0 < seconds < float("inf") for seconds in result.seconds):
        return dataclasses.replace(result, error="")
    return RunResult("no_time", (), f"the device gave no usable time: {list(result.seconds)}", result.max_error)


def _line(text: str) -> str:
    return " ".join(text.split())


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
