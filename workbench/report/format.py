"""Numbers as people read them; the same in plots, pages, tables and sentences."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from typing import Protocol

from .document import IntervalRatio, IntervalUs

NONE = "–"


class _Group(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def nodes(self) -> tuple[str, ...]: ...


_UNITS = ((1e6, "s"), (1e3, "ms"), (1.0, "µs"))


def significant(value: float, digits: int = 3) -> str:
    """A number with ``digits`` significant digits and no exponent: 1234.5 -> "1234", 0.01234 -> "0.0123"."""
    if value == 0:
        return "0"
    text = f"{value:#.{digits}g}"
    if "e" not in text:
        return text.rstrip(".")
    return f"{value:.0f}" if abs(value) >= 1 else f"{value:.1e}"


def unit_of(us: float) -> tuple[float, str]:
    """Microseconds in the unit that suits a time, and that unit's name."""
    for size, name in _UNITS:
        if abs(us) >= size:
            return size, name
    return _UNITS[-1]


def time(us: float | None) -> str:
    """A time given in microseconds: "812 µs", "12.1 ms", "1.23 s"."""
    if us is None:
        return NONE
    size, name = unit_of(us)
    return f"{significant(us / size)} {name}"


def interval(value: IntervalUs | None) -> str:
    """The 95 % interval in the median's unit: "[12.0, 12.3]"."""
    if value is None:
        return NONE
    size, _ = unit_of(value.median)
    return f"[{significant(value.low / size)}, {significant(value.high / size)}]"


def ratio(value: IntervalRatio | None, bounds: bool = True) -> str:
    """A ratio with its interval: "1.42x [1.39, 1.45]"."""
    if value is None:
        return NONE
    text = f"{value.median:.2f}x"
    return f"{text} [{value.low:.2f}, {value.high:.2f}]" if bounds else text


def size(count: float | None) -> str:
    """Bytes in decimal units, as bandwidths are: "4.19 MB"."""
    if count is None:
        return NONE
    for scale, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(count) >= scale:
            return f"{significant(count / scale)} {name}"
    return f"{count:.0f} B"


def percent(fraction: float | None) -> str:
    """A fraction as a percentage: "43 %", "0.4 %"."""
    if fraction is None:
        return NONE
    value = 100 * fraction
    return f"{value:.0f} %" if value >= 10 or value == 0 else f"{value:.1f} %"


def number(value: float | None) -> str:
    """A number with three significant digits, or a dash."""
    return NONE if value is None else significant(value)


def error(value: float | None) -> str:
    """An error: "2.4e-06", "0", or a dash when it is not a number."""
    if value is None:
        return NONE
    return "0" if value == 0 else f"{value:.1e}"


def seconds(value: float | None) -> str:
    """A duration of the job itself: "0.8 s", "4 min 12 s"."""
    if value is None:
        return NONE
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest} s"


def operators(ops: tuple[str, ...]) -> str:
    """Operators joined by ``+``, repeats counted: "matmul+add+gelu", "reshape×3+matmul"."""
    parts: list[str] = []
    for name, run in itertools.groupby(op.removeprefix("nn.") for op in ops):
        count = len(list(run))
        parts.append(name if count == 1 else f"{name}×{count}")
    return "+".join(parts)


def count(number_of: int, what: str, plural: str = "") -> str:
    """A number of things: "1 kernel", "7 kernels"."""
    return f"{number_of} {what if number_of == 1 else plural or what + 's'}"


def shorten(words: str, length: int) -> str:
    """At most ``length`` characters, the last an ellipsis where something was cut off."""
    return words if len(words) <= length else words[: length - 1] + "…"


def broken(words: str, width: int, after: str = "+") -> str:
    """Lines of at most ``width`` characters where that is possible, broken after ``after``."""
    lines = [""]
    for part in re.findall(f"[^{re.escape(after)}]*{re.escape(after)}?", words):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)


def group_names(groups: Iterable[_Group]) -> dict[str, str]:
    """``{"lv3+lv4": "g1"}``: what reasons call the groups by, and what people read instead."""
    return {"+".join(group.nodes): group.id for group in groups if len(group.nodes) > 1}


def named(reason: str, names: Mapping[str, str]) -> str:
    """A reason with groups called by their ids."""
    return re.sub(r"[\w.]+(?:\+[\w.]+)+", lambda found: names.get(found[0], found[0]), reason)


def boundary(nodes: str, names: Mapping[str, str]) -> str:
    """A group's id, or the nodes, cut where they are many: ``a+b+c+d`` -> ``a+...+d (4)``."""
    parts = nodes.split("+")
    return names.get(nodes) or (nodes if len(parts) <= 3 else f"{parts[0]}+...+{parts[-1]} ({len(parts)})")
