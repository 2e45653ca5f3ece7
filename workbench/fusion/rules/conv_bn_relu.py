"""Convolution and batch normalisation in inference form, folded into the weights, with what follows."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph import Graph, Node
from ..matching import Match, activation_of, activations, only_user, residual_of
from ._base import Candidate, Rule


class ConvBnRelu(Rule):
    """``relu(batch_norm(conv2d(x, W)))`` -> one convolution with scaled weights, a bias and a ReLU."""

    name = "conv_bn_relu"
    kind = "vertical"
    summary = "conv2d + batch_norm (folded into the weights) + optional residual add + relu, clip or silu"

    def propose(self, graph: Graph) -> Iterator[Candidate]:
        known = activations(graph)
        for conv in graph.nodes:
            norm = only_user(graph, conv.outputs[0]) if conv.op == "nn.conv2d" else None
            if norm is None or not _foldable(graph, conv, norm):
                continue
            nodes: tuple[str, ...] = (conv.id, norm.id)
            parts, value = ["conv2d", "batch_norm"], norm.outputs[0]
            yield self._candidate(graph, nodes, parts)
            while (step := _next(graph, conv, value, known)) is not None:
                passed, value, part = step
                nodes = graph.order(frozenset((*nodes, *passed)))
                parts = [*parts, part]
                yield self._candidate(graph, nodes, parts)

    def _candidate(self, graph: Graph, nodes: tuple[str, ...], parts: list[str]) -> Candidate:
        reason = f"{' + '.join(parts)}: the normalisation disappears into the weights"
        return Candidate(self.name, self.kind, graph.order(nodes), reason, "fold_batchnorm", nodes[:1])


def _foldable(graph: Graph, conv: Node, norm: Node) -> bool:
    """Constant weight and statistics, and nobody reads the statistics that training would update."""
    if norm.op != "nn.batch_norm" or norm.inputs[0] != conv.outputs[0] or norm.attrs.get("training") is True:
        return False
    constants = (conv.inputs[1], *norm.inputs[1:5])
    unread = all(not graph.users(out) and not graph.is_output(out) for out in norm.outputs[1:])
    return unread and all(graph.values[name].data is not None for name in constants)


def _next(
    graph: Graph, conv: Node, value: str, known: dict[str, tuple[Match, ...]]
) -> tuple[tuple[str, ...], str, str] | None:
    activation = activation_of(graph, known, value)
    if activation is not None:
        return activation.nodes, activation.output, graph.node(activation.nodes[0]).op.removeprefix("nn.")
    user = only_user(graph, value)
    if user is not None and residual_of(graph, conv, user, value) is not None:
        return (user.id,), user.outputs[0], "residual"
    return None
