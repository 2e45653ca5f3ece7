"""Search strategies, and which of them a task gets."""

from __future__ import annotations

import functools
from collections.abc import Callable

from ...errors import BudgetError, KernelError
from ..analysis import structure
from ..task import Task
from ._base import Strategy
from .ansor import AnsorStrategy
from .library import LibraryStrategy
from .metaschedule import MetaScheduleStrategy
from .random import RandomStrategy
from .union import UnionStrategy

__all__ = [
    "AUTO",
    "STRATEGIES",
    "AnsorStrategy",
    "LibraryStrategy",
    "MetaScheduleStrategy",
    "NotTunable",
    "RandomStrategy",
    "Strategy",
    "UnionStrategy",
    "choose",
    "chooser",
]

AUTO = "auto"
STRATEGIES: dict[str, type[Strategy]] = {
    kind.name: kind for kind in (MetaScheduleStrategy, AnsorStrategy, RandomStrategy, LibraryStrategy, UnionStrategy)
}


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


def chooser(name: str) -> Callable[[Task], type[Strategy]]:
    """The named strategy for the tasks that it serves, and what :func:`choose` gives for the others.

    Raises BudgetError for a name that is no strategy.
    """
    if name == AUTO:
        return choose
    if name not in STRATEGIES:
        raise BudgetError(f"strategy '{name}' is not known; give one of {', '.join((AUTO, *STRATEGIES))}")
    return functools.partial(_named, STRATEGIES[name])


def _named(kind: type[Strategy], task: Task) -> type[Strategy]:
    return kind if kind.serves(task) else choose(task)
