"""Small pieces that rules are written with: who uses a value, constants, factors of a product, activations.

Everything works on value names of a :class:`~workbench.graph.Graph` and returns node ids, so a rule reads as
"the one multiply that uses this, its other operand, a constant 0.5".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..graph import Graph, Node
from .categories import ATTRIBUTE, ESCAPES, OPERATOR, SHAPE
from .legality import Reachability

INJECTIVE_KINDS = frozenset({"elementwise", "broadcast", "injective"})
# Layout operators that only rename indices: inlining one costs no arithmetic and no gather.
LAYOUT = frozenset(
    {
        "reshape",
        "permute_dims",
        "expand_dims",
        "squeeze",
        "flatten",
        "broadcast_to",
        "strided_slice",
        "nn.batch_flatten",
    }
)
RENAMING = frozenset({"reshape", "expand_dims", "squeeze", "flatten", "broadcast_to", "nn.batch_flatten"})
CONVOLUTIONS = frozenset({"nn.conv1d", "nn.conv2d", "nn.conv3d"})
ACTIVATIONS = frozenset({
    "nn.relu", "nn.silu", "nn.gelu", "nn.gelu_tanh", "nn.leakyrelu", "nn.selu", "nn.softplus", "clip", "tanh",
    "sigmoid", "erf", "exp",
})  # fmt: skip


@dataclass(frozen=True)
class Match:
    """Nodes that compute ``output`` from ``source`` (both value names)."""

    source: str
    nodes: tuple[str, ...]
    output: str


Why = tuple[str, str]  # category and detail of what stopped a rule


def made_by(graph: Graph, name: str) -> str:
    """``matmul (lv3)`` for what produces a value, or what else the value is."""
    node = graph.producer(name)
    if node is not None:
        return f"{node.op} ({node.id})"
    return f"{name}, {'a constant' if graph.values[name].is_constant else 'an input'},"


def readers_outside(graph: Graph, node: Node, nodes: frozenset[str]) -> str:
    """``lv3 of add is read by lv7 too`` when somebody outside of ``nodes`` reads a result of the node; else ""."""
    for out in node.outputs:
        others = [user.id for user in graph.users(out) if user.id not in nodes]
        if others:
            return f"{out} of {node.op} is read by {', '.join(others[:3])} too"
        if graph.is_output(out):
            return f"{out} of {node.op} is an output of the model"
    return ""


def first_escape(graph: Graph, nodes: Iterable[str], output: str) -> Why | None:
    """The first inner value, in program order, that is read outside of the nodes; ``output`` may be."""
    inside = frozenset(nodes)
    for name in graph.order(inside):
        node = graph.node(name)
        if output not in node.outputs and (outside := readers_outside(graph, node, inside)):
            return ESCAPES, outside
    return None


def scalar(graph: Graph, name: str) -> float | None:
    """The number in a constant of one element, or None for any other value."""
    value = graph.values[name]
    if value.data is None or value.data.size != 1:
        return None
    return float(value.data.reshape(()))


def close(number: float | None, expected: float) -> bool:
    """Whether a constant is the expected one, to the digits that frameworks write out."""
    return number is not None and math.isclose(number, expected, rel_tol=2e-4)


def produced_by(graph: Graph, name: str, *ops: str) -> Node | None:
    """The producer of a value when it is one of ``ops``."""
    node = graph.producer(name)
    return node if node is not None and node.op in ops else None


def only_user(graph: Graph, name: str) -> Node | None:
    """The single reader of a value that is no output of the graph; None otherwise."""
    users = graph.users(name)
    return users[0] if len(users) == 1 and not graph.is_output(name) else None


def used_only_by(graph: Graph, name: str, nodes: Iterable[str]) -> bool:
    """Whether nobody outside ``nodes`` reads the value and it is no output of the graph."""
    inside = set(nodes)
    return not graph.is_output(name) and all(user.id in inside for user in graph.users(name))


def other_operand(node: Node, name: str) -> str | None:
    """The other input of a binary operator; None when both are ``name`` or there are not two."""
    if len(node.inputs) != 2 or node.inputs[0] == node.inputs[1] or name not in node.inputs:
        return None
    return node.inputs[1] if node.inputs[0] == name else node.inputs[0]


def depends(graph: Graph, name: str, node: Node) -> bool:
    """Whether the value needs the node's result."""
    producer = graph.producer(name)
    if producer is None:
        return False
    return producer.id == node.id or Reachability.of(graph).depends(producer.id, node.id)


