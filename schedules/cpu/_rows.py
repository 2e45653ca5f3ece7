"""What all finders of kernels over rows share: which operators stand around, which axes make a row, what is written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workbench.graph import Graph, Node

from .._expressions import ELEMENTWISE, RENAMING, Expr, Index, Unsupported

AROUND = ELEMENTWISE | RENAMING | {"broadcast_to"}  # no transpose: its rows are no rows in memory
Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Written:
    """An output of the group: where it holds the element of a row and column, and what that element is."""

    name: str
    place: Index
    value: Expr


def check_around(graph: Graph, operators: Sequence[Node]) -> None:
    """Unsupported unless all but ``operators`` is elementwise or a reshape, and float32 but for masks."""
    inside = {node.id for node in operators}
    for node in graph.nodes:
        if node.id not in inside and node.op not in AROUND:
            raise Unsupported(f"{node.op} is neither elementwise nor a reshape")
    if any(value.dtype not in ("float32", "bool") for value in graph.values.values()):
        raise Unsupported("only float32, with bool masks")
    for name in (*graph.outputs, *_operands(operators)):
        if graph.values[name].dtype != "float32":
            raise Unsupported("operands and outputs must be float32")


def _operands(operators: Iterable[Node]) -> Iterable[str]:
    return (name for node in operators for name in (*node.inputs, *node.outputs))


def split_shape(operator: Node, axes: object, shape: Shape) -> tuple[Shape, Shape]:
    """(rows' dimensions, dimensions of one row); Unsupported when ``axes`` are not the last ones.

    ``axes``: one or several, negative ones from the end. So too when there are no elements.
    """
    given = tuple(axes) if isinstance(axes, tuple | list | range) else (axes,)
    inside = {int(str(axis)) % len(shape) for axis in given} if shape else set()
    first = len(shape) - len(inside)
    if not inside or inside != set(range(first, len(shape))):
        raise Unsupported(f"{operator.op} over axes {axes} of {len(shape)} dimensions; they must be the last")
    if not 0 < math.prod(shape) < 2**31:
        raise Unsupported("no elements, or more than 32-bit indices count")
    return shape[:first], shape[first:]
