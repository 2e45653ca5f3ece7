"""Plots of a run: each function takes a run and returns a matplotlib Figure, which is never shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._style import settle
from .groups import groups_plot
from .latency import latency_plot
from .roofline import roofline_plot
from .search import search_plot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..run import Run

__all__ = ["draw_plots", "groups_plot", "latency_plot", "roofline_plot", "search_plot"]

PLOTS = {"latency": latency_plot, "roofline": roofline_plot, "search": search_plot, "groups": groups_plot}


def draw_plots(run: Run, narrow: bool = False) -> dict[str, Figure]:
    """Every plot by its name, laid out, so that saving one in a second format costs little."""
    plots = {name: draw(run, narrow=narrow) for name, draw in PLOTS.items()}
    for plot in plots.values():
        settle(plot)
    return plots