def is_renaming(graph: Graph, node: Node) -> bool:
    """A layout operator that keeps the number of elements: reshape and its kin, a broadcast that changes nothing."""
    return node.op in RENAMING and graph.values[node.inputs[0]].size == graph.values[node.outputs[0]].size


def is_view(graph: Graph, nodes: Iterable[str]) -> bool:
    """Whether the nodes only rename indices, so that no kernel is called for them."""
    return all(is_renaming(graph, graph.node(node)) for node in nodes)


def skip_renaming_down(graph: Graph, name: str) -> tuple[str, tuple[str, ...]]:
    """Follow single-use reshapes towards the users: the last value, and the nodes passed."""
    passed: list[str] = []
    while (user := only_user(graph, name)) is not None and is_renaming(graph, user):
        passed.append(user.id)
        name = user.outputs[0]
    return name, tuple(passed)


def skip_renaming_up(graph: Graph, name: str) -> tuple[str, tuple[str, ...]]:
    """Follow single-use reshapes towards the producer: the first value, and the nodes passed."""
    passed: list[str] = []
    while (
        (node := graph.producer(name)) is not None and is_renaming(graph, node) and only_user(graph, name) is not None
    ):
        passed.append(node.id)
        name = node.inputs[0]
    return name, tuple(reversed(passed))


def factors(graph: Graph, name: str) -> tuple[float, tuple[str, ...], tuple[str, ...]]:
    """A product taken apart: (product of the scalar constants, other factors, multiply/divide nodes).

    Looks through ``multiply``, ``divide`` by a constant, ``square`` and ``power`` with exponent 2 or 3.
    """
    number, leaves, nodes = 1.0, [], []
    stack = [name]
    while stack:
        current = stack.pop()
        constant = scalar(graph, current)
        node = graph.producer(current)
        if constant is not None:
            number *= constant
        elif node is not None and node.op == "multiply":
            nodes.append(node.id)
            stack += node.inputs
        elif node is not None and node.op == "divide" and scalar(graph, node.inputs[1]):
            nodes.append(node.id)
            number /= scalar(graph, node.inputs[1]) or 1.0
            stack.append(node.inputs[0])
        elif node is not None and (exponent := _exponent(graph, node)):
            nodes.append(node.id)
            stack += [node.inputs[0]] * exponent
        else:
            leaves.append(current)
    return number, tuple(sorted(leaves)), tuple(dict.fromkeys(nodes))


def _exponent(graph: Graph, node: Node) -> int:
    if node.op == "square":
        return 2
    if node.op != "power":
        return 0
    exponent = scalar(graph, node.inputs[1])
    return int(exponent) if exponent in (2.0, 3.0) else 0


def addends(graph: Graph, name: str) -> tuple[str, str] | None:
    """Both operands of the add that makes a value."""
    node = produced_by(graph, name, "add")
    return (node.inputs[0], node.inputs[1]) if node is not None else None


def closed(graph: Graph, nodes: Iterable[str], output: str) -> bool:
    """Whether nothing but ``output`` is read outside the nodes."""
    return graph.group_outputs(frozenset(nodes)) in ((output,), ())


def silus(graph: Graph) -> Iterator[Match]:
    """SiLU as one operator, or written as ``x * sigmoid(x)``."""
    for node in graph.nodes:
        if node.op == "nn.silu":
            yield Match(node.inputs[0], (node.id,), node.outputs[0])
        elif node.op == "sigmoid":
            product = only_user(graph, node.outputs[0])
            if product is None or product.op != "multiply":
                continue
            if set(product.inputs) == {node.inputs[0], node.outputs[0]}:
                yield Match(node.inputs[0], (node.id, product.id), product.outputs[0])


