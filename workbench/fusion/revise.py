"""Measurements against predictions: a group that is slower than its parts, or that nothing schedules, is split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ..errors import IllegalGroup
from ..graph import Graph
from ..targets.target import Target
from .cost_models import AnalyticCostModel, CostModel
from .cost_models.analytic import VIEW_SECONDS
from .legality import check, check_partition
from .matching import is_renaming
from .plan import Decision, FusionPlan, Group, duration
from .planners._base import Unit, make_groups

MARGIN = 0.03  # the fused form has to be slower by more than this
ESTIMATE_MARGIN = 0.10  # and by more than this where a part is estimated
MAX_PARTS = 40  # parts that a search for the best cover looks at
MAX_STATES = 20_000  # sets of open nodes after which the search for a cover settles for single operators
Nodes = frozenset[str]


@dataclass(frozen=True)
class Part:
    """A way to compute some of a group's nodes. ``measured``: the time is a measurement, not an estimate."""

    unit: Unit
    seconds: float
    measured: bool


def revise(
    plan: FusionPlan,
    target: Target,
    measured: Mapping[Nodes, float],
    failed: Mapping[Nodes, str] | None = None,
    margin: float = MARGIN,
) -> FusionPlan:
    """The plan with every group split again that was measured slower than its parts, or could not be scheduled.

    ``measured`` gives tuned seconds of sets of nodes: groups, smaller candidates, single operators. ``failed`` gives
    for groups that nothing schedules the reason. Parts are the fastest cover by candidates of the plan and single
    operators; a part that was not measured is estimated by its prediction, scaled by how its operators' predictions
    compared with their measurements. Pinned groups stay. Decisions about groups get ``measured_us``.
    """
    revision = _Revision(plan, target, measured, failed or {}, margin)
    units: list[Unit] = []
    changes: dict[tuple[str, ...], Decision] = {}
    added: list[Decision] = []
    for group in plan.groups:
        parts, decision = revision.look_at(group)
        units += parts
        if decision is not None:
            changes[group.nodes] = decision
            added += _edges(plan.graph, parts, decision) if decision.verdict == "split" else []
    kept = [changes.pop(decision.nodes, decision) for decision in plan.decisions]
    seconds = {unit.nodes: revision.model.seconds(plan.graph, unit.nodes, target) for unit in units}
    revised = replace(
        plan,
        groups=make_groups(plan.graph, units, seconds),
        decisions=(*kept, *changes.values(), *added),
    )
    return revised.undoing(plan, "split with it")


