"""The interface of all planners, and what they share: the growing partition and how it becomes a plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...errors import IllegalGroup
from ...graph import Graph
from ...targets.target import Target
from ..categories import CYCLE, FORBIDDEN
from ..cost_models import CostModel
from ..legality import check_partition
from ..plan import Decision, FusionPlan, Group
from ..rules import Candidate, Rule

Edges = Sequence[tuple[str, str]]
SINGLE = "single"


class Planner(ABC):
    """Decides which nodes become one kernel. The same arguments give the same plan, always."""

    name: ClassVar[str]

    @abstractmethod
    def plan(
        self,
        graph: Graph,
        target: Target,
        rules: Sequence[Rule],
        pins: Sequence[Sequence[str]] = (),
        forbidden: Edges = (),
    ) -> FusionPlan:
        """A legal partition of ``graph``.

        ``pins`` are groups that must be in the plan; ``forbidden`` are pairs of nodes that must not share a kernel.
        Raises :class:`~workbench.errors.IllegalGroup` for a pin that cannot be a kernel, and
        :class:`~workbench.errors.RuleError` for a rule that fails.
        """


@dataclass(frozen=True)
class Unit:
    """A group in the making."""

    nodes: tuple[str, ...]
    rule: str
    kind: str
    reason: str
    rewrite: str | None = None
    extendable: bool = True

    @staticmethod
    def single(node: str, reason: str = "no candidate that holds it was taken; see the decisions") -> Unit:
        return Unit((node,), SINGLE, SINGLE, reason)


class Partition:
    """Disjoint units over a graph that stay acyclic when contracted. Changes in place; starts with singles."""

    def __init__(self, graph: Graph, forbidden: Edges = ()) -> None:
        self.graph = graph
        self.forbidden = tuple(forbidden)
        self._position = {node.id: i for i, node in enumerate(graph.nodes)}
        self._units: dict[int, Unit] = {i: Unit.single(node.id) for i, node in enumerate(graph.nodes)}
        self._owner: dict[str, int] = dict(self._position)

    def unit_of(self, node: str) -> Unit:
        return self._units[self._owner[node]]

    def units(self) -> tuple[Unit, ...]:
        """All units, by their first node's place in the program."""
        return tuple(dict.fromkeys(self.unit_of(node.id) for node in self.graph.nodes))

    def taken(self, nodes: Iterable[str]) -> tuple[Unit, ...]:
        """Units of more than one node that hold some of ``nodes``."""
        return tuple(unit for unit in dict.fromkeys(self.unit_of(n) for n in nodes) if len(unit.nodes) > 1)

    def neighbours(self, unit: Unit) -> tuple[Unit, ...]:
        """Units that read from or write to this one, producers first."""
        graph, inside = self.graph, set(unit.nodes)
        before = [p.id for node in unit.nodes for p in graph.predecessors(node)]
        after = [s.id for node in unit.nodes for s in graph.successors(node)]
        return tuple(dict.fromkeys(self.unit_of(node) for node in (*before, *after) if node not in inside))

    def refuse(self, nodes: Iterable[str]) -> IllegalGroup | None:
        """Why ``nodes`` cannot become one unit next to the units there are; None when they can."""
        inside = frozenset(nodes)
        for first, second in self.forbidden:
            if first in inside and second in inside:
                return IllegalGroup(FORBIDDEN, f"{first}->{second} was forbidden")
        other = self._loops_through(inside)
        return None if other is None else IllegalGroup(CYCLE, f"with the group {'+'.join(other.nodes)}")

    def put(self, unit: Unit) -> None:
        """Make ``unit`` one, in place of all units that it overlaps; what is left of those becomes single."""
        for old in dict.fromkeys(self.unit_of(node) for node in unit.nodes):
            del self._units[self._owner[old.nodes[0]]]
            for node in old.nodes:
                self._owner[node] = self._position[node]
                self._units[self._owner[node]] = Unit.single(node)
        for node in unit.nodes:
            self._units.pop(self._position[node], None)
        home = self._position[unit.nodes[0]]
        self._units[home] = unit
        for node in unit.nodes:
            self._owner[node] = home

    def _loops_through(self, inside: frozenset[str]) -> Unit | None:
        """A unit on a path of the contracted graph that leaves ``inside`` and comes back; None when there is none."""
        graph = self.graph
        stack = [s.id for node in graph.order(inside) for s in graph.successors(node) if s.id not in inside]
        seen: set[int] = set()
        while stack:
            home = self._owner[stack.pop()]
            if home in seen:
                continue
            seen.add(home)
            members = [node for node in self._units[home].nodes if node not in inside]
            for node in members:
                for successor in graph.successors(node):
                    if successor.id in inside:
                        return self._units[home]
                    stack.append(successor.id)
        return None


def assemble(
    partition: Partition,
    target: Target,
    model: CostModel,
    planner: str,
    decisions: Sequence[Decision],
    rules: Sequence[Rule],
    pins: Sequence[Sequence[str]],
) -> FusionPlan:
    """The partition as a plan; checked once more as a whole (raises IllegalGroup, which would be our own mistake)."""
    graph, units = partition.graph, partition.units()
    groups = make_groups(graph, units, {u.nodes: model.seconds(graph, u.nodes, target) for u in units})
    return FusionPlan(
        graph=graph,
        target_key=target.key,
        planner=planner,
        groups=groups,
        decisions=tuple(decisions),
        pins=tuple(tuple(pin) for pin in pins),
        forbidden=partition.forbidden,
        rules=tuple(rule.name for rule in rules),
        target=target,
    )


def make_groups(graph: Graph, units: Sequence[Unit], seconds: Mapping[tuple[str, ...], float]) -> tuple[Group, ...]:
    """Groups "g0", "g1", ... in execution order."""
    order = check_partition(graph, [unit.nodes for unit in units])
    return tuple(
        Group(
            id=f"g{place}",
            nodes=units[i].nodes,
            ops=tuple(graph.node(node).op for node in units[i].nodes),
            rule=units[i].rule,
            kind=units[i].kind,
            reason=units[i].reason,
            predicted_us=seconds[units[i].nodes] * 1e6,
            rewrite=units[i].rewrite,
        )
        for place, i in enumerate(order)
    )


def unit_from(candidate: Candidate, extendable: bool) -> Unit:
    return Unit(candidate.nodes, candidate.rule, candidate.kind, candidate.reason, candidate.rewrite, extendable)
