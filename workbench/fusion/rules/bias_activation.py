"""A matmul or convolution with what follows it element by element: bias, activation, scale, residual."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph import Graph, Node
from ..matching import (
    CONVOLUTIONS,
    Match,
    activation_of,
    activations,
    bias_of,
    only_user,
    residual_of,
    scalar,
    skip_renaming_down,
)
from ._base import Candidate, Rule


class BiasActivation(Rule):
    """``gelu(x @ W + b)`` -> one kernel. Each prefix is a candidate of its own."""

    name = "bias_activation"
    kind = "vertical"
    summary = "matmul or convolution with bias, activation, scale and residual add as its epilogue"

    def propose(self, graph: Graph) -> Iterator[Candidate]:
        known = activations(graph)
        for anchor in graph.nodes:
            if anchor.op == "matmul" or anchor.op in CONVOLUTIONS:
                yield from self._epilogues(graph, anchor, known)

    def _epilogues(self, graph: Graph, anchor: Node, known: dict[str, tuple[Match, ...]]) -> Iterator[Candidate]:
        nodes: tuple[str, ...] = (anchor.id,)
        parts = [anchor.op.removeprefix("nn.")]
        value = anchor.outputs[0]
        while (step := _next(graph, anchor, value, known, parts)) is not None:
            passed, value, part = step
            nodes = graph.order(frozenset((*nodes, *passed)))
            parts.append(part)
            reason = f"{' + '.join(parts)}: the epilogue works on the tile while it is in registers"
            yield Candidate(self.name, self.kind, nodes, reason)


def _next(
    graph: Graph, anchor: Node, value: str, known: dict[str, tuple[Match, ...]], parts: list[str]
) -> tuple[tuple[str, ...], str, str] | None:
    """The next step of the epilogue: (nodes, result, what it is), or None at its end."""
    here, passed = skip_renaming_down(graph, value)
    for start, before in ((value, ()), (here, passed)) if passed else ((value, ()),):
        activation = activation_of(graph, known, start)
        if activation is not None:
            return (
                (*before, *activation.nodes),
                activation.output,
                graph.node(activation.nodes[0]).op.removeprefix("nn."),
            )
        user = only_user(graph, start)
        if user is None:
            continue
        if "bias" not in parts and bias_of(graph, anchor, user, start) is not None:
            return (*before, user.id), user.outputs[0], "bias"
        if residual_of(graph, anchor, user, start) is not None:
            return (*before, user.id), user.outputs[0], "residual"
        constant = scalar(graph, user.inputs[-1]) if len(user.inputs) == 2 else None
        if user.op == "divide" and user.inputs[0] == start and constant is not None:
            return (*before, user.id), user.outputs[0], "scale"
        if user.op == "multiply" and any(scalar(graph, name) is not None for name in user.inputs):
            return (*before, user.id), user.outputs[0], "scale"
    return None
