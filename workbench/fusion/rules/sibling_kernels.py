"""Small kernels that have nothing to do with each other, in one launch (horizontal fusion, Li et al. 2022)."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph import Graph
from ..categories import DISCONNECTED, SIZE_LIMIT
from ._base import Candidate, Refusal, Rule
from ._siblings import Sibling, batches, pointwise, rowwise

SMALL = 256 << 10  # bytes that a kernel moves; above, its launch is little next to its work


class SiblingKernels(Rule):
    """``a * 2, b + c`` of equal shape -> one kernel with two results, launched once."""

    name = "sibling_kernels"
    kind = "horizontal"
    summary = "independent small elementwise or reduction kernels of equal shape in one launch"
    extendable = False
    example = """
        a: float32[64, 64]
        b: float32[64, 64]
        c: float32[64, 64]
        p: float32[64, 64] = multiply(a, 2.0)
        q: float32[64, 64] = nn.relu(p)
        r: float32[64, 64] = add(b, c)
        s: float32[64] = sum(a){axis=(1,)}
        t: float32[64] = max(b){axis=(1,)}
        return q, r, s, t"""

    def propose(self, graph: Graph) -> Iterator[Candidate | Refusal]:
        alike: dict[tuple[object, ...], list[Sibling]] = {}
        for one in (*pointwise(graph), *rowwise(graph)):
            alike.setdefault(one.loops, []).append(one)
        for siblings in alike.values():
            if len(siblings) < 2:
                continue
            small = [one for one in siblings if one.moved <= SMALL]
            batched = list(batches(graph, small))
            for batch in batched:
                nodes = graph.order(node for one in batch for node in one.nodes)
                yield Candidate(self.name, self.kind, nodes, f"{len(batch)} small kernels of equal shape in one launch")
            taken = {one for batch in batched for one in batch}
            for one in siblings:
                if one.moved > SMALL:
                    moved = f"moves {one.moved >> 10} KiB, more than {SMALL >> 10}: a launch is little next to that"
                    yield Refusal(self.name, one.nodes, SIZE_LIMIT, moved)
                elif one not in taken:
                    alone = "every kernel of equal shape needs its result, or gives it what it needs"
                    yield Refusal(self.name, one.nodes, DISCONNECTED, alone)
