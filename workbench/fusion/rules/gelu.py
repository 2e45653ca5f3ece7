"""GELU, written out with erf or tanh, or as one operator with its elementwise producers."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph import Graph
from ..matching import gelus, producers_chain
from ._base import Candidate, Rule


class Gelu(Rule):
    """``0.5*x*(1 + tanh(sqrt(2/pi)*(x + 0.044715*x^3)))`` -> one kernel that reads x once."""

    name = "gelu"
    kind = "vertical"
    summary = "GELU: the tanh form and the erf form written out, or nn.gelu with its elementwise producers"

    def propose(self, graph: Graph) -> Iterator[Candidate]:
        for match in gelus(graph):
            form = "erf" if any(graph.node(n).op == "erf" for n in match.nodes) else "tanh"
            reason = f"GELU, {form} form written out: {len(match.nodes)} operators that read one tensor"
            yield Candidate(self.name, self.kind, match.nodes, reason)
            before = producers_chain(graph, match.source)
            if before and all(user.id in match.nodes for user in graph.users(match.source)):
                nodes = graph.order(frozenset((*before, *match.nodes)))
                yield Candidate(self.name, self.kind, nodes, f"{reason}, with its producers")
        for node in graph.nodes:
            before = producers_chain(graph, node.inputs[0]) if node.op in ("nn.gelu", "nn.gelu_tanh") else ()
            if before:
                reason = f"{node.op} applied where {graph.node(before[-1]).op} has its result in registers"
                yield Candidate(self.name, self.kind, graph.order(frozenset((*before, node.id))), reason)
