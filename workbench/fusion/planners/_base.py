"""The interface of all planners, and how a partition becomes a plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from ...graph import Graph
from ...targets.target import Target
from ..constraints import Constraints, Evidence, Objective
from ..cost_models import CostModel
from ..legality import check_partition
from ..plan import Decision, FusionPlan, Group
from ..rules import Candidate, Rule

SINGLE = "single"


@dataclass(frozen=True, eq=False)
class Problem:
    """What a planner is asked: a graph for a target, with rules, wishes, predictions and measurements."""

    graph: Graph
    target: Target
    rules: Sequence[Rule]
    model: CostModel
    constraints: Constraints = field(default_factory=Constraints)
    objective: Objective = "latency"
    evidence: Evidence = field(default_factory=Evidence)


class Planner(ABC):
    """Decides which nodes become one kernel. The same problem gives the same plan, always."""

    name: ClassVar[str]

    @abstractmethod
    def plan(self, problem: Problem) -> FusionPlan:
        """A legal partition of the graph that keeps the constraints.

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

    @staticmethod
    def of(candidate: Candidate, extendable: bool) -> Unit:
        return Unit(candidate.nodes, candidate.rule, candidate.kind, candidate.reason, candidate.rewrite, extendable)


def assemble(
    problem: Problem,
    units: Sequence[Unit],
    seconds: Mapping[tuple[str, ...], float],
    planner: str,
    decisions: Sequence[Decision],
    search: str,
) -> FusionPlan:
    """The partition as a plan; checked once more as a whole (raises IllegalGroup, which would be our own mistake)."""
    constraints = problem.constraints
    return FusionPlan(
        graph=problem.graph,
        target_key=problem.target.key,
        planner=planner,
        groups=make_groups(problem.graph, units, seconds),
        decisions=tuple(decisions),
        pins=tuple(problem.graph.order(pin) for pin in constraints.pins),
        forbidden=tuple(constraints.forbidden),
        rules=tuple(rule.name for rule in problem.rules),
        rules_off=tuple(constraints.rules_off),
        max_nodes=constraints.max_nodes,
        objective=problem.objective,
        cost_model=problem.model.name,
        search=search,
        target=problem.target,
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
