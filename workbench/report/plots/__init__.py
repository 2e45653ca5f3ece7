"""Plots of a run: each function takes a run and returns a matplotlib Figure, which is never shown."""

from __future__ import annotations

from .groups import groups_plot
from .latency import latency_plot
from .roofline import roofline_plot
from .search import search_plot

__all__ = ["groups_plot", "latency_plot", "roofline_plot", "search_plot"]
