"""A matmul or convolution with what follows it element by element: bias, activation, scale, residual."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...graph import Graph, Node
from ..categories import ESCAPES, OPERATOR, SHAPE
from ..matching import (
    CONVOLUTIONS,
    Match,
    activation_of,
    activations,
    bias_of,
    channel_axis,
    depends,
    is_renaming,
    only_user,
    other_operand,
    residual_of,
    scalar,
    skip_renaming_down,
)
from ._base import Candidate, Refusal, Rule


@dataclass(frozen=True)
class Step:
    """One step of an epilogue: its nodes, what it makes, and what it is called."""

    nodes: tuple[str, ...]
    output: str
    part: str


class BiasActivation(Rule):
    """``gelu(x @ W + b)`` -> one kernel. Each prefix is a candidate of its own."""

    name = "bias_activation"
    kind = "vertical"
    summary = "matmul or convolution with bias, activation, scale and residual add as its epilogue"
    example = """
        x: float32[256, 1024]
        r: float32[256, 4096]
        W: float32[1024, 4096] = const
        b: float32[4096] = const
        product: float32[256, 4096] = matmul(x, W)
        biased: float32[256, 4096] = add(product, b)
        active: float32[256, 4096] = nn.gelu(biased)
        scaled: float32[256, 4096] = multiply(active, 0.5)
        y: float32[256, 4096] = add(r, scaled)
        return y"""

    def propose(self, graph: Graph) -> Iterator[Candidate | Refusal]:
        known = activations(graph)
        for anchor in graph.nodes:
            if anchor.op == "matmul" or anchor.op in CONVOLUTIONS:
                yield from self._epilogues(graph, anchor, known)

    def _epilogues(
        self, graph: Graph, anchor: Node, known: dict[str, tuple[Match, ...]]
    ) -> Iterator[Candidate | Refusal]:
        nodes: tuple[str, ...] = (anchor.id,)
        parts = [anchor.op.removeprefix("nn.")]
        value = anchor.outputs[0]
        while (step := _next(graph, anchor, value, known, parts)) is not None:
            nodes, value, parts = graph.order((*nodes, *step.nodes)), step.output, [*parts, step.part]
            reason = f"{' + '.join(parts)}: the epilogue works on the tile while it is in registers"
            yield Candidate(self.name, self.kind, nodes, reason)
        if graph.users(value):
            category, detail, reader = _end(graph, anchor, value)
            yield Refusal(self.name, graph.order((*nodes, reader)), category, detail)


def _next(graph: Graph, anchor: Node, value: str, known: dict[str, tuple[Match, ...]], parts: list[str]) -> Step | None:
    """The next step of the epilogue; None at its end."""
    here, passed = skip_renaming_down(graph, value)
    for start, before in ((value, ()), (here, passed)) if passed else ((value, ()),):
        activation = activation_of(graph, known, start)
        if activation is not None:
            part = graph.node(activation.nodes[0]).op.removeprefix("nn.")
            return Step((*before, *activation.nodes), activation.output, part)
        user = only_user(graph, start)
        part = "" if user is None else _part(graph, anchor, user, start, parts)
        if user is not None and part:
            return Step((*before, user.id), user.outputs[0], part)
    return None


def _part(graph: Graph, anchor: Node, user: Node, value: str, parts: list[str]) -> str:
    """What an operator that alone reads a value is in an epilogue; "" when it is none of it."""
    if "bias" not in parts and bias_of(graph, anchor, user, value) is not None:
        return "bias"
    if residual_of(graph, anchor, user, value) is not None:
        return "residual"
    other = other_operand(user, value)
    scales = user.op == "multiply" or (user.op == "divide" and user.inputs[0] == value)
    if other is None or not scales or graph.values[user.outputs[0]].shape != graph.values[value].shape:
        return ""
    return "scale" if scalar(graph, other) is not None or _by_channel(graph, anchor, other, value) else ""


def _by_channel(graph: Graph, anchor: Node, factor: str, value: str) -> bool:
    """Whether a constant runs along the output channels only."""
    given, shape = graph.values[factor], graph.values[value].shape
    padded = (1,) * (len(shape) - len(given.shape)) + given.shape
    wide = [i for i, extent in enumerate(padded) if extent != 1]
    return given.is_constant and len(shape) > 0 and wide == [channel_axis(anchor, len(shape))]


def _end(graph: Graph, anchor: Node, value: str) -> tuple[str, str, str]:
    """Why an epilogue ends at a value that somebody reads: category, detail, reader."""
    value, _ = skip_renaming_down(graph, value)
    readers = graph.users(value)
    made = graph.producer(value)
    title = made.op if made is not None else anchor.op
    if not readers:
        return OPERATOR, f"{title} is followed by reshapes alone", made.id if made is not None else anchor.id
    reader = readers[0]
    if len(readers) > 1 or graph.is_output(value):
        also = " and is an output of the model" if graph.is_output(value) else ""
        names = ", ".join(user.id for user in readers[:4])
        return ESCAPES, f"{value} of {title} is read by {names}{also}", reader.id
    where, other = f"{reader.op} ({reader.id})", other_operand(reader, value)
    if reader.op in ("add", "multiply", "divide") and other is not None and not is_renaming(graph, reader):
        if depends(graph, other, anchor):
            return ESCAPES, f"the other operand of {where} needs the result of {anchor.id}", reader.id
        shapes = [list(graph.values[name].shape) for name in (value, other)]
        return SHAPE, f"{where} of {shapes[0]} and {shapes[1]} is no bias, scale or residual", reader.id
    return OPERATOR, f"{where} is no bias, activation, scale or residual", reader.id
