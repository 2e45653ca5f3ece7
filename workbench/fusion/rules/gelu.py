"""GELU, written out with erf or tanh, or as one operator with its elementwise producers."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph import Graph, Node
from ..matching import Match, gelu_at, no_producers, producers_chain
from ._base import Candidate, Refusal, Rule


class Gelu(Rule):
    """``0.5*x*(1 + tanh(sqrt(2/pi)*(x + 0.044715*x^3)))`` -> one kernel that reads x once."""

    name = "gelu"
    kind = "vertical"
    summary = "GELU: the tanh form and the erf form written out, or nn.gelu with its elementwise producers"
    example = """
        x: float32[2048, 2048]
        b: float32[2048] = const
        a: float32[2048, 2048] = add(x, b)
        scaled: float32[2048, 2048] = divide(a, 1.41421356)
        curve: float32[2048, 2048] = erf(scaled)
        plus: float32[2048, 2048] = add(curve, 1.0)
        product: float32[2048, 2048] = multiply(a, plus)
        y: float32[2048, 2048] = multiply(product, 0.5)
        return y"""

    def propose(self, graph: Graph) -> Iterator[Candidate | Refusal]:
        curves = [node for node in graph.nodes if node.op in ("erf", "tanh")]
        for node in curves:
            found = gelu_at(graph, node)
            if isinstance(found, Match):
                yield from self._written_out(graph, found)
        for node in graph.nodes:
            if node.op in ("nn.gelu", "nn.gelu_tanh"):
                yield self._operator(graph, node)
        for node in curves:
            found = gelu_at(graph, node)
            if not isinstance(found, Match):
                near = (node.id, *(user.id for user in graph.users(node.outputs[0])[:1]))
                yield Refusal(self.name, graph.order(near), *found)

    def _written_out(self, graph: Graph, match: Match) -> Iterator[Candidate]:
        form = "erf" if any(graph.node(n).op == "erf" for n in match.nodes) else "tanh"
        reason = f"GELU, {form} form written out: {len(match.nodes)} operators that read one tensor"
        yield Candidate(self.name, self.kind, match.nodes, reason)
        # The last of the producers is read by GELU several times, which a chain of producers knows nothing of.
        source = graph.producer(match.source)
        inside = {user.id for user in graph.users(match.source)} <= set(match.nodes)
        if source is None or source.kind not in ("elementwise", "broadcast"):
            return
        if not inside or graph.is_output(match.source):
            return
        shape = graph.values[match.source].shape
        same = [name for name in source.inputs if graph.values[name].shape == shape]
        before = [source.id, *(n for name in same for n in producers_chain(graph, name))]
        nodes = graph.order((*before, *match.nodes))
        yield Candidate(self.name, self.kind, nodes, f"{reason}, with its producers")

    def _operator(self, graph: Graph, node: Node) -> Candidate | Refusal:
        before = producers_chain(graph, node.inputs[0])
        if not before:
            producer = graph.producer(node.inputs[0])
            near = (node.id,) if producer is None else (producer.id, node.id)
            return Refusal(self.name, near, *no_producers(graph, node.inputs[0]))
        reason = f"{node.op} applied where {graph.node(before[-1]).op} has its result in registers"
        return Candidate(self.name, self.kind, graph.order((*before, node.id)), reason)
