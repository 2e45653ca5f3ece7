"""The figure of every plot: one that a notebook shows."""

from __future__ import annotations

from matplotlib.figure import Figure


class NotebookFigure(Figure):
    """A figure with its own PNG: Jupyter draws plain ones only where pyplot was imported, which nothing here does."""

    def _repr_png_(self) -> bytes:
        from ..write import png

        return png(self)
