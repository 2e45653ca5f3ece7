"""Finds a row operator in a group's graph: one norm or softmax over trailing axes, all else element by element.

The group's tensors are described by expressions of two index variables, ``row`` and ``column``: all dimensions in front
of the normalised ones as one, and the normalised ones as one. ``held`` stands for an element of what the operator
takes, ``normal`` for an element of what it gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workbench.graph import Graph, Node
from workbench.tvm_seam import tvm

from .._expressions import ELEMENTWISE, RENAMING, Evaluator, Expr, Index, Unsupported, broadcast_index, unravel

tirx = tvm.tirx
ROW_OPERATORS = ("nn.layer_norm", "nn.rms_norm", "nn.softmax", "nn.log_softmax")
_AROUND = ELEMENTWISE | RENAMING | {"broadcast_to"}  # no transpose: its rows are no rows in memory
Read = Callable[[str, Index], Expr]


@dataclass(frozen=True, eq=False)
class Written:
    """An output of the group: where it holds the element of a row and column, and what that element is."""

    name: str
    place: Index
    value: Expr


@dataclass(frozen=True, eq=False)
class RowGroup:
    """Extents, index variables, and the tensors as expressions of them.

    ``x``: what the operator takes. ``home``: the index of its element at ``row`` and ``column``. ``early`` outputs
    do not depend on the operator's result and may use ``held``; ``late`` ones may use ``held`` and ``normal``.
    ``scale`` and ``shift`` are the factor and the summand of a norm, where it has them.
    """

    operator: Node
    rows: int
    columns: int
    row: Expr
    column: Expr
    held: Expr
    normal: Expr
    home: Index
    x: Expr
    early: tuple[Written, ...]
    late: tuple[Written, ...]
    scale: Expr | None
    shift: Expr | None

    @property
    def epsilon(self) -> float:
        """What a norm adds to the variance."""
        return float(str(self.operator.attrs["epsilon"]))


def find_row_group(graph: Graph, arguments: Sequence[str], read: Read) -> RowGroup:
    """The row operator of the graph; ``read(name, index)`` gives an argument's element. Raises Unsupported."""
    operator = _row_operator(graph)
    x = graph.values[operator.inputs[0]]
    outer, inner = _split_shape(operator, x.shape)
    rows, columns = math.prod(outer), math.prod(inner)
    if not 0 < rows * columns < 2**31:
        raise Unsupported("no elements, or more than 32-bit indices count")
    row, column = tirx.Var("row", "int32"), tirx.Var("column", "int32")
    held, normal = tirx.Var("held", "float32"), tirx.Var("normal", "float32")
    home: Index = ()

    def argument(name: str, index: Index) -> Expr | None:
        return read(name, broadcast_index(graph.values[name].shape, index)) if name in arguments else None

    def leaf(name: str, index: Index) -> Expr | None:
        if name in (x.name, operator.outputs[0]):
            same = all(evaluator.same(a, b) for a, b in zip(index, home, strict=True))
            if same:
                return held if name == x.name else normal
            if name != x.name:
                raise Unsupported("the result is used at another place than its own")
        return argument(name, index)

    evaluator = Evaluator(graph, {row: rows, column: columns}, leaf)
    producer = Evaluator(graph, {row: rows, column: columns}, argument)
    home = tuple(evaluator.simplify(i) for i in (*unravel(row, outer), *unravel(column, inner)))
    x_value = producer.evaluate(x.name, home)
    dependent = _dependent(graph, operator)
    written = []
    for name in graph.outputs:
        shape = graph.values[name].shape
        if math.prod(shape) != rows * columns:
            raise Unsupported(f"output {name} has another number of elements than the rows")
        place = home if shape == x.shape else evaluator.renamed(x.shape, shape, home)
        written.append(Written(name, place, evaluator.evaluate(name, place)))
    scale, shift = (
        evaluator.evaluate(name, home[len(outer) :]) if name is not None else None
        for name in (*operator.inputs[1:], None, None)[:2]
    )
    return RowGroup(
        operator=operator,
        rows=rows,
        columns=columns,
        row=row,
        column=column,
        held=held,
        normal=normal,
        home=home,
        x=x_value,
        early=tuple(item for item in written if item.name not in dependent),
        late=tuple(item for item in written if item.name in dependent),
        scale=scale,
        shift=shift,
    )


def _row_operator(graph: Graph) -> Node:
    operators = [node for node in graph.nodes if node.op in ROW_OPERATORS]
    if len(operators) != 1 or any(node.op not in _AROUND for node in graph.nodes if node not in operators):
        raise Unsupported("a row group has one norm or softmax, all else is elementwise or a reshape")
    operator = operators[0]
    if any(value.dtype not in ("float32", "bool") for value in graph.values.values()):
        raise Unsupported("only float32, with bool masks")
    if any(graph.values[name].dtype != "float32" for name in (*operator.inputs, *operator.outputs, *graph.outputs)):
        raise Unsupported("operands and outputs must be float32")
    if not (operator.attrs.get("center", True) and operator.attrs.get("scale", True)):
        raise Unsupported("layer_norm without scale or shift")
    return operator


def _split_shape(operator: Node, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(rows' dimensions, normalised dimensions); Unsupported when the latter are not the last ones, in order."""
    axes = operator.attrs.get("axes", operator.attrs.get("axis", -1))
    given = tuple(axes) if isinstance(axes, tuple | list) else (axes,)
    normalised = tuple(int(str(axis)) % len(shape) for axis in given) if shape else ()
    first = len(shape) - len(normalised)
    if not normalised or normalised != tuple(range(first, len(shape))):
        raise Unsupported(f"{operator.op} over axes {axes} of {len(shape)} dimensions; they must be the last")
    return shape[:first], shape[first:]


def _dependent(graph: Graph, operator: Node) -> set[str]:
    """Values that depend on the operator's result."""
    found = set(operator.outputs)
    for node in graph.nodes:
        if found.intersection(node.inputs):
            found.update(node.outputs)
    return found
