"""What a person changed in a plan document, and the plan made anew under these wishes.

Asked first are the document's pins, then groups that were edited by hand: a set of nodes that no decision of the
document is about becomes a pin, and where a fused group was taken apart its edges become forbidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import IllegalGroup
from ..graph import Graph
from .categories import FORBIDDEN, OVERLAP, RULE_OFF, SIZE_LIMIT
from .constraints import Constraints
from .legality import check
from .plan import FusionPlan, Group
from .planners import PLANNERS
from .planning import plan
from .rules import Rule

if TYPE_CHECKING:
    from ..targets.target import Target
    from .cost_models import CostModel
    from .schema import DocumentGroup, PlanDocument

Edges = Sequence[tuple[str, str]]


def broken_wish(groups: Sequence[Group], wishes: PlanDocument) -> IllegalGroup | None:
    """The first wish of a document that its groups do not keep; None when they keep all."""
    for group in groups:
        error = _refused(group.nodes, wishes.forbidden, wishes.max_nodes)
        if error is not None:
            return IllegalGroup(error.category, f"group {group.id}: {error.detail}; plan again")
        if group.rule in wishes.rules_off:
            return IllegalGroup(RULE_OFF, f"group {group.id} comes of {group.rule}, which is off; plan again")
    for pin in wishes.pins:
        if not any(set(pin) == set(group.nodes) for group in groups):
            return IllegalGroup(OVERLAP, f"pin {'+'.join(pin)} is none of the groups; plan again with this pin")
    return None


def check_pins(graph: Graph, pins: Sequence[Sequence[str]], forbidden: Edges, max_nodes: int | None = None) -> None:
    """Raise IllegalGroup, with category and nodes, for a pin that cannot be a kernel or that other wishes rule out.

    Raises PlanError for a forbidden pair with a node that the graph does not have.
    """
    for node in (node for pair in forbidden for node in pair):
        graph.node(node)
    owner: dict[str, Sequence[str]] = {}
    for pin in pins:
        name = f"pin {'+'.join(pin)}"
        try:
            check(graph, pin, "horizontal")
        except IllegalGroup as error:
            raise IllegalGroup(error.category, f"{name}: {error.detail}") from None
        error_of_wish = _refused(pin, forbidden, max_nodes)
        if error_of_wish is not None:
            raise IllegalGroup(error_of_wish.category, f"{name}: {error_of_wish.detail}")
        for node in pin:
            if node in owner and set(owner[node]) != set(pin):
                raise IllegalGroup(OVERLAP, f"{name}: {node} is in pin {'+'.join(owner[node])} too")
            owner[node] = pin


def _refused(nodes: Sequence[str], forbidden: Edges, max_nodes: int | None) -> IllegalGroup | None:
    for first, second in forbidden:
        if first in nodes and second in nodes:
            return IllegalGroup(FORBIDDEN, f"{first}->{second} is forbidden, but both are in it")
    if max_nodes is not None and len(nodes) > max_nodes:
        return IllegalGroup(SIZE_LIMIT, f"{len(nodes)} operators, at most {max_nodes} are allowed")
    return None


def replan(
    document: PlanDocument,
    graph: Graph,
    target: Target,
    rules: Sequence[Rule] | None = None,
    cost_model: CostModel | None = None,
) -> FusionPlan:
    """A new plan under a document's wishes; groups that were edited by hand stay where the wishes allow it.

    The planner and the objective are the document's; ``cost_model`` defaults to the analytic one. Raises IllegalGroup
    for a pin that cannot be, PlanError for an unknown rule or node.
    """
    check_pins(graph, document.pins, document.forbidden, document.max_nodes)
    cuts = tuple(edge for edge in _cuts(document, graph) if edge not in document.forbidden)
    wishes = Constraints(document.pins, document.forbidden + cuts, document.rules_off, document.max_nodes)
    kept = tuple(group.nodes for group in _edited(document) if _may_stay(graph, group, wishes))
    planner = document.planner if document.planner in PLANNERS else "predict"
    objective = document.objective
    pins = document.pins + kept
    made = plan(graph, target, rules, planner, replace(wishes, pins=pins), cost_model, objective)
    return replace(made, extra=document.extra)


def _edited(document: PlanDocument) -> list[DocumentGroup]:
    """Groups of several nodes that no decision is about: a person wrote them."""
    decided = {frozenset(decision.nodes) for decision in document.decisions}
    return [
        group
        for group in document.groups
        if len(group.nodes) > 1 and (group.rule is None or frozenset(group.nodes) not in decided)
    ]


def _may_stay(graph: Graph, group: DocumentGroup, wishes: Constraints) -> bool:
    if _refused(group.nodes, wishes.forbidden, wishes.max_nodes) is not None:
        return False
    if group.rule is not None and group.rule in wishes.rules_off:
        return False
    if any(set(pin) & set(group.nodes) for pin in wishes.pins):
        return False
    try:
        check(graph, group.nodes, "horizontal", group.rewrite)
    except IllegalGroup:
        return False
    return True


def _cuts(document: PlanDocument, graph: Graph) -> list[tuple[str, str]]:
    """Edges between groups that the plan had inside one: no decision is about the edge, and one fused both ends."""
    owner, apart = document.group_of, {decision.edge for decision in document.decisions}
    fused = [frozenset(decision.nodes) for decision in document.decisions if decision.verdict != "split"]
    return [
        (node.id, user.id)
        for node in graph.nodes
        for user in graph.successors(node.id)
        if owner[node.id] is not owner[user.id]
        and (node.id, user.id) not in apart
        and any(node.id in nodes and user.id in nodes for nodes in fused)
    ]
