"""Gated linear units: two matmuls of one input, one through an activation, multiplied (Shazeer 2020)."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph import Graph
from ..matching import Match, activations, bias_of
from ..patterns import anything, op, region
from ._pattern import PatternRule

GATES = ("nn.silu", "sigmoid", "nn.gelu", "nn.gelu_tanh", "erf")


def gates(graph: Graph) -> Iterator[Match]:
    """Activations that gate: SiLU and GELU, as operators or written out, and sigmoid."""
    for matches in activations(graph).values():
        yield from (match for match in matches if graph.node(match.nodes[0]).op in GATES)


def linear_layers(graph: Graph) -> Iterator[Match]:
    """Each matmul, and each matmul with its bias."""
    for node in graph.nodes:
        if node.op == "matmul":
            product = node.outputs[0]
            yield Match(node.inputs[0], (node.id,), product)
            for add in graph.users(product):
                if bias_of(graph, node, add, product) is not None:
                    yield Match(node.inputs[0], (node.id, add.id), add.outputs[0])


_x = anything("x")
_linear = region(linear_layers, _x)
PATTERN = op("multiply", inputs=[region(gates, _linear), _linear])


class SwiGLU(PatternRule):
    """``silu(x @ W) * (x @ V)`` -> one kernel that reads x once and keeps both products in registers."""

    def __init__(self) -> None:
        super().__init__(
            name="swiglu",
            pattern=PATTERN,
            summary="silu(x @ W) * (x @ V), also with biases, and with GELU for silu",
            reason="gate and up projection share their input; the gate is applied to tiles in registers",
            near=2,
            example="""
                x: float32[128, 512]
                W: float32[512, 1408] = const
                V: float32[512, 1408] = const
                gate: float32[128, 1408] = matmul(x, W)
                up: float32[128, 1408] = matmul(x, V)
                silu: float32[128, 1408] = nn.silu(gate)
                y: float32[128, 1408] = multiply(silu, up)
                return y""",
        )
