"""Gated linear units: two matmuls of one input, one through an activation, multiplied (Shazeer 2020)."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph import Graph, Node
from ..matching import activations, bias_of, other_operand, produced_by, used_only_by
from ._base import Candidate, Rule


class SwiGLU(Rule):
    """``silu(x @ W) * (x @ V)`` -> one kernel that reads x once and keeps both products in registers."""

    name = "swiglu"
    kind = "vertical"
    summary = "silu(x @ W) * (x @ V), also with biases, and with GELU for silu"

    def propose(self, graph: Graph) -> Iterator[Candidate]:
        for matches in activations(graph).values():
            for gate in matches:
                if graph.node(gate.nodes[0]).op not in ("nn.silu", "sigmoid", "nn.gelu", "nn.gelu_tanh", "erf"):
                    continue
                for product in graph.users(gate.output):
                    up = other_operand(product, gate.output)
                    if product.op != "multiply" or up is None:
                        continue
                    left, right = linear(graph, gate.source), linear(graph, up)
                    if left is None or right is None or left[0].inputs[0] != right[0].inputs[0]:
                        continue
                    nodes = graph.order({n.id for n in (*left, *right)} | {*gate.nodes, product.id})
                    if not _closed(graph, nodes, product):
                        continue
                    reason = "gate and up projection share their input; the gate is applied to tiles in registers"
                    yield Candidate(self.name, self.kind, nodes, reason, private=nodes[:-1])


def linear(graph: Graph, name: str) -> tuple[Node, ...] | None:
    """The matmul (and bias add) that makes a value, matmul first; None when something else does."""
    matmul = produced_by(graph, name, "matmul")
    if matmul is not None:
        return (matmul,)
    add = produced_by(graph, name, "add")
    for operand in add.inputs if add is not None else ():
        matmul = produced_by(graph, operand, "matmul")
        if add is not None and matmul is not None and bias_of(graph, matmul, add, operand) is not None:
            return (matmul, add)
    return None


def _closed(graph: Graph, nodes: tuple[str, ...], product: Node) -> bool:
    inner = [out for node in nodes if node != product.id for out in graph.node(node).outputs]
    return all(used_only_by(graph, out, nodes) for out in inner)
