"""The search of one task: ask, build, run, tell, until something says stop.

A person can drive it by hand::

    search = Search(task, MetaScheduleStrategy, builder, runner, store, trials=64)
    search.measure_default()
    while candidates := search.ask(16):
        records = search.measure(candidates)
        search.tell(candidates, records)
        print(search.best)

:meth:`Search.step` is one turn of this loop.
"""

from __future__ import annotations

import dataclasses
import datetime
import platform
import time
from collections.abc import Callable, Sequence

from ..errors import KernelError
from ..kernels.kernel import Kernel
from ..kernels.schedule import schedule_workload
from ..store.record import Record, ScheduleSpec, Stage, Status
from ..tvm_seam import tvm_version
from .builders._base import Builder
from .cost_models.watch import Round
from .finals import ROUNDS, Verdict, contenders, decide, drift, needed
from .resume import look_back
from .runners._base import Runner, RunResult
from .storage import TuningStore, best_of, default_seconds, end_mark, is_mark, schedule_key, trials_of
from .strategies._base import Strategy
from .task import Candidate, Task, TaskResult

DEFAULT = ScheduleSpec("default", "default", {})
BATCH = 16  # enough to keep the build workers busy, few enough to learn from each batch


class Search:
    """One task's search. Every trial is in the store as soon as it was measured.

    A search that was interrupted goes on where it was: see :mod:`workbench.tuning.resume`.
    """

    def __init__(
        self,
        task: Task,
        kind: type[Strategy] | None,
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
        """``kind``: the strategy; None when there is only the default schedule to measure.

        ``trials``: how many may be made, those that the store answers for not counted. ``deadline``: on ``clock``,
        after which no trial starts.
        """
        self.task = task
        self.strategy: Strategy | None = None
        self._kind = kind
        self._builder, self._runner, self._store = builder, runner, store
        self.seed, self._limit, self._deadline = seed, trials, deadline
        self._clock, self._began, self._on_record = clock, clock(), on_record
        stored = store.records(task.workload.key, task.target.key, tvm_version())
        self._stored = [record for record in stored if not is_mark(record)]
        self.history: list[Record] = trials_of(stored)
        self.records: list[Record] = []
        self.finals: list[Record] = []
        self.verdict: Verdict | None = None
        self.drift: float | None = None  # the default's time in the finals over that of its first trial
        self.end = ""  # why the search ended: "", "trials", "time", "exhausted", "worth"
        self.told: list[Record] = []  # all that the search rests on, in order: what was there, and what it was told
        self.tried: list[Record] = []  # candidates of this strategy, those that the store answered for included
        self.changed = ""  # why an earlier search was not continued
        self._kernels: dict[int, Kernel] = {}  # of the best record so far, by id
        self._known: dict[str, Record] = {}  # what the store answers for, by schedule
        self._own: set[int] = set()  # ids of the records of this very search that were made before it was interrupted
        self._left = 0  # candidates that the strategy may still have measured, now or before
        self._space = ""

    @property
    def best(self) -> Record | None:
        """The winner of the last finals, or a trial that has been faster since; those of the store included."""
        return best_of(self._all)

    @property
    def _all(self) -> list[Record]:
        return [*self._stored, *self.records, *self.finals]

    @property
    def failed(self) -> dict[str, int]:
        """Failed trials of this search by category, candidates that the strategy itself dropped included."""
        counts: dict[str, int] = dict(self.strategy.rejected) if self.strategy is not None else {}
        for record in (*self.records, *self.finals):
            if record.status != "ok":
                counts[record.status] = counts.get(record.status, 0) + 1
        return counts

    @property
    def owned(self) -> int:
        """Trials of this very search from before it was interrupted."""
        return len(self._own)

    @property
    def spent(self) -> int:
        """Trials that count: fresh ones, and own ones that the store has answered for by now."""
        return len(self.records) + sum(id(record) in self._own for record in self.tried)

    @property
    def model_round(self) -> Round | None:
        """How good the cost model was in the last round."""
        watch = None if self.strategy is None else self.strategy.watch
        return None if watch is None else watch.last

    @property
    def late(self) -> bool:
        """Whether the time is over."""
        return self._deadline is not None and self._clock() >= self._deadline

    def measure_default(self) -> float | None:
        """Measures the default schedule unless the store has it; its seconds, or None when it failed.

        This one trial is made even when the time is over: a group without any measurement could be neither judged nor
        known as done by the next run of the same command.
        """
        known = default_seconds(self._stored)
        if known is None and len(self.records) < self._limit:
            self._try([Candidate(DEFAULT, None)], "default", hurry=False)
        self._may_go_on()
        return default_seconds(self._all)

    def restart(self, seed: int) -> None:
        """Another seed, for a search that came to nothing; :meth:`begin` makes its strategy."""
        if self.strategy is not None:
            self.strategy.close()
        self.seed, self.strategy, self.end, self.tried = seed, None, "", []

    def begin(self) -> None:
        """Makes the strategy, from what was known of the workload when this very search began for the first time.

        :meth:`ask` does so where nobody did. Raises KernelError when there is no space.
        """
        if self._kind is None:
            self.end = self.end or "exhausted"
            return
        self._space = self._kind.fingerprint(self.task)
        past = look_back([*self.history, *self.records], self._kind.name, self.seed, self._space)
        self.changed = past.changed
        self._left = self._limit - len(self.records)
        if best_of(self.history) is not None:  # where nothing worked, the cause may be gone
            self._known = {schedule_key(record.schedule): record for record in self.history}
            self._own = {id(record) for record in past.own}
            self._left += len(past.own)
        try:
            self.strategy = self._kind(self.task, self.seed, past.basis)
            self.told = list(past.basis)
        except KernelError:  # it would be so again
            self.end = "exhausted"
            raise

    def ask(self, n: int = BATCH) -> list[Candidate]:
        """Up to ``n`` candidates to be measured next; none when the search has ended, for the reason in ``end``."""
        if self.strategy is None and not self.end:
            self.begin()
        if self.strategy is None or not self._may_go_on():
            return []
        candidates = self.strategy.ask(min(n, self._left))
        if not candidates:
            self.end = "exhausted"
        return candidates

    def measure(self, candidates: Sequence[Candidate]) -> list[Record]:
        """Builds and measures, one record a candidate; fewer when the time is over, more of them never.

        Candidates that the store knows cost nothing: a schedule is measured once.
        """
        assert self.strategy is not None
        return self._try(candidates, self.strategy.name)

    def tell(self, candidates: Sequence[Candidate], records: Sequence[Record]) -> None:
        """Gives the strategy the results of the first candidates that it was asked for."""
        assert self.strategy is not None
        fresh = {id(record) for record in self.records}
        self._left -= sum(id(record) in fresh or id(record) in self._own for record in records)
        self.told += records
        self.tried += records
        self.strategy.tell(candidates[: len(records)], records)

    def step(self, n: int = BATCH) -> bool:
        """One batch of at most ``n`` candidates; False when the search has ended, for the reason in ``end``."""
        candidates = self.ask(n)
        if not candidates:
            return False
        self.tell(candidates, self.measure(candidates))
        return self._may_go_on()

    def verify(self, rounds: int = ROUNDS) -> Verdict | None:
        """Holds the finals, if there is a trial that none have looked at; their verdict, or None.

        The contenders are built once more, checked on more inputs and timed interleaved; see
        :mod:`workbench.tuning.finals`. Their records are kept together, so that a kill leaves none or all.
        """
        if not needed(self._all):
            return None
        specs = contenders(self._all, DEFAULT)
        builds = self._builder.build(self.task, [self._scheduled(spec) for spec in specs])
        try:
            results = [checked(result) for result in self._runner.compare(self.task, builds, rounds)]
        finally:
            for build in builds:
                self._builder.discard(build)
        self.verdict = decide(results)
        self.drift = drift([*self.history, *self.records], results[0].seconds)
        for index, (spec, result) in enumerate(zip(specs, results, strict=True)):
            stage: Stage = "winner" if index == self.verdict.winner else "final"
            made = self._record(Candidate(spec, None), result, "finals")
            self.finals.append(dataclasses.replace(made, stage=stage, trial=index))
        self._store.add_records(self.finals)
        if self.verdict.winner is not None:
            kernel = builds[self.verdict.winner].kernel
            self._kernels = {} if kernel is None else {id(self.finals[self.verdict.winner]): kernel}
        return self.verdict

    def _scheduled(self, spec: ScheduleSpec) -> Candidate:
        """A schedule of the library is applied here: it looks at the group's graph, which builders do not have."""
        if spec.kind != "library" or self.task.workload.graph is None:
            return Candidate(spec, None)
        try:
            return Candidate(spec, schedule_workload(self.task.workload, self.task.target, spec))
        except KernelError:  # the builder says so, as of any candidate
            return Candidate(spec, None)

    def mark_end(self, strategy: str, allotted_s: float | None, worth: float | None = None) -> None:
        """Keeps the news that this search ended by itself, so that the same command does not start it again.

        ``worth``: the per cent that a minute was to be worth, where it ended for want of that.
        """
        known = {"exhausted": True, "time": allotted_s is not None, "worth": worth is not None}
        if known.get(self.end, False):
            key, target, settings = self.task.workload.key, self.task.target.key, self._runner.settings
            mark = end_mark(key, target, tvm_version(), strategy, self.end, allotted_s, settings, worth)
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
            finals=tuple(self.finals),
            default_s=default_seconds(self._all),
            failed=self.failed,
            cached=False,
            rank_correlation=None if self.strategy is None else self.strategy.rank_correlation,
            note=note,
            trials=len(self.records),
            gain=None if self.verdict is None else self.verdict.gain,
            drift=self.drift,
        )

    def _may_go_on(self) -> bool:
        if len(self.records) >= self._limit or (self.strategy is not None and self._left <= 0):
            self.end = self.end or "trials"
        elif self.late:
            self.end = self.end or "time"
        return not self.end

    def _try(self, candidates: Sequence[Candidate], strategy: str, hurry: bool = True) -> list[Record]:
        """Builds all, then measures one by one, in a hurry until the time is over; the records of those tried."""
        known = [self._known.get(schedule_key(candidate.schedule)) for candidate in candidates]
        fresh = [candidate for candidate, record in zip(candidates, known, strict=True) if record is None]
        builds = iter(self._builder.build(self.task, fresh) if fresh else ())
        tried: list[Record] = []
        for candidate, stored in zip(candidates, known, strict=True):
            if stored is not None:
                tried.append(stored)
                continue
            if hurry and (self.late or len(self.records) >= self._limit):
                break
            build = next(builds)
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
            seed=self.seed,
            trial=len(self.history) + len(self.records),
            elapsed_s=self._clock() - self._began,
            created=_now(),
            machine=platform.node(),
            space=self._space if self._kind is not None and strategy == self._kind.name else "",
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
