"""How the search went: each task's best time so far, by trial and by second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import format as fmt
from ..document import TaskPart
from ..run import Run
from ._style import GREY, INK, TASK_COLOURS, empty, figure, text, tidy, title

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def search_plot(run: Run, narrow: bool = False) -> Figure:
    """A line a task: best time so far over the best at the end, so that a search that still fell at its end shows.

    The heaviest tasks have colours and names, the others are grey. Seconds count from the start of a task's search.
    """
    searched = [task for task in run.tasks if any(trial.median_us is not None for trial in task.history)]
    cached = sum(task.cached for task in run.tasks)
    if not searched:
        why = "every kernel came from the store" if cached else "no trial was made"
        return empty(figure(narrow, 2.0), f"no search to show: {why}")
    searched.sort(key=lambda task: -(task.best_us or 0.0) * task.weight)
    named = searched[: len(TASK_COLOURS)]
    columns = 1 if narrow else 2
    legend_rows = -(-(len(named) + (len(searched) > len(named))) // columns)
    plot = figure(narrow, (5.6 if narrow else 3.4) + 0.23 * legend_rows)
    panels = plot.subplots(2, 1, sharey=True) if narrow else plot.subplots(1, 2, sharey=True)
    for axes, unit in zip(panels, ("trial", "second"), strict=True):
        _lines(axes, searched, named, by_second=unit == "second")
        axes.set_xlabel("trials" if unit == "trial" else "seconds of the task's search", **text())
        if narrow or unit == "trial":
            axes.set_ylabel("best so far ÷ final best", **text())
    title(plot, f"{run.model.name}: best time so far")
    note = (
        f"{cached} of {len(run.tasks)} tasks came from the store: nothing was searched for them now" if cached else None
    )
    handles, labels = panels[0].get_legend_handles_labels()
    plot.legend(
        handles[::-1], labels[::-1], loc="outside lower center", ncols=columns, frameon=False,
        fontsize=8.5, labelcolor=INK, title=note, title_fontproperties={"size": 8.5},
    ).get_title().set_color(INK)  # fmt: skip
    return plot


def _lines(axes: Axes, tasks: Sequence[TaskPart], named: Sequence[TaskPart], by_second: bool) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.set_yscale("log")
    worst = 1.0
    for position, task in reversed(list(enumerate(tasks))):
        across, best = _best_so_far(task, by_second)
        relative = [value / best[-1] for value in best]
        worst = max(worst, *relative)
        is_named = position < len(named)
        label = _label(task) if is_named else f"{len(tasks) - len(named)} lighter tasks"
        axes.step(
            across, relative, where="post", lw=1.8 if is_named else 0.8,
            color=TASK_COLOURS[position] if is_named else GREY,
            label=label if is_named or position == len(named) else None, zorder=4 if is_named else 2,
            marker="o", markevery=[0, len(across) - 1], markersize=3,
        )  # fmt: skip
    top = max(worst * 1.08, 1.25)
    axes.set_ylim(0.97, top)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    ticks = [tick for tick in (1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, 1000) if tick <= top]
    axes.set_yticks(ticks)
    axes.tick_params(axis="y", which="minor", length=0)
    axes.set_xlim(left=0)
    tidy(axes, grid="y")


def _best_so_far(task: TaskPart, by_second: bool) -> tuple[list[float], list[float]]:
    """Trials counted from 1 (or seconds) and the least time until then; from the first trial that worked."""
    across, best = [], []
    least = float("inf")
    for trial in sorted(task.history, key=lambda one: one.trial):
        least = min(least, trial.median_us if trial.median_us is not None else least)
        if least < float("inf"):
            across.append(trial.elapsed_s if by_second else trial.trial + 1.0)
            best.append(least)
    return across, best


def _label(task: TaskPart) -> str:
    return f"{fmt.shorten(fmt.operators(task.ops), 38)}: {fmt.time(task.best_us)}"