def gelus(graph: Graph) -> Iterator[Match]:
    """GELU written out: ``0.5*x*(1+erf(x/sqrt 2))`` or with tanh (Hendrycks and Gimpel 2016), in any association."""
    for node in graph.nodes:
        if node.op in ("erf", "tanh") and isinstance(match := gelu_at(graph, node), Match):
            yield match


def gelu_at(graph: Graph, curve: Node) -> Match | Why:
    """The GELU around an ``erf`` or ``tanh``, or why there is none."""
    inner = _erf_argument(graph, curve) if curve.op == "erf" else _tanh_argument(graph, curve)
    if inner is None:
        return ATTRIBUTE, f"{made_by(graph, curve.inputs[0])} is not the argument of {curve.op} in GELU"
    x, argument = inner
    one_plus = only_user(graph, curve.outputs[0])
    if one_plus is None:
        return ESCAPES, readers_outside(graph, curve, frozenset(u.id for u in graph.users(curve.outputs[0])[:1]))
    other = other_operand(one_plus, curve.outputs[0]) if one_plus.op == "add" else None
    if other is None or not close(scalar(graph, other), 1.0):
        return OPERATOR, f"{one_plus.op} ({one_plus.id}) reads {curve.op} where 1 + {curve.op} is expected"
    return _half_product(graph, x, one_plus, (*argument, curve.id))


def _half_product(graph: Graph, x: str, one_plus: Node, before: tuple[str, ...]) -> Match | Why:
    """Walk up the multiplies until the product is 0.5 * x * (1 + curve)."""
    top, expected, number = one_plus.outputs[0], tuple(sorted((x, one_plus.outputs[0]))), 1.0
    members: tuple[str, ...] = (*before, one_plus.id)
    for _ in range(3):
        product = only_user(graph, top)
        if product is None or product.op not in ("multiply", "divide"):
            break
        top = product.outputs[0]
        number, leaves, nodes = factors(graph, top)
        if leaves == expected and close(number, 0.5):
            members = graph.order(frozenset((*members, *nodes)))
            return first_escape(graph, members, top) or Match(x, members, top)
        members = (*members, product.id)
    if graph.users(top) and only_user(graph, top) is None:
        also = " and is an output of the model" if graph.is_output(top) else ""
        return ESCAPES, f"{top} is read by {', '.join(user.id for user in graph.users(top)[:3])}{also}"
    return ATTRIBUTE, f"the product is {number:g} * x * (1 + curve) where 0.5 is expected"


def _erf_argument(graph: Graph, curve: Node) -> tuple[str, tuple[str, ...]] | None:
    number, leaves, nodes = factors(graph, curve.inputs[0])
    return (leaves[0], nodes) if len(leaves) == 1 and close(number, math.sqrt(0.5)) else None


def _tanh_argument(graph: Graph, curve: Node) -> tuple[str, tuple[str, ...]] | None:
    """``sqrt(2/pi) * (x + 0.044715 x^3)``, or with x taken out: ``sqrt(2/pi) * x * (1 + 0.044715 x^2)``."""
    number, leaves, outer = factors(graph, curve.inputs[0])
    if not close(number, math.sqrt(2.0 / math.pi)) or len(leaves) not in (1, 2):
        return None
    for total in leaves:
        parts = addends(graph, total)
        rest = [leaf for leaf in leaves if leaf != total]
        for first, second in (parts, parts[::-1]) if parts is not None else ():
            cubic, powers, inner = factors(graph, second)
            base = powers[0] if powers else None
            if base is None or not close(cubic, 0.044715) or set(powers) != {base}:
                continue
            plain = not rest and len(powers) == 3 and first == base
            taken_out = rest == [base] and len(powers) == 2 and close(scalar(graph, first), 1.0)
            producer = graph.producer(total)
            if (plain or taken_out) and producer is not None:
                return base, (*outer, *inner, producer.id)
    return None


