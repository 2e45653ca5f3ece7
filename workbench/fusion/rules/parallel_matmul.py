"""Matmuls that share their left input become one kernel (the query, key and value projections)."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph import Graph, Node
from ..legality import Reachability
from ..matching import bias_of, only_user
from ._base import Candidate, Rule

MAX_SIBLINGS = 8


class ParallelMatmul(Rule):
    """``x @ Wq + bq, x @ Wk + bk, x @ Wv + bv`` -> one kernel with three outputs that reads x once."""

    name = "parallel_matmul"
    kind = "horizontal"
    summary = "several matmuls (with bias) of one shared input in one kernel"
    extendable = False

    def propose(self, graph: Graph) -> Iterator[Candidate]:
        shared: dict[str, list[Node]] = {}
        for node in graph.nodes:
            if node.op == "matmul" and len(graph.values[node.inputs[1]].shape) == 2:
                shared.setdefault(node.inputs[0], []).append(node)
        for name, matmuls in shared.items():
            for siblings in _independent(graph, matmuls):
                nodes = [node.id for node in siblings]
                for matmul in siblings:
                    add = only_user(graph, matmul.outputs[0])
                    if add is not None and bias_of(graph, matmul, add, matmul.outputs[0]) is not None:
                        nodes.append(add.id)
                reason = f"{len(siblings)} matmuls read {name} once, in one launch"
                yield Candidate(self.name, self.kind, graph.order(frozenset(nodes)), reason)


def _independent(graph: Graph, matmuls: list[Node]) -> list[list[Node]]:
    """Split into sets in which no matmul needs another's result; sets of one are left out."""
    reach = Reachability.of(graph)
    sets: list[list[Node]] = []
    for matmul in matmuls:
        for siblings in sets:
            free = all(not reach.depends(matmul.id, other.id) for other in siblings)
            if free and len(siblings) < MAX_SIBLINGS:
                siblings.append(matmul)
                break
        else:
            sets.append([matmul])
    return [siblings for siblings in sets if len(siblings) > 1]
