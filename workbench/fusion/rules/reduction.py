"""A reduction with the elementwise operators before and after it."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph import Graph, Node
from ..legality import Reachability
from ..matching import is_renaming, producers_chain
from ._base import Candidate, Rule

PLAIN = frozenset({"sum", "mean", "max", "min", "prod", "variance", "std"})
ROWWISE = PLAIN | {"nn.softmax", "nn.log_softmax", "nn.layer_norm", "nn.rms_norm", "nn.group_norm", "nn.instance_norm"}
POOLING = frozenset(f"nn.{kind}_pool{rank}d" for kind in ("max", "avg", "adaptive_avg") for rank in (1, 2, 3))
MAX_NODES = 16


class Reduction(Rule):
    """``sqrt(mean(x * x) + eps)`` -> one kernel; normalisations written out come out whole.

    A pooling window takes an epilogue but no producers: each of them would be computed once a window.
    """

    name = "reduction"
    kind = "vertical"
    summary = "elementwise producers and epilogue of a reduction; epilogue of a pooling"

    def propose(self, graph: Graph) -> Iterator[Candidate]:
        for node in graph.nodes:
            if node.op in ROWWISE:
                before = producers_chain(graph, node.inputs[0])
            elif node.op in POOLING:
                before = ()
            else:
                continue
            epilogue = _grow(graph, node, frozenset((*before, node.id)))
            for nodes, part in ((before, "producers"), (epilogue, "epilogue"), ((*before, *epilogue), "both sides")):
                whole = graph.order(frozenset((*nodes, node.id)))
                if len(whole) > 1:
                    reason = f"{node.op} with {part} in the row or window that it has in cache"
                    yield Candidate(self.name, self.kind, whole, reason)


def _grow(graph: Graph, reduction: Node, start: frozenset[str]) -> tuple[str, ...]:
    """Elementwise users of what is in the group, no larger than the reduction's input, as long as it stays convex.

    Further plain reductions of the same rows are taken along: the second pass of a variance.
    """
    reach = Reachability.of(graph)
    rows, size = reduction.space, graph.values[reduction.inputs[0]].size
    inside, grown = set(start), set[str]()
    frontier = list(graph.successors(reduction.id))
    while frontier and len(inside) < MAX_NODES:
        node = frontier.pop(0)
        if node.id in inside or graph.values[node.outputs[0]].size > size:
            continue
        again = reduction.op in PLAIN and node.op in PLAIN and node.space == rows
        if not (again or node.kind in ("elementwise", "broadcast") or is_renaming(graph, node)):
            continue
        if reach.between((*inside, node.id)):
            continue
        inside.add(node.id)
        grown.add(node.id)
        frontier += graph.successors(node.id)
    return tuple(grown)
