"""Tasks, budgets and results of tuning."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import BudgetError
from ..kernels.workload import LoweredModel, Workload
from ..stats import Interval
from ..store.record import Record, ScheduleSpec
from ..targets import Target


@dataclass(frozen=True, eq=False)
class Task:
    """A workload to be tuned for a target. ``weight``: how many calls of it the variants make, all together."""

    workload: Workload
    target: Target
    weight: int = 1
    variants: tuple[str, ...] = ()


def make_tasks(lowered: Mapping[str, LoweredModel], target: Target) -> list[Task]:
    """One task per distinct workload of the variants, in order of first call.

    Weights are arguments of a workload, so layers that differ in their weights alone are one task.
    """
    workloads: dict[str, Workload] = {}
    weights: dict[str, int] = {}
    variants: dict[str, dict[str, None]] = {}
    for name, model in lowered.items():
        for call in model.calls:
            workloads.setdefault(call.workload, model.workloads[call.workload])
            weights[call.workload] = weights.get(call.workload, 0) + 1
            variants.setdefault(call.workload, {})[name] = None
    return [Task(workloads[key], target, weights[key], tuple(variants[key])) for key in workloads]


MAX_SEED = 2**31  # what TVM's generator takes


@dataclass(frozen=True)
class Budget:
    """What may be spent. None: no limit of that kind. Raises BudgetError when nothing can be tried.

    ``of_minutes``: the whole job's minutes where ``minutes`` is only what is left of them. A search that the same
    minutes have ended before is not continued by a second run of the same command.
    """

    trials: int | None = None  # over all tasks
    trials_per_task: int | None = 64
    minutes: float | None = None
    seed: int = 0
    of_minutes: float | None = None
    until: float | None = None  # stops when a minute is expected to make the whole less than this per cent faster

    def __post_init__(self) -> None:
        for name, value in (
            ("--trials", self.trials),
            ("--trials-per-task", self.trials_per_task),
            ("--minutes", self.minutes),
            ("--until", self.until),
        ):
            if value is not None and not value > 0:
                raise BudgetError(f"{name} {value:g} allows no trial; give a number above 0")
        if self.minutes is not None and math.isinf(self.minutes):
            raise BudgetError("--minutes inf is no time; leave it out for no limit of this kind")
        if not 0 <= self.seed < MAX_SEED:
            raise BudgetError(f"--seed {self.seed} is not within 0 and {MAX_SEED - 1}; give a seed that is")
        if self.until is not None and self.until >= 100:
            raise BudgetError(f"--until {self.until:g} is no per cent of the whole's time; give a number under 100")
        if self.trials is None and self.trials_per_task is None and self.minutes is None and self.until is None:
            raise BudgetError("no budget: give --trials, --trials-per-task, --minutes or --until")

    @property
    def pooled(self) -> bool:
        """Whether tasks share one budget, so that trials go where they gain most."""
        return self.trials is not None or self.minutes is not None or self.until is not None

    @property
    def nominal_minutes(self) -> float | None:
        """The whole job's minutes."""
        return self.minutes if self.of_minutes is None else self.of_minutes


@dataclass(frozen=True)
class Candidate:
    """A schedule that a search asks to have measured. ``handle`` is the search's own and means nothing outside.

    ``module`` is the scheduled IRModule, ready to build; None lets the builder apply ``schedule`` itself.
    """

    schedule: ScheduleSpec
    module: Any
    handle: Any = None


@dataclass(frozen=True)
class TaskResult:
    """What a task's search found. ``best`` is None when nothing worked; then the default schedule is used."""

    task: Task
    best: Record | None
    records: tuple[Record, ...]  # trials
    default_s: float | None  # seconds of the untuned default schedule, measured in this search or an earlier one
    failed: Mapping[str, int]  # category -> number of trials
    cached: bool  # True: best came from the store and nothing was measured
    rank_correlation: float | None  # cost model against fresh measurements, last round (Spearman)
    note: str = ""  # why nothing could be tuned, or which fallback is used
    trials: int = 0  # made in this job
    finals: tuple[Record, ...] = ()  # of this job
    gain: Interval | None = None  # the default's time over the winner's in the finals of this job
    drift: float | None = None  # the default's time in these finals over that of its first trial

    @property
    def first_error(self) -> str:
        """The first failed trial's reason; "" when none failed."""
        return next((record.error for record in (*self.records, *self.finals) if record.status != "ok"), "")


@dataclass(frozen=True)
class TuneResult:
    """All tasks' results of one tuning job, in task order."""

    results: tuple[TaskResult, ...]
    seconds: float
    trials: int
    complete: bool
    incomplete_reason: str = ""

    def best(self, workload_key: str) -> Record | None:
        """The winning record of a workload, or None."""
        for result in self.results:
            if result.task.workload.key == workload_key:
                return result.best
        return None

    @property
    def hits(self) -> int:
        """How many tasks the store had already."""
        return sum(result.cached for result in self.results)

    @property
    def nothing_measured(self) -> bool:
        """Trials were made and every one of them failed, with nothing in the store to fall back on."""
        return self.trials > 0 and not any(result.best or result.default_s for result in self.results)

    @property
    def first_error(self) -> str:
        """The first failed trial's reason; "" when none failed."""
        return next((result.first_error for result in self.results if result.first_error), "")

    def _repr_html_(self) -> str:
        end = "" if self.complete else f", incomplete: {self.incomplete_reason}"
        caption = f"{len(self.results)} tasks, {self.trials} trials in {self.seconds:.0f} s, {self.hits} stored{end}"
        head = _row(("operators", "shapes", "calls", "trials", "failed", "default µs", "best µs", "note"), "th")
        body = "".join(_row(_cells(result), "td") for result in self.results)
        return f"<table><caption>{html.escape(caption)}</caption>{head}{body}</table>"


def _cells(result: TaskResult) -> tuple[str, ...]:
    best = None if result.best is None else result.best.median_s
    return (
        result.task.workload.label,
        result.task.workload.shapes,
        str(result.task.weight),
        "stored" if result.cached else str(result.trials),
        str(sum(result.failed.values()) or ""),
        _microseconds(result.default_s),
        _microseconds(best),
        result.note,
    )


def _microseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e6:.4g}"


def _row(cells: Iterable[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"
