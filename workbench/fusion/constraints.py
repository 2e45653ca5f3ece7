"""What a planner has to respect, and what it may know: a person's wishes, and measurements."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..errors import IllegalGroup
from .categories import FORBIDDEN, SIZE_LIMIT

Nodes = frozenset[str]
Objective = Literal["latency", "memory", "kernels", "compile"]
OBJECTIVES: tuple[Objective, ...] = ("latency", "memory", "kernels", "compile")


@dataclass(frozen=True)
class Constraints:
    """What a person wants of a plan, whatever is predicted.

    ``pins``: sets of nodes that must be one kernel each. ``forbidden``: pairs of nodes that must not share a kernel.
    ``rules_off``: rules by name that are not asked. ``max_nodes``: the most operators in one kernel; None: no limit.
    """

    pins: tuple[tuple[str, ...], ...] = ()
    forbidden: tuple[tuple[str, str], ...] = ()
    rules_off: tuple[str, ...] = ()
    max_nodes: int | None = None


def refused_wish(
    nodes: Collection[str], forbidden: Sequence[tuple[str, str]], max_nodes: int | None
) -> IllegalGroup | None:
    """Why a person's wishes rule out ``nodes`` as one kernel; None when they do not."""
    for first, second in forbidden:
        if first in nodes and second in nodes:
            return IllegalGroup(FORBIDDEN, f"{first}->{second} was forbidden")
    if max_nodes is not None and len(nodes) > max_nodes:
        return IllegalGroup(SIZE_LIMIT, f"{len(nodes)} operators, at most {max_nodes} are allowed")
    return None


@dataclass(frozen=True)
class Measured:
    """Seconds of a tuned kernel of its own: the median, and the least and most of its samples."""

    seconds: float
    low: float
    high: float


@dataclass(frozen=True)
class Evidence:
    """What was measured. ``failed``: sets of nodes that nothing schedules, with the reason."""

    measured: Mapping[Nodes, Measured] = field(default_factory=dict)
    failed: Mapping[Nodes, str] = field(default_factory=dict)
