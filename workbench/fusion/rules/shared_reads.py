"""Elementwise kernels that read the same large tensor, in one pass over it."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph import Graph
from ..categories import CYCLE, SHAPE
from ..legality import Reachability
from ._base import Candidate, Refusal, Rule
from ._siblings import Sibling, batches, pointwise, related
from .sibling_kernels import SMALL


class SharedReads(Rule):
    """``relu(x), tanh(x)`` -> one kernel with two results that reads x once."""

    name = "shared_reads"
    kind = "horizontal"
    summary = "elementwise kernels that read the same large tensor in one kernel with several results"
    example = """
        x: float32[1024, 1024]
        y: float32[1024, 1024]
        W: float32[1024, 64] = const
        p: float32[1024, 1024] = nn.relu(x)
        q: float32[1024, 1024] = add(x, y)
        r: float32[1024, 1024] = tanh(q)
        m: float32[1024, 64] = matmul(x, W)
        return p, r, m"""

    def propose(self, graph: Graph) -> Iterator[Candidate | Refusal]:
        readers: dict[str, list[Sibling]] = {}
        for one in pointwise(graph):
            for name in one.inputs:
                value = graph.values[name]
                if not value.is_constant and value.bytes > SMALL:
                    readers.setdefault(name, []).append(one)
        seen: set[tuple[str, ...]] = set()
        for name, siblings in readers.items():
            if len(siblings) > 1:
                yield from self._of(graph, name, siblings, seen)

    def _of(
        self, graph: Graph, name: str, siblings: list[Sibling], seen: set[tuple[str, ...]]
    ) -> Iterator[Candidate | Refusal]:
        alike: dict[tuple[object, ...], list[Sibling]] = {}
        for one in siblings:
            alike.setdefault(one.loops, []).append(one)
        for group in alike.values():
            for batch in batches(graph, group):
                nodes = graph.order(node for one in batch for node in one.nodes)
                if nodes not in seen:
                    seen.add(nodes)
                    yield Candidate(self.name, self.kind, nodes, f"{len(batch)} kernels read {name} once")
        reach, first = Reachability.of(graph), siblings[0]
        for one in siblings[1:]:
            if one.loops != first.loops:
                shapes = [list(graph.values[each.outputs[0]].shape) for each in (first, one)]
                detail = f"{shapes[0]} and {shapes[1]}, both made from {name}, need loops of their own"
                yield Refusal(self.name, graph.order((*first.nodes, *one.nodes)), SHAPE, detail)
            elif related(reach, first) & reach.mask(one.nodes):
                detail = f"{one.nodes[0]} reads {name} too, but is not independent of {first.nodes[0]}"
                yield Refusal(self.name, graph.order((*first.nodes, *one.nodes)), CYCLE, detail)
