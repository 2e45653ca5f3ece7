"""Convolution and batch normalisation in inference form, folded into the weights, with what follows."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph import Graph, Node
from ..categories import ATTRIBUTE, ESCAPES, NOT_CONSTANT, OPERATOR
from ..matching import Match, Why, activation_of, activations, made_by, only_user, readers_outside, residual_of
from ._base import Candidate, Refusal, Rule


class ConvBnRelu(Rule):
    """``relu(batch_norm(conv2d(x, W)))`` -> one convolution with scaled weights, a bias and a ReLU."""

    name = "conv_bn_relu"
    kind = "vertical"
    summary = "conv2d + batch_norm (folded into the weights) + optional residual add + relu, clip or silu"
    example = """
        x: float32[1, 64, 56, 56]
        W: float32[64, 64, 3, 3] = const
        gamma: float32[64] = const
        beta: float32[64] = const
        mean: float32[64] = const
        var: float32[64] = const
        conv: float32[1, 64, 56, 56] = nn.conv2d(x, W){padding=(1, 1, 1, 1)}
        bn: (norm: float32[1, 64, 56, 56]) = nn.batch_norm(conv, gamma, beta, mean, var){axis=1, epsilon=1e-05}
        sum: float32[1, 64, 56, 56] = add(norm, x)
        y: float32[1, 64, 56, 56] = nn.relu(sum)
        return y"""

    def propose(self, graph: Graph) -> Iterator[Candidate | Refusal]:
        known = activations(graph)
        for norm in graph.nodes:
            if norm.op != "nn.batch_norm":
                continue
            conv = graph.producer(norm.inputs[0])
            why = _unfoldable(graph, conv, norm)
            if conv is None or why is not None:
                near = (norm.id,) if conv is None else (conv.id, norm.id)
                yield Refusal(self.name, near, *(why or (OPERATOR, "")))
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


def _unfoldable(graph: Graph, conv: Node | None, norm: Node) -> Why | None:
    """Why a batch norm does not fold into a convolution; None when it does.

    It takes constant weights and statistics, and nobody may read the statistics that training would update.
    """
    if conv is None or conv.op != "nn.conv2d":
        return OPERATOR, f"{made_by(graph, norm.inputs[0])} where nn.conv2d is expected"
    if only_user(graph, norm.inputs[0]) is not norm:
        return ESCAPES, readers_outside(graph, conv, frozenset({norm.id}))
    if norm.attrs.get("training") is True:
        return ATTRIBUTE, f"training of nn.batch_norm ({norm.id}) is True"
    for out in norm.outputs[1:]:
        if graph.users(out) or graph.is_output(out):
            return ESCAPES, f"{out}, a statistic of {norm.id}, is read"
    for name in (conv.inputs[1], *norm.inputs[1:5]):
        if not graph.values[name].is_constant:
            return NOT_CONSTANT, f"{made_by(graph, name).rstrip(',')} where a constant is expected"
    return None


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
