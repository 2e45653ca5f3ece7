"""Tuning: tasks, budget -> records.

Names are loaded when first used: worker processes live in this package and need neither SciPy nor XGBoost.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .budget import PlannedTask, Preflight, preflight
    from .job import tune_tasks
    from .progress import Event, Listener
    from .search import Search
    from .storage import MemoryStore, TuningStore
    from .task import Budget, Candidate, Task, TaskResult, TuneResult, make_tasks

_HOME = {
    "Budget": "task",
    "Candidate": "task",
    "Event": "progress",
    "Listener": "progress",
    "MemoryStore": "storage",
    "PlannedTask": "budget",
    "Preflight": "budget",
    "Search": "search",
    "Task": "task",
    "TaskResult": "task",
    "TuneResult": "task",
    "TuningStore": "storage",
    "make_tasks": "task",
    "preflight": "budget",
    "tune_tasks": "job",
}

__all__ = [
    "Budget",
    "Candidate",
    "Event",
    "Listener",
    "MemoryStore",
    "PlannedTask",
    "Preflight",
    "Search",
    "Task",
    "TaskResult",
    "TuneResult",
    "TuningStore",
    "make_tasks",
    "preflight",
    "tune_tasks",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'workbench.tuning' has no attribute '{name}'")
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
