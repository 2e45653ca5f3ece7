"""Why two neighbouring groups of a finished partition are not one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...errors import IllegalGroup
from ...graph import Graph
from ..categories import (
    CYCLE,
    EXCLUSIVE,
    MEASURED_SLOWER,
    NO_RULE,
    OUTBID,
    PINNED,
    RECOMPUTE,
    SLOWER,
    TWO_CONTRACTIONS,
    UNSCHEDULED,
    VIEW,
)
from ..constraints import refused_wish
from ..cost_models.analytic import contraction_family
from ..legality import check
from ..matching import is_view
from ..plan import Decision, duration
from ..profit import work_of
from ._base import Unit
from ._contracted import Contracted
from ._pool import Nodes, Pool


def recompute_text(graph: Graph, nodes: Sequence[str]) -> str:
    """``recompute factor 4096 (exp, lv3)`` for the node that a fused kernel would repeat most; "" when none is."""
    repeated = {n: r for n, r in work_of(graph, nodes).recompute.items() if graph.node(n).flops > 0 and r > 1.01}
    if not repeated:
        return ""
    worst = max(repeated, key=lambda node: repeated[node])
    return f"recompute factor {repeated[worst]:.4g} ({graph.node(worst).op}, {worst})"


class Edges:
    """What is asked about the edges between the groups of a partition."""

    def __init__(self, pool: Pool, units: Sequence[Unit]) -> None:
        self.pool, self.graph = pool, pool.graph
        self.contracted = Contracted(pool.graph, units)

    def decisions(self) -> Iterator[Decision]:
        """One decision for every edge between two groups, in program order."""
        crossing = [
            (node.id, user.id)
            for node in self.graph.nodes
            for user in self.graph.successors(node.id)
            if self.contracted.owner[node.id] != self.contracted.owner[user.id]
        ]
        pairs = {pair: (self.contracted.of(pair[0]), self.contracted.of(pair[1])) for pair in crossing}
        stopped = {both: self._stopped(*both) for both in dict.fromkeys(pairs.values())}
        self.pool.predict(_union(both) for both, why in stopped.items() if why is None)
        known: dict[tuple[Unit, Unit], Decision] = {}
        for (first, second), both in pairs.items():
            if both not in known:
                known[both] = self._edge(both, stopped[both])
            one = known[both]
            yield Decision(
                f"{first}->{second}", "", "split", one.predicted_us, None, None, one.reason, category=one.category
            )

    def _stopped(self, first: Unit, second: Unit) -> tuple[str, str] | None:
        """Category and reason where the two cannot be one kernel at all."""
        nodes = self.graph.order(_union((first, second)))
        constraints = self.pool.problem.constraints
        refused = refused_wish(nodes, constraints.forbidden, constraints.max_nodes)
        if refused is not None:
            return refused.category, str(refused)
        for unit in (first, second):
            if unit.nodes[0] in self.pool.pinned:
                return PINNED, f"{'+'.join(unit.nodes)} is pinned"
        try:
            check(self.graph, nodes, "horizontal", first.rewrite or second.rewrite)
        except IllegalGroup as error:
            return error.category, f"illegal: {error}"
        waiting = self.contracted.between(first.nodes[0], second.nodes[0])
        return None if waiting is None else (CYCLE, f"illegal: {CYCLE}: with the group {'+'.join(waiting.nodes)}")

    def _edge(self, both: tuple[Unit, Unit], stopped: tuple[str, str] | None) -> Decision:
        if stopped is not None:
            return Decision("", "", "split", {}, None, None, stopped[1], category=stopped[0])
        pool, nodes = self.pool, self.graph.order(_union(both))
        fused, apart = pool.seconds(nodes), sum(pool.seconds(unit.nodes) for unit in both)
        category, reason = self._unprofitable(both, nodes, fused - apart)
        predicted = {"fused": fused * 1e6, "unfused": apart * 1e6}
        return Decision("", "", "split", predicted, None, None, reason, category=category)

    def _unprofitable(self, both: tuple[Unit, Unit], nodes: Sequence[str], loss: float) -> tuple[str, str]:
        graph = self.graph
        failure = self.pool.failure(nodes)
        if failure is not None:
            return UNSCHEDULED, f"no schedule for both in one kernel: {failure}"
        measured = self.pool.measured(nodes)
        if measured is not None and loss > 0:
            return MEASURED_SLOWER, f"measured {duration(loss)} slower in one kernel"
        for unit in both:
            if not unit.extendable:
                return EXCLUSIVE, f"the schedule of {'+'.join(unit.nodes)} ({unit.rule}) serves that pattern alone"
        if contraction_family(graph, nodes) == "unscheduled":
            return TWO_CONTRACTIONS, "two contractions in a row: no schedule keeps both fast in one kernel"
        repeated = recompute_text(graph, nodes)
        if repeated and loss > 0:
            return RECOMPUTE, f"{repeated}: fused is predicted {duration(loss)} slower"
        for unit in both:
            if is_view(graph, unit.nodes):
                return VIEW, "a reshape on its own is a view and costs nothing to leave apart"
        if loss > 0:
            return SLOWER, f"fused is predicted {duration(loss)} slower{self._why_slower(both)}"
        nodes_key = frozenset(nodes)
        if nodes_key in self.pool.proposed or nodes_key in self.pool.units:
            return OUTBID, f"other groupings of the two are predicted faster, though this one saves {duration(-loss)}"
        return NO_RULE, f"no rule proposes the pair{self._why_slower(both)}; predicted to save {duration(-loss)}"

    def _why_slower(self, both: tuple[Unit, Unit]) -> str:
        kinds = [{self.graph.node(node).kind for node in unit.nodes} for unit in both]
        if any("contraction" in k for k in kinds) and any("reduction" in k for k in kinds):
            return ": a reduction needs whole rows of the product, which breaks the contraction's tiles"
        if any("injective" in k for k in kinds) and any(k & {"contraction", "reduction"} for k in kinds):
            return ": a layout change at the edge of a reduction or contraction would break its vectors and tiles"
        if all("reduction" in k for k in kinds):
            return ": each reduction is a pass of its own, so nothing but a launch would be saved"
        return ""


def _union(both: tuple[Unit, Unit]) -> Nodes:
    return frozenset((*both[0].nodes, *both[1].nodes))
