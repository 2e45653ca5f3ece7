"""Finds a row operator in a group's graph: one norm or softmax over trailing axes, all else element by element.

The group's tensors are described by expressions of two index variables, ``row`` and ``column``: all dimensions in front
of the normalised ones as one, and the normalised ones as one. ``held`` stands for an element of what the operator
takes, ``normal`` for an element of what it gives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.graph import Graph, Node
from workbench.tvm_seam import tvm

from .._expressions import Evaluator, Expr, Index, Read, Unsupported, broadcast_index, unravel
from ._rows import Written, check_around, split_shape

tirx = tvm.tirx
ROW_OPERATORS = ("nn.layer_norm", "nn.rms_norm", "nn.softmax", "nn.log_softmax")


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
    axes = operator.attrs.get("axes", operator.attrs.get("axis", -1))
    outer, inner = split_shape(operator, axes, x.shape)
    rows, columns = math.prod(outer), math.prod(inner)
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
    if len(operators) != 1:
        raise Unsupported("a row group has one norm or softmax")
    check_around(graph, operators)
    [operator] = operators
    if not (operator.attrs.get("center", True) and operator.attrs.get("scale", True)):
        raise Unsupported("layer_norm without scale or shift")
    return operator


def _dependent(graph: Graph, operator: Node) -> set[str]:
    """Values that depend on the operator's result."""
    found = set(operator.outputs)
    for node in graph.nodes:
        if found.intersection(node.inputs):
            found.update(node.outputs)
    return found
