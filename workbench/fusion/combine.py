"""Measured inside the whole model: takes each region of the graph from the variant that computed it fastest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from ..errors import IllegalGroup
from ..targets.target import Target
from .categories import WHOLE_MODEL
from .cost_models import AnalyticCostModel, CostModel
from .legality import check_partition
from .matching import is_renaming
from .plan import Decision, FusionPlan, duration
from .planners._base import Unit, make_groups

MARGIN = 0.02  # another variant's region has to be faster by more than this
Nodes = frozenset[str]


@dataclass(frozen=True)
class MeasuredGroup:
    """A kernel of a variant: its nodes in graph order, its time inside the whole model, the rewrite it needs."""

    nodes: tuple[str, ...]
    seconds: float
    rewrite: str | None = None


def combine(
    plan: FusionPlan,
    target: Target,
    measured: Mapping[Nodes, float],
    others: Mapping[str, Sequence[MeasuredGroup]],
    margin: float = MARGIN,
    model: CostModel | None = None,
) -> FusionPlan:
    """The plan with each region replaced by the grouping of another variant that was faster there.

    A region is a smallest set of nodes that is a union of groups in every variant, so that it can be swapped alone.
    ``measured`` gives the seconds of the plan's own groups, ``others`` the groups of other variants by name; nodes
    that a variant does not name cost it nothing (views). Pinned groups stay. Every swap becomes a Decision. The same
    plan comes back when nothing was faster, or when the swaps would make groups depend on each other.
    """
    units: list[Unit] = []
    decisions: list[Decision] = []
    measured, others = _same_time_for_same_kernels(plan, measured, others)
    for region in _regions(plan, others):
        own = [group for group in plan.groups if region.issuperset(group.nodes)]
        unit = [Unit(g.nodes, g.rule, g.kind, g.reason, g.rewrite, False) for g in own]
        times = {"planned": sum(measured.get(frozenset(group.nodes), 0.0) for group in own)}
        inside = {name: [g for g in groups if region.issuperset(g.nodes)] for name, groups in others.items()}
        times |= {name: sum(group.seconds for group in groups) for name, groups in inside.items()}
        best = min(times, key=lambda name: (times[name], name != "planned"))
        pinned = any(group.nodes in plan.pins for group in own)
        if not pinned and times[best] < times["planned"] * (1 - margin):
            reason = _reason(best, times)
            unit = _units(plan, region, best, inside[best], reason)
            decisions.append(_decision(plan, region, len(own) > len(unit), times, reason))
        units += unit
    if not decisions:
        return plan
    try:
        check_partition(plan.graph, [one.nodes for one in units])
    except IllegalGroup:
        return plan
    model = model or AnalyticCostModel()
    seconds = {one.nodes: model.seconds(plan.graph, one.nodes, target) for one in units}
    groups = make_groups(plan.graph, units, seconds)
    combined = replace(plan, groups=groups, decisions=(*plan.decisions, *decisions))
    return combined.undoing(plan, "undone by what was measured inside the whole model")


def _same_time_for_same_kernels(
    plan: FusionPlan, measured: Mapping[Nodes, float], others: Mapping[str, Sequence[MeasuredGroup]]
) -> tuple[dict[Nodes, float], dict[str, list[MeasuredGroup]]]:
    """A kernel that several variants have takes what it took in the fastest: the rest is where its buffers lie.

    Without this the noise of one long kernel that all have decides about short ones beside it.
    """
    least: dict[tuple[Nodes, str | None], float] = {}
    own = {frozenset(group.nodes): group.rewrite for group in plan.groups}
    known = [(nodes, own.get(nodes), seconds) for nodes, seconds in measured.items()]
    known += [(frozenset(one.nodes), one.rewrite, one.seconds) for groups in others.values() for one in groups]
    for nodes, rewrite, seconds in known:
        least[nodes, rewrite] = min(seconds, least.get((nodes, rewrite), seconds))
    return (
        {nodes: least[nodes, own.get(nodes)] for nodes in measured},
        {
            name: [replace(one, seconds=least[frozenset(one.nodes), one.rewrite]) for one in groups]
            for name, groups in others.items()
        },
    )


def adopt(
    plan: FusionPlan,
    target: Target,
    variant: str,
    groups: Sequence[MeasuredGroup],
    times: Mapping[str, float],
    model: CostModel | None = None,
) -> FusionPlan:
    """The grouping of another variant as the plan, since the whole model ran faster that way.

    ``groups`` cover all nodes but views. ``times``: seconds of the whole model by variant, for the reason.
    """
    every = frozenset(node.id for node in plan.graph.nodes)
    reason = _reason(variant, times)
    units = _units(plan, every, variant, groups, reason)
    model = model or AnalyticCostModel()
    seconds = {one.nodes: model.seconds(plan.graph, one.nodes, target) for one in units}
    decision = _decision(plan, every, len(plan.groups) > len(units), times, reason)
    made = make_groups(plan.graph, units, seconds)
    adopted = replace(plan, groups=made, decisions=(*plan.decisions, decision))
    return adopted.undoing(plan, f"undone, since the whole model ran faster as {variant}")


def confirm(plan: FusionPlan, inside: Mapping[str, Sequence[MeasuredGroup]]) -> FusionPlan:
    """The plan with what was measured inside the whole model in its decisions, where it is known there.

    ``inside``: the kernels of each variant, `unfused` among them. A candidate's fused time is that of the fastest
    variant that has it as a kernel, its partial time that of the fastest one that makes several kernels of exactly its
    operators, some of them fused. Verdicts stay: they say what the plan does.
    """
    times: dict[Nodes, float] = {}
    named = {node for group in inside.get("unfused", ()) for node in group.nodes}
    for group in (group for variant in inside.values() for group in variant):
        nodes = frozenset(group.nodes)
        times[nodes] = min(times.get(nodes, group.seconds), group.seconds)
    alone = {node: times.get(frozenset((node,)), 0.0) for node in named}
    views = {node.id for node in plan.graph.nodes if node.id not in named and is_renaming(plan.graph, node)}

    def confirmed(decision: Decision) -> Decision:
        nodes = frozenset(decision.nodes)
        if len(nodes) < 2 or nodes not in times or not nodes <= alone.keys() | views or decision.expected is None:
            return decision
        measured = {"fused": times[nodes], "unfused": sum(alone.get(node, 0.0) for node in decision.nodes)}
        partial = [
            seconds for groups in inside.values() if (seconds := _in_parts(nodes - views, groups, views)) is not None
        ]
        if partial:
            measured["partial"] = min(partial)
        return replace(
            decision,
            measured_us={name: seconds * 1e6 for name, seconds in measured.items()},
            measured_range_us={},
            measured_in="model",
        )

    return replace(plan, decisions=tuple(confirmed(decision) for decision in plan.decisions))


def _in_parts(nodes: Nodes, groups: Sequence[MeasuredGroup], views: Set[str]) -> float | None:
    """Seconds of the kernels that compute exactly ``nodes``, where they are several and one is fused; else None.

    A view that a kernel takes in costs nothing, so it is no operator of it here.
    """
    parts = [(frozenset(group.nodes) - views, group.seconds) for group in groups if not nodes.isdisjoint(group.nodes)]
    exact = all(own <= nodes for own, _ in parts)
    several = len(parts) > 1 and any(len(own) > 1 for own, _ in parts)
    return sum(seconds for _, seconds in parts) if exact and several else None


def _regions(plan: FusionPlan, others: Mapping[str, Sequence[MeasuredGroup]]) -> list[Nodes]:
    """Connected components of "in one group in some variant", in graph order of their first nodes."""
    home = {node.id: {node.id} for node in plan.graph.nodes}
    groups = [group.nodes for group in plan.groups]
    groups += [group.nodes for variant in others.values() for group in variant]
    for nodes in groups:
        merged = set().union(*(home[node] for node in nodes))
        for node in merged:
            home[node] = merged
    return list(dict.fromkeys(frozenset(home[node.id]) for node in plan.graph.nodes))


def _units(plan: FusionPlan, region: Nodes, variant: str, groups: Sequence[MeasuredGroup], reason: str) -> list[Unit]:
    named = {node for group in groups for node in group.nodes}
    units = [
        Unit(group.nodes, variant, "vertical", reason, group.rewrite, False)
        if len(group.nodes) > 1
        else Unit.single(group.nodes[0], reason)
        for group in groups
    ]
    return units + [Unit.single(node, "a view, no kernel") for node in plan.graph.order(region - named)]


def _reason(best: str, times: Mapping[str, float]) -> str:
    listed = ", ".join(f"{duration(seconds)} as {name}" for name, seconds in times.items())
    return f"measured inside the whole model: {listed}; taken from {best}"


def _decision(plan: FusionPlan, region: Nodes, fused: bool, times: Mapping[str, float], reason: str) -> Decision:
    nodes = plan.graph.order(region)
    return Decision(
        boundary="+".join(nodes),
        rule="whole model",
        verdict="fuse" if fused else "split",
        predicted_us={},
        measured_us={name: seconds * 1e6 for name, seconds in times.items()},
        factors=None,
        reason=reason,
        nodes=nodes,
        category=WHOLE_MODEL,
        measured_in="model",
    )
