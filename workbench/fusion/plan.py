"""A plan: a partition of a graph into groups, with the evidence for every boundary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..graph import Graph
from .categories import WHOLE_MODEL

if TYPE_CHECKING:
    from ..models.model import Model
    from ..targets.target import Target

Verdict = Literal["fuse", "split", "tie"]
SCHEMA = 2  # 1 lacks categories, ranges, objective, rules_off and max_nodes


def duration(seconds: float) -> str:
    """``1.08 ms``, ``12.9 µs``: three significant digits, in the unit that suits."""
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if abs(seconds) >= unit:
            return f"{_digits(seconds / unit)} {name}"
    return f"{_digits(seconds * 1e6)} µs"


def _digits(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:#.3g}"


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
    """What the decision rests on: one kernel against every operator its own kernel.

    Intensities are FLOP per byte moved. ``level``: the smallest cache that holds what the fused kernel reads and
    writes ("L1", "L2", "L3"), or "memory". ``bound_*``: what limits the kernels under the target's roofline.
    """

    bytes_saved: int  # of traffic between kernels
    launches_saved: int
    intensity_before: float
    intensity_after: float
    recompute: float  # how often the most repeated inlined operator computes each element; 1.0: nothing twice
    parallelism: int  # independent outer iterations of the fused kernel
    pressure: float  # live vectors over vector registers
    recomputed_flops: float = 0.0  # the sum of all work that is done more than once
    level: str = ""
    bound_before: str = ""  # "memory" | "compute" | "launch"
    bound_after: str = ""
    compile_s: float = 0.0  # estimated seconds to compile the fused kernel once
    arguments: int = 0  # tensors in its signature


@dataclass(frozen=True)
class Decision:
    """Why a boundary (a candidate, or an edge between two groups) was fused or left. Times in microseconds.

    ``category`` is one of ``categories.CATEGORIES``. ``nodes``, ``kind`` and ``rewrite`` are the candidate's; for an
    edge ``nodes`` is empty. ``predicted_range_us`` and ``measured_range_us`` hold low and high of the times that have
    an interval, under the same names. ``expected`` is the verdict of the prediction alone, where there is one.
    Measured times come from kernels on their own, or from inside the whole model, which counts more: ``measured_in``.
    Predicted ones are for inside the model; ``beside_us`` is the part of them that kernels on their own do not have.
    """

    boundary: str  # "lv3+lv4+lv5", or "lv3->lv7"
    rule: str
    verdict: Verdict
    predicted_us: Mapping[str, float]  # "fused", "unfused", and "partial" where there is one
    measured_us: Mapping[str, float] | None
    factors: Factors | None
    reason: str
    nodes: tuple[str, ...] = ()
    kind: str = ""
    rewrite: str | None = None
    category: str = ""
    predicted_range_us: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    measured_range_us: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    expected: Verdict | None = None
    measured_in: str = ""  # "kernel": each on its own, in a warm cache; "model": inside the whole model
    beside_us: Mapping[str, float] = field(default_factory=dict)

    @property
    def edge(self) -> tuple[str, str] | None:
        """The two nodes of an edge between groups; None for a candidate's decision."""
        first, arrow, second = self.boundary.partition("->")
        return (first, second) if arrow else None

    def touches(self, node: str) -> bool:
        """Whether the decision is about this node."""
        return node in (self.edge or self.nodes)


@dataclass(frozen=True)
class FusionPlan:
    """Immutable; ``graph`` is what it partitions. Groups are in execution order and cover every node once.

    ``model`` and ``target`` are what the plan was made for, where it knows them; the document holds neither.
    """

    graph: Graph
    target_key: str
    planner: str  # "predict" | "greedy" | "unfused", or what made it
    groups: tuple[Group, ...]
    decisions: tuple[Decision, ...]
    pins: tuple[tuple[str, ...], ...] = ()
    forbidden: tuple[tuple[str, str], ...] = ()
    rules: tuple[str, ...] = ()
    rules_off: tuple[str, ...] = ()
    max_nodes: int | None = None
    objective: str = "latency"
    cost_model: str = ""  # whose predictions these are
    search: str = ""  # "exact" | "beam": how the best partition was looked for
    extra: Mapping[str, Any] = field(default_factory=dict)
    model: Model | None = field(default=None, compare=False, repr=False)
    target: Target | None = field(default=None, compare=False, repr=False)

    @cached_property
    def _owner(self) -> dict[str, Group]:
        return {node: group for group in self.groups for node in group.nodes}

    def group_of(self, node_id: str) -> Group:
        """The group that holds a node. Raises PlanError for a node that the graph does not have."""
        group = self._owner.get(node_id)
        return self._owner[self.graph.node(node_id).id] if group is None else group

    @property
    def predicted_us(self) -> float:
        """Predicted microseconds of the whole: the sum over all groups."""
        return sum(group.predicted_us for group in self.groups)

    def explain(self, subject: str) -> tuple[Decision, ...]:
        """Every decision about a node ("lv3") or an edge ("lv3->lv4"): who proposed it, what stopped it.

        Raises PlanError for a node that the graph does not have.
        """
        ends = [self.graph.node(name).id for name in subject.split("->")]
        return tuple(decision for decision in self.decisions if all(decision.touches(end) for end in ends))

    def describe(self) -> list[dict[str, str]]:
        """One row a group, as text: id, rule, operators, nodes, predicted time, reason."""
        return [
            {
                "id": group.id,
                "rule": group.rule,
                "ops": "+".join(op.removeprefix("nn.") for op in group.ops),
                "nodes": "+".join(group.nodes),
                "predicted": f"{group.predicted_us:.1f} us",
                "reason": group.reason,
            }
            for group in self.groups
        ]

    def to_json(self) -> dict[str, Any]:
        """The plan as a document (see ``document``)."""
        from .document import to_json

        return to_json(self)

    def save(self, path: str | Path) -> None:
        """Write the document to ``path`` as JSON."""
        from .document import save

        save(self, path)

    def undoing(self, before: FusionPlan, why: str) -> FusionPlan:
        """This plan, with every decision to fuse what is together in ``before`` and no longer here turned to "split".

        ``why`` continues the decision's reason.
        """

        def settled(decision: Decision) -> Decision:
            nodes = frozenset(decision.nodes)
            fused = decision.verdict != "split" and len(nodes) > 1
            if not fused or not before._together(nodes) or self._together(nodes):
                return decision
            return replace(decision, verdict="split", category=WHOLE_MODEL, reason=f"{decision.reason}; {why}")

        return replace(self, decisions=tuple(settled(decision) for decision in self.decisions))

    def _together(self, nodes: frozenset[str]) -> bool:
        return any(nodes.issubset(group.nodes) for group in self.groups)

    def __repr__(self) -> str:
        fused = sum(len(group.nodes) > 1 for group in self.groups)
        groups = f"{len(self.groups)} group{'' if len(self.groups) == 1 else 's'}"
        return f"<FusionPlan {self.graph.name}: {len(self.graph.nodes)} operators in {groups}, {fused} fused>"

    def _repr_html_(self) -> str:
        from .drawing import plan_html

        return plan_html(self)
