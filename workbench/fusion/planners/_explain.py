"""Why two neighbouring groups of a finished partition are not one."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import IllegalGroup
from ...graph import Graph
from ...targets.target import Target
from ..cost_models import CostModel
from ..cost_models.analytic import contraction_family
from ..legality import check
from ..matching import INJECTIVE_KINDS, is_renaming
from ..plan import Decision, duration
from ..profit import work_of
from ._base import Partition, Unit


def recompute_text(graph: Graph, nodes: Sequence[str]) -> str:
    """``recompute factor 4096 (exp, lv3)`` for the node that a fused kernel would repeat most; "" when none is."""
    repeated = {n: r for n, r in work_of(graph, nodes).recompute.items() if graph.node(n).flops > 0 and r > 1.01}
    if not repeated:
        return ""
    worst = max(repeated, key=lambda node: repeated[node])
    return f"recompute factor {repeated[worst]:.4g} ({graph.node(worst).op}, {worst})"


def edge_decisions(partition: Partition, target: Target, model: CostModel) -> tuple[Decision, ...]:
    """One decision for every edge between two units, in program order."""
    graph = partition.graph
    known: dict[tuple[Unit, Unit], tuple[str, dict[str, float]]] = {}
    decisions = []
    for node in graph.nodes:
        for user in graph.successors(node.id):
            pair = partition.unit_of(node.id), partition.unit_of(user.id)
            if pair[0] is pair[1]:
                continue
            if pair not in known:
                known[pair] = _refusal(partition, pair[0], pair[1], target, model)
            reason, predicted = known[pair]
            decisions.append(Decision(f"{node.id}->{user.id}", "", "split", predicted, None, None, reason))
    return tuple(decisions)


def _refusal(
    partition: Partition, first: Unit, second: Unit, target: Target, model: CostModel
) -> tuple[str, dict[str, float]]:
    graph = partition.graph
    nodes = graph.order((*first.nodes, *second.nodes))
    try:
        check(graph, nodes, "horizontal", first.rewrite or second.rewrite)
    except IllegalGroup as error:
        return f"illegal: {error}", {}
    refused = partition.refuse(nodes)
    if refused is not None:
        return (str(refused) if refused.category == "forbidden edge" else f"illegal: {refused}"), {}
    fused = model.seconds(graph, nodes, target)
    apart = sum(model.seconds(graph, unit.nodes, target) for unit in (first, second))
    return _unprofitable(graph, first, second, nodes, fused - apart), {"fused": fused * 1e6, "unfused": apart * 1e6}


def _unprofitable(graph: Graph, first: Unit, second: Unit, nodes: Sequence[str], loss: float) -> str:
    for unit in (first, second):
        if not unit.extendable:
            return f"the schedule of {'+'.join(unit.nodes)} ({unit.rule}) serves that pattern alone"
    if contraction_family(graph, nodes) == "unscheduled":
        return "two contractions in a row: no schedule keeps both fast in one kernel"
    kinds = [{graph.node(node).kind for node in unit.nodes} for unit in (first, second)]
    repeated = recompute_text(graph, nodes)
    if repeated and loss > 0:
        return f"{repeated}: fused is predicted {duration(loss)} slower"
    if any("contraction" in k for k in kinds) and any("reduction" in k for k in kinds):
        return "a reduction needs whole rows of the product, which breaks the contraction's tiles"
    for unit in (first, second):
        if all(is_renaming(graph, graph.node(node)) for node in unit.nodes):
            return "a reshape on its own is a view and costs nothing to leave apart"
    if any(k <= INJECTIVE_KINDS and "injective" in k for k in kinds):
        return "a layout change at the edge of a reduction or contraction would break its vectors and tiles"
    if all("reduction" in k for k in kinds):
        return "two reductions: each is a pass of its own, so nothing but a launch would be saved"
    if loss > 0:
        return f"fused is predicted {duration(loss)} slower"
    return f"no rule proposes the pair; predicted to save {duration(-loss)}"
