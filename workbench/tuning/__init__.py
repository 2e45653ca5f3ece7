"""Tuning: tasks, budget -> records."""

from .budget import PlannedTask, Preflight, preflight
from .job import tune_tasks
from .progress import Event, Listener
from .storage import MemoryStore, TuningStore
from .task import Budget, Candidate, Task, TaskResult, TuneResult, make_tasks

__all__ = [
    "Budget",
    "Candidate",
    "Event",
    "Listener",
    "MemoryStore",
    "PlannedTask",
    "Preflight",
    "Task",
    "TaskResult",
    "TuneResult",
    "TuningStore",
    "make_tasks",
    "preflight",
    "tune_tasks",
]
