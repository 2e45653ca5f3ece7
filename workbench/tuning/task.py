"""Tasks, budgets and results of tuning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..kernels.workload import Workload
from ..store.record import Record, ScheduleSpec
from ..targets import Target


@dataclass(frozen=True, eq=False)
class Task:
    """A workload to be tuned for a target. ``weight``: how many calls of it the variants make, all together."""

    workload: Workload
    target: Target
    weight: int = 1
    variants: tuple[str, ...] = ()


@dataclass(frozen=True)
class Budget:
    """What may be spent. None: no limit of that kind. Raises BudgetError when nothing can be tried."""

    trials: int | None = None  # over all tasks
    trials_per_task: int | None = 64
    minutes: float | None = None
    seed: int = 0


@dataclass(frozen=True)
class Candidate:
    """A schedule that a search asks to have measured. ``handle`` is the search's own and means nothing outside."""

    schedule: ScheduleSpec
    module: Any  # scheduled IRModule, ready to build
    handle: Any = None


@dataclass(frozen=True)
class TaskResult:
    """What a task's search found. ``best`` is None when nothing worked; then the default schedule is used."""

    task: Task
    best: Record | None
    records: tuple[Record, ...]
    default_s: float | None  # seconds of the untuned default schedule, measured in this search
    failed: Mapping[str, int]  # category -> number of trials
    cached: bool  # True: best came from the store and nothing was measured
    rank_correlation: float | None  # cost model against fresh measurements, last round (Spearman)
    note: str = ""  # why nothing could be tuned, or which fallback is used


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

    def _repr_html_(self) -> str: ...
