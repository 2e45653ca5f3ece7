"""Where the time goes: each variant's kernels, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import format as fmt
from ..document import GroupMeasured
from ..frames import CATEGORIES, category, measured_groups
from ..run import Run
from ._style import CATEGORY_COLOURS, INK, empty, figure, text, tidy, title

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CHARACTER = 7.0  # pixels of a character of a segment's label
AXIS_PIXELS = {False: 650.0, True: 300.0}  # width of the axes in a wide and a narrow figure


def groups_plot(run: Run, narrow: bool = False) -> Figure:
    """A row a tuned variant, its kernels stacked in the order of their calls, coloured by what they mostly do."""
    rows = [(one.name, measured_groups(run, one.name)) for one in run.variants if one.tuned and one.latency_us]
    rows = sorted((row for row in rows if row[1]), key=lambda row: _total(row[1]))
    if not rows:
        return empty(figure(narrow, 2.0), "no kernel was timed")
    plot = figure(narrow, 0.75 * len(rows) + 1.75 + (0.5 if narrow else 0.0))
    axes = plot.subplots()
    size, unit = fmt.unit_of(max(_total(groups) for _, groups in rows))
    longest = max(_total(groups) for _, groups in rows) / size
    end = longest * (1.42 if narrow else 1.24)
    for position, (_, groups) in enumerate(rows):
        _row(axes, position, groups, size, AXIS_PIXELS[narrow] / end / CHARACTER)
        total = f"{fmt.time(_total(groups))}" + ("\n" if narrow else ", ") + fmt.count(len(groups), "kernel")
        axes.text(_total(groups) / size + 0.015 * longest, position, total, va="center", **text(fontsize=9))
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.invert_yaxis()
    axes.set_xlim(0, end)
    axes.set_xticks([tick for tick in axes.get_xticks() if tick <= longest * 1.05])
    axes.set_xlabel(f"{unit} in kernels, in the order of the calls; share of the variant's kernel time", **text())
    if narrow:
        axes.set_xlabel(f"{unit} in kernels, in the order of the calls", **text())
    tidy(axes, grid="x")
    axes.tick_params(axis="y", length=0)
    title(plot, f"{run.model.name}: where the time goes")
    _legend(plot, [group for _, groups in rows for group in groups], narrow)
    return plot


def _total(groups: Sequence[GroupMeasured]) -> float:
    return sum(group.latency_us for group in groups)


def _row(axes: Axes, position: int, groups: Sequence[GroupMeasured], size: float, characters: float) -> None:
    """One variant's segments; ``characters``: how many fit into one unit of the axis."""
    left = 0.0
    edge = 0.8 if len(groups) <= 30 else 0.25  # many thin segments would be all edge
    for group in groups:
        width = group.latency_us / size
        kind = category(group.ops)
        axes.barh(position, width, left=left, height=0.66, color=CATEGORY_COLOURS[kind], ec="white", lw=edge)
        axes.text(
            left + width / 2, position, _segment_label(group, int(width * characters)), ha="center", va="center",
            **text(fontsize=8, color="white" if kind == "contraction" else "#101214"),
        )  # fmt: skip
        left += width


def _segment_label(group: GroupMeasured, room: int) -> str:
    """Share of time, under as many operators as there is room for; nothing where not even the share fits."""
    share = fmt.percent(group.share)
    if room < len(share) + 1:
        return ""
    operators = fmt.operators(group.ops)
    fitting = operators if len(operators) <= room else operators[: room - 1].rpartition("+")[0] + "+…"
    return f"{fitting}\n{share}" if 2 < len(fitting) <= room else share


def _legend(plot: Figure, groups: Sequence[GroupMeasured], narrow: bool) -> None:
    from matplotlib.patches import Patch

    present = {category(group.ops) for group in groups}
    handles = [Patch(facecolor=CATEGORY_COLOURS[kind], label=kind) for kind in CATEGORIES if kind in present]
    plot.legend(
        handles=handles, loc="outside lower center", ncols=2 if narrow else len(handles), frameon=False, fontsize=8.5,
        labelcolor=INK,
    )  # fmt: skip
