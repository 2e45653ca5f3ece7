"""Matmuls that share their left input become one kernel (the query, key and value projections)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ...graph import Graph, Node
from ..categories import CYCLE, RANK
from ..legality import Reachability
from ..matching import bias_of, only_user
from ._base import Candidate, Refusal, Rule

MAX_SIBLINGS = 8


class ParallelMatmul(Rule):
    """``x @ Wq + bq, x @ Wk + bk, x @ Wv + bv`` -> one kernel with three outputs that reads x once."""

    name = "parallel_matmul"
    kind = "horizontal"
    summary = "several matmuls (with bias) of one shared input in one kernel"
    extendable = False
    example = """
        x: float32[256, 512]
        Wq: float32[512, 512] = const
        bq: float32[512] = const
        Wk: float32[512, 128] = const
        Wv: float32[512, 128] = const
        product: float32[256, 512] = matmul(x, Wq)
        q: float32[256, 512] = add(product, bq)
        k: float32[256, 128] = matmul(x, Wk)
        v: float32[256, 128] = matmul(x, Wv)
        return q, k, v"""

    def propose(self, graph: Graph) -> Iterator[Candidate | Refusal]:
        shared: dict[str, list[Node]] = {}
        for node in graph.nodes:
            if node.op == "matmul":
                shared.setdefault(node.inputs[0], []).append(node)
        for name, readers in shared.items():
            matmuls = [node for node in readers if len(graph.values[node.inputs[1]].shape) == 2]
            yield from self._refusals(graph, name, readers, matmuls)
            for siblings in _independent(graph, matmuls):
                nodes = [node.id for node in siblings]
                for matmul in siblings:
                    add = only_user(graph, matmul.outputs[0])
                    if add is not None and bias_of(graph, matmul, add, matmul.outputs[0]) is not None:
                        nodes.append(add.id)
                reason = f"{len(siblings)} matmuls read {name} once, in one launch"
                yield Candidate(self.name, self.kind, graph.order(frozenset(nodes)), reason)

    def _refusals(self, graph: Graph, name: str, readers: list[Node], matmuls: list[Node]) -> Iterator[Refusal]:
        reach = Reachability.of(graph)
        for node in readers if len(readers) > 1 else ():
            rank = len(graph.values[node.inputs[1]].shape)
            if node not in matmuls:
                detail = f"the second operand of matmul ({node.id}) has rank {rank}, 2 is expected"
                yield Refusal(self.name, (node.id,), RANK, detail)
        for first, second in pairwise(matmuls):
            if reach.depends(second.id, first.id):
                detail = f"{second.id} reads {name} too, but needs the result of {first.id}"
                yield Refusal(self.name, (first.id, second.id), CYCLE, detail)


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
