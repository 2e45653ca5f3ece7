"""A sweep: one model under several limits on the size of a kernel; what each costs to compile, and how fast it runs."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from . import format as fmt
from .document import EnvironmentPart, IntervalRatio, IntervalUs, ModelPart, Part, TargetPart
from .write import png, write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCHEMA = 1
FILE_NAME = "sweep.json"
HEADINGS = ("limit", "kernels", "largest", "compile", "median", "95 % interval", "against unfused")


class SweepPoint(Part):
    """One plan under one limit. ``latency_us`` is None unless ``status`` is "ok"; ``message`` then says why.

    ``compile_s``: seconds to build all of its distinct kernels one after another, none of them from a cache.
    ``same_as``: the earlier point with the very same kernels, of which all figures are; "" for a point of its own.
    """

    max_nodes: int | None  # None: no limit
    kernels: int  # launches a run
    largest: int  # operators of the largest kernel
    compile_s: float | None
    intermediate_bytes: int
    latency_us: IntervalUs | None = None
    ratio_to_unfused: IntervalRatio | None = None
    same_as: str = ""
    status: str = "ok"  # "ok" | "wrong" | "failed"
    message: str = ""

    @property
    def name(self) -> str:
        """The limit, as people read it."""
        return limit_name(self.max_nodes)


class Sweep(Part):
    """What ``sweep.json`` holds. Immutable. The first point is `unfused`: one operator a kernel."""

    schema_version: int = Field(default=SCHEMA, alias="schema")
    workbench: str
    created: str
    command: str = ""
    incomplete_reason: str = ""  # why it was cut short; "" when it was not
    model: ModelPart
    target: TargetPart
    environment: EnvironmentPart
    objective: str
    trials_per_task: int
    points: tuple[SweepPoint, ...]

    @property
    def fastest(self) -> SweepPoint | None:
        """The point with the least median; None when none could be timed."""
        timed = [(one.latency_us.median, index) for index, one in enumerate(self.points) if one.latency_us is not None]
        return self.points[min(timed)[1]] if timed else None

    @property
    def near(self) -> tuple[SweepPoint, ...]:
        """Other programs that the intervals do not tell from the fastest."""
        best = self.fastest
        if best is None or best.latency_us is None:
            return ()
        high = best.latency_us.high
        others = [one for one in self.points if not one.same_as and one is not best]
        return tuple(one for one in others if one.latency_us is not None and one.latency_us.low <= high)

    def sentence(self) -> str:
        """What the sweep shows, in one line; limits that are a tie with the fastest are named."""
        text = self._finding()
        return f"INCOMPLETE ({self.incomplete_reason}). {text}" if self.incomplete_reason else text

    def _finding(self) -> str:
        best = self.fastest
        if best is None or best.latency_us is None:
            return f"{self.model.name}: no limit gave a program that could be timed."
        limit = "no limit" if best.max_nodes is None else f"at most {fmt.count(best.max_nodes, 'operator')} a kernel"
        text = f"{self.model.name}: fastest with {limit}, {fmt.time(best.latency_us.median)}"
        if best.ratio_to_unfused is not None and best is not self.points[0]:
            text += f", {fmt.ratio(best.ratio_to_unfused)} against unfused"
        text += f"; {fmt.count(best.kernels, 'kernel')} compiled in {fmt.seconds(best.compile_s)}"
        tied = ", ".join(one.name for one in self.near)
        return f"{text}; a tie with limit {tied} within the intervals." if tied else f"{text}."

    def rows(self) -> list[tuple[str, ...]]:
        """A row a point, under ``HEADINGS``."""
        return [
            (
                one.name,
                str(one.kernels),
                str(one.largest),
                fmt.seconds(one.compile_s),
                fmt.time(one.latency_us.median) if one.latency_us else one.status.upper(),
                fmt.interval(one.latency_us),
                f"as {one.same_as}" if one.same_as else fmt.ratio(one.ratio_to_unfused),
            )
            for one in self.points
        ]

    def plot(self, narrow: bool = False) -> Figure:
        """Compile time and run time over the limit."""
        from .plots.sweep import sweep_plot

        return sweep_plot(self, narrow)

    def to_json(self) -> dict[str, Any]:
        """The content of ``sweep.json``."""
        return self.model_dump(mode="json", by_alias=True)

    def save(self, folder: str | Path) -> Path:
        """Writes ``sweep.json`` and then ``sweep.png`` into a folder; returns the plot's path. Raises StoreError."""
        folder = Path(folder)
        write_file(folder / FILE_NAME, json.dumps(self.to_json(), indent=1) + "\n")
        return write_file(folder / "sweep.png", png(self.plot()))

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(heading)}</th>" for heading in HEADINGS)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self.rows()
        )
        return f"<p>{html.escape(self.sentence())}</p><table><tr>{head}</tr>{body}</table>"


def limit_name(max_nodes: int | None) -> str:
    """ "none", or the number."""
    return "none" if max_nodes is None else str(max_nodes)
