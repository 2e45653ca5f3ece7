"""A plan: a partition of a graph into groups, with the evidence for every boundary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..graph import Graph

Verdict = Literal["fuse", "split", "tie"]
SCHEMA = 1


@dataclass(frozen=True)
class Group:
    """A set of nodes that becomes one kernel. ``rule`` is "single" for a node on its own."""

    id: str  # "g0", "g1", ... in execution order
    nodes: tuple[str, ...]
    ops: tuple[str, ...]
    rule: str
    kind: str  # "vertical" | "horizontal" | "single"
    reason: str
    predicted_us: float
    rewrite: str | None = None
    workload: str | None = None  # workload key, known after lowering


@dataclass(frozen=True)
class Factors:
    """What the decision rests on. Bytes and intensities (FLOP per byte) are before and after fusion."""

    bytes_saved: int
    launches_saved: int
    intensity_before: float
    intensity_after: float
    recompute: float  # work done in the fused kernel over work done apart; 1.0: nothing is computed twice
    parallelism: int  # independent outer iterations of the fused kernel
    pressure: float  # live vectors over vector registers


@dataclass(frozen=True)
class Decision:
    """Why a boundary (a candidate, or an edge between two groups) was fused or left. Times in microseconds."""

    boundary: str  # "lv3+lv4+lv5", or "lv3->lv7"
    rule: str
    verdict: Verdict
    predicted_us: Mapping[str, float]  # "fused", "unfused", and "partial" where there is one
    measured_us: Mapping[str, float] | None
    factors: Factors | None
    reason: str


@dataclass(frozen=True)
class FusionPlan:
    """Immutable; ``graph`` is what it partitions. Groups are in execution order and cover every node once."""

    graph: Graph
    target_key: str
    planner: str  # "roofline" | "unfused"
    groups: tuple[Group, ...]
    decisions: tuple[Decision, ...]
    pins: tuple[tuple[str, ...], ...] = ()
    forbidden: tuple[tuple[str, str], ...] = ()
    rules: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    def group_of(self, node_id: str) -> Group: ...
    def to_json(self) -> dict[str, Any]: ...
    def save(self, path: Path) -> None: ...
    def _repr_html_(self) -> str: ...
