"""Progress of a tuning job: events in, one table or one line out. Draws nothing by itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..tuning.cost_models.watch import TOP

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ..tuning.cost_models.watch import Round
    from ..tuning.progress import Event
    from ..tuning.task import Task


def duration(seconds: float | None) -> str:
    """``75`` -> ``1:15``; ``None`` -> ``-``."""
    if seconds is None or not math.isfinite(seconds):
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def microseconds(seconds: float | None) -> str:
    """A time in seconds as microseconds with three significant digits or the whole number."""
    if seconds is None or not math.isfinite(seconds):
        return "-"
    value = seconds * 1e6
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


@dataclass
class TaskRow:
    """One line of the table."""

    operators: str
    shapes: str
    flops: float
    trials: int = 0
    planned: int = 0
    best_s: float | None = None
    failed: int = 0
    state: str = "waiting"  # waiting | tuning | done | stored | failed

    @property
    def gflops(self) -> str:
        if not self.best_s or not math.isfinite(self.best_s) or self.flops <= 0:
            return "-"
        return f"{self.flops / self.best_s / 1e9:.3g}"


@dataclass
class Progress:
    """What is known of a job so far; ``update`` is the only way it changes."""

    rows: dict[int, TaskRow] = field(default_factory=dict)
    current: int = 0
    tasks: int = 0
    trials: int = 0
    planned: int = 0
    elapsed_s: float = 0.0
    remaining_s: float | None = None
    worth: float | None = None
    heading: str = ""
    notes: list[str] = field(default_factory=list)

    def update(self, event: Event) -> None:
        """Takes one event in."""
        self.tasks = event.tasks or self.tasks
        self.planned = event.total_planned or self.planned
        self.trials = max(self.trials, event.total_trials)
        self.elapsed_s, self.remaining_s, self.worth = event.elapsed_s, event.remaining_s, event.worth
        if event.kind == "plan":
            self.heading = event.message
        if event.kind == "note" and event.message:
            self.notes.append(event.message)
        if event.task is not None:
            self._update_row(event, event.task)

    def _update_row(self, event: Event, task: Task) -> None:
        row = self.rows.setdefault(event.index, TaskRow(task.workload.label, task.workload.shapes, task.workload.flops))
        row.trials, row.planned = event.trials, event.trials_planned or row.planned
        row.best_s = event.best_s if event.best_s is not None else row.best_s
        row.failed = sum((event.failed or {}).values())
        self.current = event.index
        if event.kind == "task_end":
            row.state = "stored" if event.trials == 0 and event.best_s is not None else "done"
            if event.best_s is None:
                row.state = "failed"
                if event.message:
                    self.notes.append(f"{row.operators}: {event.message}")
        else:
            row.state = "tuning"

    def visible(self, limit: int) -> Iterator[tuple[int, TaskRow]]:
        """At most ``limit`` rows around the current one, so that a long job's table fits on a screen."""
        indices = sorted(self.rows)
        position = indices.index(self.current) if self.current in indices else len(indices) - 1
        start = max(0, min(position - limit + 2, len(indices) - limit))
        for index in indices[start : start + limit]:
            yield index, self.rows[index]


def render(progress: Progress, limit: int = 16) -> RenderableType:
    """The live table, readable at 80 columns."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", expand=False)
    table.add_column("task", justify="right", no_wrap=True)
    table.add_column("operators", overflow="ellipsis", no_wrap=True, max_width=22)
    table.add_column("shapes", overflow="ellipsis", no_wrap=True, max_width=20)
    for heading in ("trials", "failed", "best us", "GFLOP/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for index, row in progress.visible(limit):
        trials = "stored" if row.state == "stored" else f"{row.trials}/{row.planned}"
        style = {"tuning": "cyan", "failed": "red", "stored": "dim"}.get(row.state, "")
        table.add_row(
            f"{index + 1}",
            row.operators,
            row.shapes,
            trials,
            str(row.failed or ""),
            microseconds(row.best_s),
            row.gflops,
            style=style,
        )
    footer = Text(
        f"task {min(progress.current + 1, progress.tasks)} of {progress.tasks}, "
        f"trial {progress.trials} of {progress.planned}, "
        f"elapsed {duration(progress.elapsed_s)}, remaining {duration(progress.remaining_s)}{worth(progress.worth)}",
        style="bold",
    )
    return Group(table, footer)


def _model(round_: Round | None) -> str:
    """How good the cost model was on the batch: its rank correlation, and how many of the 8 fastest it saw."""
    if round_ is None or round_.correlation is None:
        return ""
    recall = "" if round_.recall is None else f", top-{TOP} {round(TOP * round_.recall)}/{TOP}"
    return f"(model {round_.correlation:.2f}{recall})"


def worth(part: float | None) -> str:
    """What the next minute is expected to bring, as the end of a sentence."""
    return "" if part is None or not math.isfinite(part) else f", next minute worth {100 * part:.2g} %"


def line(event: Event) -> str | None:
    """One plain line for an event that is worth one where the output is no terminal."""
    if event.kind in ("plan", "note"):
        return event.message or None
    if event.kind == "end":
        return f"tuning ended after {event.total_trials} trials, {duration(event.elapsed_s)} {event.message}".rstrip()
    if event.task is None or event.kind == "task_start" or not event.total_planned:
        return None  # a job without trials has said in its first line that everything is in the store
    done = event.kind == "task_end"
    if done and event.trials == 0 and event.best_s is not None and not event.message:
        return None  # the job's first line has counted what is in the store
    workload = event.task.workload
    gflops = TaskRow("", "", workload.flops, best_s=event.best_s).gflops
    trials = f"{event.trials}/{event.trials_planned} trials" + (", done" if done else "")
    failed = sum((event.failed or {}).values())
    parts = [
        f"[{duration(event.elapsed_s)}]",
        f"task {event.index + 1}/{event.tasks}",
        f"{workload.label} {workload.shapes}:",
        trials,
        f"({failed} failed)" if failed else "",
        f"best {microseconds(event.best_s)} us" if event.best_s is not None else "",
        f"{gflops} GFLOP/s" if gflops != "-" else "",
        "" if done else _model(event.model),
        "" if done else worth(event.worth).removeprefix(", "),
        f"- {event.message}" if event.message else "",
    ]
    return " ".join(part for part in parts if part)