class _Revision:
    def __init__(
        self,
        plan: FusionPlan,
        target: Target,
        measured: Mapping[Nodes, float],
        failed: Mapping[Nodes, str],
        margin: float,
    ) -> None:
        self.plan, self.graph, self.target = plan, plan.graph, target
        self.measured, self.failed, self.margin = measured, failed, margin
        self.model: CostModel = AnalyticCostModel()
        self.pinned = {frozenset(pin) for pin in plan.pins}
        self.decided = {frozenset(d.nodes): d for d in plan.decisions if len(d.nodes) > 1 and d.predicted_us}

    def look_at(self, group: Group) -> tuple[list[Unit], Decision | None]:
        """The units that a group becomes, and the decision about it with what was measured."""
        whole = frozenset(group.nodes)
        unit = Unit(group.nodes, group.rule, group.kind, group.reason, group.rewrite)
        if len(whole) == 1 or not (whole in self.measured or whole in self.failed):
            return [unit], None
        cover = self.best_cover(group)
        if whole in self.failed:
            reason = f"no schedule for {group.rule}: {self.failed[whole]}; split again"
            if whole in self.pinned:
                return [unit], self._decision(group, "fuse", cover, f"pinned, though {reason}")
            return [part.unit for part in cover], self._decision(group, "split", cover, reason)
        fused, apart = self.measured[whole], sum(part.seconds for part in cover)
        sure = all(part.measured for part in cover)
        comparable = sure or self._calibrated(whole)
        allowed = self.margin if sure else max(self.margin, ESTIMATE_MARGIN)
        text = f"measured {duration(fused)} fused, {duration(apart)} as {len(cover)} kernels"
        text += "" if sure else ", some of them estimated"
        if not comparable:
            return [unit], self._decision(
                group, "fuse", [], f"measured {duration(fused)} fused; its parts were not measured"
            )
        if fused > apart * (1 + allowed) and whole not in self.pinned:
            return [part.unit for part in cover], self._decision(group, "split", cover, f"{text}: split again")
        tie = apart * (1 - self.margin) <= fused <= apart * (1 + allowed)
        return [unit], self._decision(group, "tie" if tie else "fuse", cover, text + (": a tie" if tie else ""))

    def best_cover(self, group: Group) -> list[Part]:
        """The fastest disjoint parts that make up a group, each smaller than it; legal as a partition."""
        whole = frozenset(group.nodes)
        parts = sorted(self._parts(whole), key=lambda part: (-len(part.unit.nodes), part.unit.nodes))
        singles = [self._part(Unit.single(node, "split from its group")) for node in group.nodes]
        best = _cheapest(group.nodes, [*parts[:MAX_PARTS], *singles])
        if len(best) < len(singles) and not self._legal_cover(group, best):
            return singles
        return best

    def _parts(self, whole: Nodes) -> Iterator[Part]:
        for nodes, decision in self.decided.items():
            if nodes < whole and nodes not in self.failed:
                unit = Unit(
                    self.graph.order(nodes), decision.rule or "measured", decision.kind or "vertical",
                    "part of a group that was split again", decision.rewrite,
                )  # fmt: skip
                if self._legal(unit):
                    yield self._part(unit)
        for nodes in self.measured:
            if 1 < len(nodes) < len(whole) and nodes < whole and nodes not in self.decided:
                unit = Unit(self.graph.order(nodes), "measured", "vertical", "part of a group that was split again")
                if self._legal(unit):
                    yield self._part(unit)

    def _part(self, unit: Unit) -> Part:
        nodes = frozenset(unit.nodes)
        known = self._time(nodes)
        if known is not None:
            return Part(unit, known, True)
        predicted = self.model.seconds(self.graph, unit.nodes, self.target)
        return Part(unit, predicted * self._scale(nodes), False)

    def _scale(self, nodes: Nodes) -> float:
        """How much longer the single operators took than predicted; 1 where they were not measured."""
        if not self._calibrated(nodes):
            return 1.0
        predicted = sum(self.model.seconds(self.graph, (node,), self.target) for node in sorted(nodes))
        return self._apart(nodes) / max(predicted, 1e-12)

    def _time(self, nodes: Nodes) -> float | None:
        """Measured seconds; a reshape on its own is no kernel, so its price is known without one."""
        if nodes not in self.measured and all(is_renaming(self.graph, self.graph.node(node)) for node in nodes):
            return VIEW_SECONDS * len(nodes)
        return self.measured.get(nodes)

    def _apart(self, nodes: Nodes) -> float:
        return sum(self._time(frozenset((node,))) or 0.0 for node in sorted(nodes))

    def _calibrated(self, nodes: Nodes) -> bool:
        return all(self._time(frozenset((node,))) is not None for node in nodes)

    def _legal(self, unit: Unit) -> bool:
        try:
            check(self.graph, unit.nodes, unit.kind, unit.rewrite)
        except IllegalGroup:
            return False
        return not any(a in unit.nodes and b in unit.nodes for a, b in self.plan.forbidden)

    def _legal_cover(self, group: Group, cover: list[Part]) -> bool:
        rest = [other.nodes for other in self.plan.groups if other is not group]
        try:
            check_partition(self.graph, [*rest, *(part.unit.nodes for part in cover)])
        except IllegalGroup:
            return False
        return True

    def _decision(self, group: Group, verdict: str, cover: list[Part], reason: str) -> Decision:
        whole = frozenset(group.nodes)
        known = self.decided.get(whole)
        times = {"fused": self.measured.get(whole)}
        if cover and all(part.measured for part in cover):
            times["partial" if any(len(p.unit.nodes) > 1 for p in cover) else "unfused"] = sum(p.seconds for p in cover)
        if self._calibrated(whole):
            times["unfused"] = self._apart(whole)
        measured = {name: seconds * 1e6 for name, seconds in times.items() if seconds is not None}
        base = known or Decision(
            "+".join(group.nodes), group.rule, "fuse", {"fused": group.predicted_us}, None, None, group.reason,
            group.nodes, group.kind, group.rewrite,
        )  # fmt: skip
        return replace(base, verdict=verdict, measured_us=measured or None, reason=reason)  # type: ignore[arg-type]


def _cheapest(nodes: tuple[str, ...], parts: list[Part]) -> list[Part]:
    """The exact cover of ``nodes`` with the smallest sum: dynamic programming over the sets of nodes still open.

    Always covering the first open node keeps the states few; the order of ``parts`` breaks ties.
    """
    known: dict[Nodes, tuple[float, list[Part]]] = {frozenset(): (0.0, [])}

    def solve(left: Nodes) -> tuple[float, list[Part]]:
        if left in known:
            return known[left]
        first = next(node for node in nodes if node in left)
        best: tuple[float, list[Part]] = (float("inf"), [])
        known_enough = len(known) > MAX_STATES
        for part in parts:
            if known_enough and len(part.unit.nodes) > 1:
                continue
            if first in part.unit.nodes and left.issuperset(part.unit.nodes):
                seconds, rest = solve(left.difference(part.unit.nodes))
                if part.seconds + seconds < best[0]:
                    best = part.seconds + seconds, [part, *rest]
        known[left] = best
        return best

    return solve(frozenset(nodes))[1]


def _edges(graph: Graph, parts: list[Unit], decision: Decision) -> list[Decision]:
    owner = {node: part for part in parts for node in part.nodes}
    return [
        Decision(f"{node}->{user.id}", "", "split", {}, decision.measured_us, None, decision.reason)
        for node in owner
        for user in graph.successors(node)
        if user.id in owner and owner[user.id] is not owner[node]
    ]
