"""What a tuning job reports while it works; drawn by the command line and by Jupyter, not here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .cost_models.watch import Round
from .task import Task


@dataclass(frozen=True)
class Event:
    """One step. ``kind``: "plan", "task_start", "batch", "task_end", "note", "end"."""

    kind: str
    task: Task | None = None
    index: int = 0  # position of the task
    tasks: int = 0
    trials: int = 0  # of this task so far
    trials_planned: int = 0  # of this task
    total_trials: int = 0
    total_planned: int = 0
    best_s: float | None = None
    default_s: float | None = None
    failed: Mapping[str, int] | None = None
    elapsed_s: float = 0.0
    remaining_s: float | None = None
    message: str = ""
    model: Round | None = None  # the cost model on the last round's fresh measurements
    worth: float | None = None  # the part of the whole's time that the next minute is expected to save


Listener = Callable[[Event], None]
