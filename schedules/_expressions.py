"""Elements of a group's values as TIR expressions: elementwise operators and layout operators, composed by index.

``evaluate(graph, "y", (i, j), leaf)`` is the expression for ``y[i, j]``: it follows the operators backwards to values
for which ``leaf`` gives an expression (arguments of the kernel, results that it holds in registers). Reshapes and
transposes become index arithmetic, simplified over the ranges of the index variables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from workbench.errors import KernelError
from workbench.graph import Graph, Node
from workbench.tvm_seam import tvm, tvm_ffi

tirx = tvm.tirx
Expr: TypeAlias = Any  # tvm.ir.Expr, whose operators carry no annotations
Index: TypeAlias = tuple[Expr, ...]
Leaf: TypeAlias = Callable[[str, Index], Expr | None]
Read: TypeAlias = Callable[[str, Index], Expr]

MAX_EXPRESSION = 400  # operators in one expression; a shared operand counts as often as it is used


class Unsupported(KernelError):
    """A graph that no expression can be made of; the schedule then does not serve the workload."""


def _number(value: float) -> Expr:
    return tirx.const(value, "float32")


def _gelu(x: Expr) -> Expr:
    return x * _number(0.5) * (_number(1.0) + tirx.erf(x * _number(math.sqrt(0.5))))


def _gelu_tanh(x: Expr) -> Expr:
    inner = _number(math.sqrt(2 / math.pi)) * x * (_number(1.0) + _number(0.044715) * x * x)
    return _number(0.5) * x * (_number(1.0) + tirx.tanh(inner))


_UNARY: Mapping[str, Callable[[Expr], Expr]] = {
    "nn.relu": lambda x: tirx.max(x, _number(0.0)),
    "nn.silu": lambda x: x * tirx.sigmoid(x),
    "nn.gelu": _gelu,
    "nn.gelu_tanh": _gelu_tanh,
    "sigmoid": tirx.sigmoid,
    "tanh": tirx.tanh,
    "exp": tirx.exp,
    "log": tirx.log,
    "erf": tirx.erf,
    "sqrt": tirx.sqrt,
    "rsqrt": lambda x: _number(1.0) / tirx.sqrt(x),
    "square": lambda x: x * x,
    "negative": lambda x: _number(0.0) - x,
    "abs": tirx.abs,
    "logical_not": tirx.Not,
}
_BINARY: Mapping[str, Callable[[Expr, Expr], Expr]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "maximum": tirx.max,
    "minimum": tirx.min,
    "greater": tirx.GT,
    "greater_equal": tirx.GE,
    "less": tirx.LT,
    "less_equal": tirx.LE,
    "equal": tirx.EQ,
    "logical_and": tirx.And,
    "logical_or": tirx.Or,
}
RENAMING = frozenset({"reshape", "flatten", "expand_dims", "squeeze"})
LAYOUT = RENAMING | {"permute_dims", "broadcast_to", "repeat"}
ELEMENTWISE = frozenset({*_UNARY, *_BINARY, "power", "where", "astype", "clip", "nn.leakyrelu"})


class Evaluator:
    """Makes expressions of one graph; ``ranges`` gives the extent of every index variable, which starts at 0."""

    def __init__(self, graph: Graph, ranges: Mapping[Expr, int], leaf: Leaf) -> None:
        self._graph, self._leaf = graph, leaf
        self._analyzer = tvm.sym.Analyzer()
        for variable, extent in ranges.items():
            self._analyzer.bind(variable, tvm.ir.Range(0, extent))
        self._operators = 0

    def evaluate(self, value: str, index: Index) -> Expr:
        """The element of ``value`` at ``index``. Raises Unsupported."""
        held = self._graph.values[value]
        found = self._leaf(value, index)
        if found is not None:
            return found
        if held.is_constant and held.size == 1 and held.data is not None:
            return tirx.const(held.data.item(), held.dtype)
        node = self._graph.producer(value)
        if node is None:
            raise Unsupported(f"{value} cannot be read element by element")
        self._operators += 1
        if self._operators > MAX_EXPRESSION:
            raise Unsupported(f"more than {MAX_EXPRESSION} operators in one expression")
        if node.op in LAYOUT:
            return self.evaluate(node.inputs[0], self._source_index(node, index))
        return self._elementwise(node, index)

    def _elementwise(self, node: Node, index: Index) -> Expr:
        operands = [self.evaluate(name, self._broadcast(name, index)) for name in node.inputs]
        dtype = self._graph.values[node.outputs[0]].dtype
        if node.op in _UNARY and len(operands) == 1:
            return _UNARY[node.op](operands[0])
        if node.op in _BINARY and len(operands) == 2:
            return _BINARY[node.op](*operands)
        if node.op == "power":
            return _power(*operands)
        if node.op == "where":
            return tirx.Select(_as_bool(operands[0]), operands[1], operands[2])
        if node.op == "astype":
            return operands[0] if operands[0].ty.dtype == dtype else tirx.Cast(dtype, operands[0])
        if node.op == "clip" and {"min", "max"} <= node.attrs.keys():
            low, high = float(str(node.attrs["min"])), float(str(node.attrs["max"]))
            return tirx.max(tirx.min(operands[0], _number(high)), _number(low))
        if node.op == "nn.leakyrelu" and "alpha" in node.attrs:
            x = operands[0]
            return tirx.Select(x > _number(0.0), x, x * _number(float(str(node.attrs["alpha"]))))
        raise Unsupported(f"operator {node.op} is not elementwise")

    def _broadcast(self, name: str, index: Index) -> Index:
        return broadcast_index(self._graph.values[name].shape, index)

    def _source_index(self, node: Node, index: Index) -> Index:
        """Where a layout operator's result at ``index`` comes from, in its input."""
        source = self._graph.values[node.inputs[0]].shape
        if node.op == "permute_dims":
            axes = permutation(node, len(source))
            return tuple(index[axes.index(dim)] for dim in range(len(source)))
        if node.op == "broadcast_to":
            return broadcast_index(source, index)
        if node.op == "repeat":
            axis, repeats = node.attrs.get("axis"), node.attrs.get("repeats")
            if not isinstance(axis, int) or not isinstance(repeats, int):
                raise Unsupported("repeat of the flattened tensor")
            axis %= len(source)
            return tuple(self.simplify(i // repeats) if dim == axis else i for dim, i in enumerate(index))
        return self.renamed(self._graph.values[node.outputs[0]].shape, source, index)

    def renamed(self, shape: Sequence[int], other: Sequence[int], index: Index) -> Index:
        """The index in shape ``other`` of the element at ``index`` of ``shape``: a reshape, forwards or backwards."""
        return tuple(self.simplify(i) for i in unravel(ravel(shape, index), other))

    def simplify(self, expr: Expr) -> Expr:
        return self._analyzer.simplify(expr)

    def same(self, a: Expr, b: Expr) -> bool:
        """Whether two index expressions are equal for all values of their variables."""
        return bool(self._analyzer.can_prove_equal(a, b))


def _power(base: Expr, exponent: Expr) -> Expr:
    """Squares and cubes; other exponents have no vector instructions."""
    number = exponent.value if isinstance(exponent, tirx.FloatImm) else None
    if number not in (2, 3):
        raise Unsupported("power other than square and cube")
    return base * base if number == 2 else base * base * base


def _as_bool(expr: Expr) -> Expr:
    return expr if str(expr.ty.dtype) == "bool" else tirx.NE(expr, tirx.const(0, str(expr.ty.dtype)))


def permutation(node: Node, rank: int) -> tuple[int, ...]:
    """The axes of a ``permute_dims`` node: result dimension i is input dimension axes[i]."""
    axes = node.attrs.get("axes")
    if not axes:
        return tuple(reversed(range(rank)))
    assert isinstance(axes, tuple | list)
    return tuple(int(axis) % rank for axis in axes)


def broadcast_index(shape: Sequence[int], index: Index) -> Index:
    """The index into a tensor of ``shape`` that is broadcast, NumPy's way, to the tensor that ``index`` is for."""
    aligned = index[len(index) - len(shape) :]
    return tuple(tirx.const(0, "int32") if extent == 1 else i for extent, i in zip(shape, aligned, strict=True))


def ravel(shape: Sequence[int], index: Index) -> Expr:
    """Row-major position of an index."""
    flat: Expr = tirx.const(0, "int32")
    for extent, i in zip(shape, index, strict=True):
        flat = flat * extent + i
    return flat


def unravel(flat: Expr, shape: Sequence[int]) -> Index:
    """The index at a row-major position."""
    index: list[Expr] = []
    inner = math.prod(shape)
    for dim, extent in enumerate(shape):
        inner //= extent
        part = flat // inner if inner > 1 else flat
        index.append(part % extent if dim > 0 else part)
    return tuple(index)


def substitute(expr: Expr, values: Mapping[Expr, Expr]) -> Expr:
    """``expr`` with variables replaced."""
    pairs = list(values.items())

    def replace(variable: Expr) -> Expr:
        return next((value for name, value in pairs if name.same_as(variable)), variable)

    return tvm_ffi.structural_map(expr, [(tvm.ir.expr.Var, replace)])


def kernel_arguments(graph: Graph) -> tuple[str, ...]:
    """Values that a kernel of the whole graph takes: inputs, then constants that are not scalars."""
    outer = graph.group_inputs(node.id for node in graph.nodes)
    constants = (name for name in outer if graph.values[name].is_constant and graph.values[name].shape != ())
    return (*graph.inputs, *constants)