def activations(graph: Graph) -> dict[str, tuple[Match, ...]]:
    """Every activation of the graph by its source value: single operators, SiLU and GELU written out."""
    found: dict[str, list[Match]] = {}
    written = [*gelus(graph), *silus(graph)]
    inside = {node for match in written for node in match.nodes}
    for node in graph.nodes:
        if node.op in ACTIVATIONS and node.id not in inside:
            written.append(Match(node.inputs[0], (node.id,), node.outputs[0]))
    for match in written:
        found.setdefault(match.source, []).append(match)
    return {source: tuple(matches) for source, matches in found.items()}


def activation_of(graph: Graph, known: dict[str, tuple[Match, ...]], name: str) -> Match | None:
    """The activation that alone reads a value, or None."""
    for match in known.get(name, ()):
        if used_only_by(graph, name, match.nodes):
            return match
    return None


def channel_axis(node: Node, rank: int) -> int:
    """The axis along which a matmul's or convolution's bias runs."""
    if node.op == "matmul":
        return rank - 1
    layout = str(node.attrs.get("out_layout") or node.attrs.get("data_layout") or "NCHW")
    return layout.index("C") if "C" in layout else 1


def bias_of(graph: Graph, anchor: Node, add: Node, name: str) -> str | None:
    """The bias that ``add`` adds to ``name``, a (reshaped) result of ``anchor``; None when it is no bias.

    A bias leaves the product's shape as it is, runs along the output channels only (or is a scalar), and does not
    itself depend on the product.
    """
    bias = other_operand(add, name)
    if add.op != "add" or bias is None or depends(graph, bias, anchor):
        return None
    shape = graph.values[name].shape
    if graph.values[add.outputs[0]].shape != shape or not shape:
        return None
    axis = channel_axis(anchor, len(shape))
    given = graph.values[bias].shape
    padded = (1,) * (len(shape) - len(given)) + given
    wide = [i for i, extent in enumerate(padded) if extent != 1]
    return bias if wide in ([], [axis]) else None


def residual_of(graph: Graph, anchor: Node, add: Node, name: str) -> str | None:
    """The tensor of the same shape that ``add`` adds to ``name`` and that does not depend on ``anchor``."""
    other = other_operand(add, name)
    if add.op != "add" or other is None or depends(graph, other, anchor):
        return None
    shape = graph.values[name].shape
    same = graph.values[other].shape == shape == graph.values[add.outputs[0]].shape
    return other if same and graph.values[other].data is None else None


def producers_chain(graph: Graph, name: str, ops: frozenset[str] | None = None, limit: int = 12) -> tuple[str, ...]:
    """Elementwise producers of a value, as far back as each is read by the chain alone and has the value's shape."""
    shape = graph.values[name].shape
    chain: list[str] = []
    frontier = [name]
    while frontier and len(chain) < limit:
        node = graph.producer(frontier.pop(0))
        if node is None or node.kind not in ("elementwise", "broadcast") or node.id in chain:
            continue
        if ops is not None and node.op not in ops:
            continue
        same = graph.values[node.outputs[0]].shape == shape
        readers = {user.id for user in graph.users(node.outputs[0])}
        last = not chain
        alone = not graph.is_output(node.outputs[0]) and ((last and len(readers) == 1) or readers <= set(chain))
        if same and alone:
            chain.append(node.id)
            frontier += [inp for inp in node.inputs if graph.values[inp].producer is not None]
    return graph.order(frozenset(chain))


def no_producers(graph: Graph, name: str) -> Why:
    """Why :func:`producers_chain` of a value is empty."""
    node = graph.producer(name)
    if node is None or node.kind not in ("elementwise", "broadcast"):
        return OPERATOR, f"{made_by(graph, name)} where elementwise or broadcast is expected"
    if len(node.outputs) == 1 and (len(graph.users(name)) > 1 or graph.is_output(name)):
        readers = ", ".join(user.id for user in graph.users(name)[:3])
        return ESCAPES, f"{name} of {node.op} is read by {readers}" + (
            " and is an output of the model" if graph.is_output(name) else ""
        )
    return SHAPE, f"{name} of {node.op} is not read as it is"
