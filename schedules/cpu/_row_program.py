"""Finds reductions over rows in a group's graph, with all else element by element: softmax or a norm written out.

All tensors are described by expressions of two index variables, ``row`` and ``column``: all dimensions in front of the
reduced ones as one, and the reduced ones as one. Reductions that do not depend on one another share a pass over the
row. What a reduction takes and later passes need again is ``Held``: computed once and kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.graph import Graph, Node
from workbench.tvm_seam import tvm

from .._expressions import ELEMENTWISE, Evaluator, Expr, Index, Read, Unsupported, broadcast_index, unravel
from ._rows import Shape, Written, check_around, split_shape

tirx = tvm.tirx
ROW_REDUCTIONS = ("sum", "mean", "max", "min", "prod")
_MOST = 32  # reductions in one group


@dataclass(frozen=True, eq=False)
class Held:
    """A value of the row that is kept: ``variable`` stands for its element of the column that is at hand."""

    variable: Expr
    value: Expr


@dataclass(frozen=True, eq=False)
class Reduced:
    """A reduction ``op`` of ``value`` over the row; ``variable`` stands for its result."""

    op: str
    variable: Expr
    value: Expr


@dataclass(frozen=True, eq=False)
class Pass:
    """One loop over the row: what it computes and keeps, then what it reduces."""

    held: tuple[Held, ...]
    reduced: tuple[Reduced, ...]


@dataclass(frozen=True, eq=False)
class RowProgram:
    """Extents, index variables, the passes in order, and what is written then: for each column, or once a row."""

    rows: int
    columns: int
    row: Expr
    column: Expr
    passes: tuple[Pass, ...]
    wide: tuple[Written, ...]
    narrow: tuple[Written, ...]


def find_row_program(graph: Graph, arguments: Sequence[str], read: Read) -> RowProgram:
    """The row program of the graph; ``read(name, index)`` gives an argument's element. Raises Unsupported."""
    return _Finder(graph, arguments, read).find()


class _Finder:
    """What is known of the graph so far: the variables of held values and of results, with their places."""

    def __init__(self, graph: Graph, arguments: Sequence[str], read: Read) -> None:
        self._graph, self._arguments, self._read = graph, arguments, read
        self._reductions = _reductions(graph)
        shapes = [graph.values[node.inputs[0]].shape for node in self._reductions]
        extents = {_extents(node, shape) for node, shape in zip(self._reductions, shapes, strict=True)}
        if len(extents) != 1:
            raise Unsupported("the reductions are over rows of different sizes")
        [(self._rows, self._columns)] = extents
        self._row, self._column = tirx.Var("row", "int32"), tirx.Var("column", "int32")
        self._evaluator = Evaluator(graph, {self._row: self._rows, self._column: self._columns}, self._leaf)
        self._known: dict[str, tuple[Index, Expr]] = {}

    def find(self) -> RowProgram:
        level = _levels(self._graph, self._reductions)
        passes = tuple(
            self._pass([node for node in self._reductions if level[node.id] == depth])
            for depth in range(max(level.values()) + 1)
        )
        wide, narrow = self._outputs()
        return RowProgram(self._rows, self._columns, self._row, self._column, passes, wide, narrow)

    def _pass(self, together: Sequence[Node]) -> Pass:
        held = []
        for name in dict.fromkeys(node.inputs[0] for node in together):
            if name not in self._known and self._is_needed_again(name, together):
                value = self._operand(name)
                held.append(Held(self._stand_in(name, self._wide_index(name)), value))
        operands = [self._operand(node.inputs[0]) for node in together]
        results = (self._stand_in(node.outputs[0], self._narrow_index(node.outputs[0])) for node in together)
        ops = (node.op for node in together)
        return Pass(tuple(held), tuple(map(Reduced, ops, results, operands)))

    def _outputs(self) -> tuple[tuple[Written, ...], tuple[Written, ...]]:
        wide, narrow = [], []
        for name in self._graph.outputs:
            size = self._graph.values[name].size
            if size == self._rows * self._columns:
                place = self._wide_index(name)
                wide.append(Written(name, place, self._evaluator.evaluate(name, place)))
            elif size == self._rows:
                place = self._narrow_index(name)
                narrow.append(Written(name, place, self._evaluator.evaluate(name, place)))
            else:
                raise Unsupported(f"output {name} has neither a row's elements nor one for each row")
        return tuple(wide), tuple(narrow)

    def _operand(self, name: str) -> Expr:
        return self._evaluator.evaluate(name, self._wide_index(name))

    def _wide_index(self, name: str) -> Index:
        """Where a tensor of all rows and columns, in any shape, has the element of the row and the column."""
        return self._index(self._row * self._columns + self._column, name)

    def _narrow_index(self, name: str) -> Index:
        """Where a tensor of one element a row, in any shape, has the row's."""
        return self._index(self._row, name)

    def _index(self, flat: Expr, name: str) -> Index:
        return tuple(map(self._evaluator.simplify, unravel(flat, self._graph.values[name].shape)))

    def _stand_in(self, name: str, place: Index) -> Expr:
        """A variable that stands for the value's element at ``place`` from now on."""
        variable = tirx.Var(f"held_{len(self._known)}", "float32")
        self._known[name] = (place, variable)
        return variable

    def _is_needed_again(self, name: str, together: Sequence[Node]) -> bool:
        """Whether a value that the group computes is used by more than the reductions of one pass."""
        producer = self._graph.producer(name)
        if producer is None or producer.op not in ELEMENTWISE:
            return False
        users = {node.id for node in self._graph.nodes if name in node.inputs}
        return name in self._graph.outputs or not users <= {node.id for node in together}

    def _leaf(self, name: str, index: Index) -> Expr | None:
        if name in self._known:
            place, variable = self._known[name]
            if all(self._evaluator.same(a, b) for a, b in zip(index, place, strict=True)):
                return variable
        producer = self._graph.producer(name)
        if producer is not None and producer.op in ROW_REDUCTIONS:
            raise Unsupported("a result is used at another place than its own row")
        if name in self._arguments:
            return self._read(name, broadcast_index(self._graph.values[name].shape, index))
        return None


def _reductions(graph: Graph) -> list[Node]:
    found = [node for node in graph.nodes if node.op in ROW_REDUCTIONS]
    if not 0 < len(found) <= _MOST:
        raise Unsupported(f"a row program has 1 to {_MOST} reductions")
    check_around(graph, found)
    return [graph.node(node_id) for node_id in graph.order(node.id for node in found)]


def _extents(node: Node, shape: Shape) -> tuple[int, int]:
    """(rows, columns) of a reduction."""
    axes = node.attrs.get("axis")
    outer, inner = split_shape(node, range(len(shape)) if axes is None else axes, shape)
    return math.prod(outer), math.prod(inner)


def _levels(graph: Graph, reductions: Sequence[Node]) -> Mapping[str, int]:
    """For each reduction, how many others come one behind the other before it."""
    depth: dict[str, int] = {}  # of values: reductions on the longest path to them
    ids = {node.id for node in reductions}
    level = {}
    for node_id in graph.order(node.id for node in graph.nodes):
        node = graph.node(node_id)
        before = max((depth.get(name, 0) for name in node.inputs), default=0)
        if node_id in ids:
            level[node_id] = before
        for name in node.outputs:
            depth[name] = before + (node_id in ids)
    return level
