"""Search strategies, and which of them a task gets."""

from __future__ import annotations

from ...errors import KernelError
from ..analysis import structure
from ..task import Task
from ._base import Strategy
from .library import LibraryStrategy
from .metaschedule import MetaScheduleStrategy
from .union import UnionStrategy

__all__ = ["LibraryStrategy", "MetaScheduleStrategy", "NotTunable", "Strategy", "UnionStrategy", "choose"]


class NotTunable(KernelError):
    """Nothing to search, but the default schedule does for it: no reason to split the group."""


def choose(task: Task) -> type[Strategy]:
    """The strategy for a task: the library where an entry serves the workload, MetaSchedule where its rules do.

    Raises NotTunable for a program without anything to search, and KernelError for a group that nothing can schedule
    well; the planner splits such a group.
    """
    if UnionStrategy.serves(task):
        return UnionStrategy
    if LibraryStrategy.serves(task):
        return LibraryStrategy
    found = structure(task.workload.module)
    if found.obstacle:
        raise NotTunable(f"{task.workload.label}: not tunable, {found.obstacle}; the default schedule is used")
    if found.contractions > 1:
        raise KernelError(
            f"{task.workload.label}: nothing can schedule this group, since it has {found.contractions} contractions "
            "and no library schedule serves it; split it, or add a schedule to schedules/"
        )
    return MetaScheduleStrategy
