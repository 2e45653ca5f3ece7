"""A reduction with the elementwise operators before and after it."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph import Graph, Node
from ..categories import CYCLE, OPERATOR, RECOMPUTE, SHAPE, SIZE_LIMIT
from ..legality import Reachability
from ..matching import Why, is_renaming, no_producers, producers_chain
from ._base import Candidate, Refusal, Rule

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

    example = """
        x: float32[2048, 1024]
        g: float32[1024] = const
        squares: float32[2048, 1024] = multiply(x, x)
        mean: float32[2048, 1] = mean(squares){axis=(-1,), keepdims=True}
        shifted: float32[2048, 1] = add(mean, 1e-05)
        scale: float32[2048, 1] = rsqrt(shifted)
        normal: float32[2048, 1024] = multiply(x, scale)
        y: float32[2048, 1024] = multiply(normal, g)
        return y"""

    def propose(self, graph: Graph) -> Iterator[Candidate | Refusal]:
        for node in graph.nodes:
            if node.op in ROWWISE:
                before = producers_chain(graph, node.inputs[0])
            elif node.op in POOLING:
                before = ()
            else:
                continue
            epilogue = _grow(graph, node, frozenset((*before, node.id)))
            yield from self._refusals(graph, node, before, epilogue)
            for nodes, part in ((before, "producers"), (epilogue, "epilogue"), ((*before, *epilogue), "both sides")):
                whole = graph.order(frozenset((*nodes, node.id)))
                if len(whole) > 1:
                    reason = f"{node.op} with {part} in the row or window that it has in cache"
                    yield Candidate(self.name, self.kind, whole, reason)

    def _refusals(
        self, graph: Graph, node: Node, before: tuple[str, ...], epilogue: tuple[str, ...]
    ) -> Iterator[Refusal]:
        producer = graph.producer(node.inputs[0])
        if producer is not None and not before:
            category, detail = no_producers(graph, node.inputs[0])
            if node.op in POOLING:
                category, detail = (
                    RECOMPUTE,
                    f"{producer.op} ({producer.id}) would be computed once a window of {node.op}",
                )
            yield Refusal(self.name, (producer.id, node.id), category, detail)
        for user in graph.successors(node.id):
            if user.id not in epilogue:
                yield Refusal(self.name, (node.id, user.id), *_no_epilogue(graph, node, user))


def _no_epilogue(graph: Graph, node: Node, user: Node) -> Why:
    """Why the reader of a reduction is not in its epilogue."""
    if user.kind not in ("elementwise", "broadcast") and not is_renaming(graph, user):
        return OPERATOR, f"{user.op} ({user.id}) reads {node.op} where elementwise or broadcast is expected"
    made, row = graph.values[user.outputs[0]], graph.values[node.inputs[0]]
    if made.size > row.size:
        return SHAPE, f"{user.op} ({user.id}) has shape {list(made.shape)}, larger than the reduced {list(row.shape)}"
    if between := Reachability.of(graph).between((node.id, user.id)):
        return CYCLE, f"{between[0]} lies between {node.id} and {user.id}"
    return SIZE_LIMIT, f"{MAX_NODES} operators are the most in one group"


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
