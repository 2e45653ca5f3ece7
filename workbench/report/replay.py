"""A replay in words and lines: how close to the best recorded schedule each strategy came, and when."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from ..tuning.replay import Replay


def replay_table(made: Replay, after: Sequence[int]) -> list[RenderableType]:
    """A row a strategy, a column a number of trials; readable at 80 columns."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("strategy")
    for count in after:
        table.add_column(f"{count} trials", justify="right", no_wrap=True)
    for name in made.strategies:
        table.add_row(name, *(ratio(made.mean_ratio(name, count)) for count in after))
    said = f"{made.workloads} workload{'s' * (made.workloads != 1)}"
    if made.left_out:
        said += f", {made.left_out} with too few records left out"
    note = f"Best time so far over the best recorded, geometric mean over {said}: 1.00x is all there is to find."
    return [table, Text(note)]


def ratio(value: float) -> str:
    """``1.20x``; "-" where some search had nothing that worked by then."""
    return f"{value:.2f}x" if math.isfinite(value) else "-"


def replay_plot(made: Replay) -> Figure:
    """A line a strategy: geometric mean over workloads of best so far over the best recorded, by trial."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    from .plots._style import TASK_COLOURS, figure, text, tidy, title

    longest = max(len(curve.best_so_far) for curve in made.curves)
    counts = list(range(1, longest + 1))
    plot = figure(False, 3.8)
    axes = plot.subplots()
    axes.set_yscale("log")
    for colour, name in zip(TASK_COLOURS, made.strategies, strict=False):
        means = [(count, made.mean_ratio(name, count)) for count in counts]
        shown = [(count, value) for count, value in means if math.isfinite(value)]
        axes.step(*zip(*shown, strict=True), where="post", color=colour, lw=1.8, label=name)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    top = axes.get_ylim()[1]
    axes.set_yticks([tick for tick in (1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100) if tick <= top])
    axes.set_ylim(bottom=0.98)
    axes.set_xlim(left=0)
    axes.set_xlabel("trials", **text())
    axes.set_ylabel("best so far ÷ best recorded", **text())
    axes.legend(frameon=False)
    title(plot, f"Replay of {made.workloads} recorded searches")
    tidy(axes, grid="y")
    return plot
