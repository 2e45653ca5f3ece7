"""Softmax with what scales and masks its input."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph import Graph
from ..matching import producers_chain
from ._base import Candidate, Rule


class Softmax(Rule):
    """``softmax(where(mask, x / 8, -inf))`` -> one kernel, a row at a time."""

    name = "softmax"
    kind = "vertical"
    summary = "softmax with the scale, mask and casts in front of it"

    def propose(self, graph: Graph) -> Iterator[Candidate]:
        for node in graph.nodes:
            if node.op not in ("nn.softmax", "nn.log_softmax"):
                continue
            before = producers_chain(graph, node.inputs[0])
            if before:
                ops = ", ".join(graph.node(n).op for n in before)
                reason = f"{ops} applied to the row that the softmax has in cache"
                yield Candidate(self.name, self.kind, graph.order(frozenset((*before, node.id))), reason)
