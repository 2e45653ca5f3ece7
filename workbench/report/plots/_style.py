"""What all plots share: colours, fonts, figure sizes.

Colours are those of Okabe and Ito (Color Universal Design, 2008), told apart with every kind of colour vision. A
variant has one colour everywhere; an untuned one has its tuned one's, paler.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The page replaces these two by its own text and line colour, so that plots follow a dark page.
INK = "#1f2329"
GRID = "#c9cdd2"
ALERT = "#c8311b"

BLUE, ORANGE, GREEN, PINK, SKY, VERMILION = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"
GREY = "#8a9099"
_VARIANTS = {"planned": BLUE, "greedy": ORANGE, "unfused": GREY}
_OTHERS = (GREEN, PINK, SKY, VERMILION)
CATEGORY_COLOURS = {
    "contraction": BLUE,
    "attention, softmax": PINK,
    "normalisation": GREEN,
    "elementwise": ORANGE,
    "data movement": GREY,
    "other": SKY,
}
TASK_COLOURS = (BLUE, ORANGE, GREEN, PINK, SKY, VERMILION, "#8c6bb1", "#7a5c00")

WIDE_INCHES, NARROW_INCHES = 8.0, 4.0
DPI = 150


def variant_colour(name: str, position: int = 0) -> str:
    """The colour of a variant, the same in every plot; ``position`` picks one for names nobody knows."""
    return _VARIANTS.get(name.removesuffix("-untuned"), _OTHERS[position % len(_OTHERS)])


def figure(narrow: bool, height: float) -> Figure:
    """An empty figure, 800 pixels wide at 100 dpi, or 400 when ``narrow``; ``height`` in inches."""
    from ._figure import NotebookFigure

    return NotebookFigure(figsize=(NARROW_INCHES if narrow else WIDE_INCHES, height), dpi=100, layout="constrained")


def settle(plot: Figure) -> None:
    """Lays the figure out for good: matplotlib would do so again, with a draw of its own, at every save."""
    if plot.get_layout_engine() is not None:
        plot.draw_without_rendering()
        plot.set_layout_engine(None)


def tidy(axes: Axes, grid: str | None = None) -> None:
    """Leaves only the lines that carry meaning; ``grid`` is "x", "y" or "both"."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(INK)
    axes.tick_params(colors=INK, labelsize=9)
    axes.set_axisbelow(True)
    if grid is not None:
        axes.grid(visible=True, axis=grid, which="major", color=GRID, linewidth=0.6)  # type: ignore[arg-type]


def text(**changes: Any) -> dict[str, Any]:
    """Keyword arguments of a text in the plots' usual size and colour."""
    return {"fontsize": 9.5, "color": INK, **changes}


def title(plot: Figure, words: str) -> None:
    """A title at the figure's left edge: above an axes it would not fit a narrow figure."""
    lines = textwrap.wrap(words, 40 if plot.get_figwidth() <= NARROW_INCHES else 85)
    plot.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=11, color=INK, fontweight="bold")


def empty(plot: Figure, words: str) -> Figure:
    """A figure that says why there is nothing to see."""
    axes = plot.subplots()
    axes.set_axis_off()
    axes.text(0.5, 0.5, words, ha="center", va="center", transform=axes.transAxes, wrap=True, **text(fontsize=11))
    return plot
