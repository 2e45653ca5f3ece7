"""A graph evaluated operator by operator, by NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..errors import InputError, KernelError, UnsupportedOperator
from ..graph import Graph, Node
from .dtypes import Precision, evaluation_dtype, np_dtype
from .ops import TABLE

_DIVISIONS = frozenset({"divide", "floor_divide", "mod", "floor_mod"})


def supported(op: str) -> bool:
    """Whether the reference can evaluate an operator (Relax name without ``relax.``, or ``call_tir:NAME``)."""
    return op in TABLE or op.startswith("call_tir:")


def unsupported(graph: Graph) -> list[Node]:
    """The nodes of a graph that the reference cannot evaluate."""
    return [node for node in graph.nodes if node.op not in TABLE and "prim_func" not in node.attrs]


def evaluate(graph: Graph, inputs: Sequence[np.ndarray], dtype: Precision = "float64") -> list[np.ndarray]:
    """The graph's outputs for these inputs.

    ``float64``: inputs, constants and every intermediate of a floating dtype are float64. ``native``: every value has
    the dtype that the model gives it, so narrow types round, overflow and wrap at every step. Integers and bools have
    their own dtype in both. Raises UnsupportedOperator for an operator that is not in the table, InputError for inputs
    that do not fit the graph.
    """
    last_use = {name: node.id for node in graph.nodes for name in node.inputs}
    keep = set(graph.outputs)
    values = _start(graph, inputs, dtype)
    for node in _steps(graph, values, dtype):
        for name in {*node.inputs, *node.outputs} - keep:
            if last_use.get(name, node.id) == node.id:
                values.pop(name, None)
    return [values[name] for name in graph.outputs]


def evaluate_all(graph: Graph, inputs: Sequence[np.ndarray], dtype: Precision = "float64") -> dict[str, np.ndarray]:
    """Every value of the graph by name; otherwise as ``evaluate``."""
    values = _start(graph, inputs, dtype)
    for _ in _steps(graph, values, dtype):
        pass
    return values


def _start(graph: Graph, inputs: Sequence[np.ndarray], precision: Precision) -> dict[str, np.ndarray]:
    if len(inputs) != len(graph.inputs):
        raise InputError(f"graph '{graph.name}' has {len(graph.inputs)} inputs, {len(inputs)} were given")
    values: dict[str, np.ndarray] = {}
    for name, array in zip(graph.inputs, inputs, strict=True):
        value = graph.values[name]
        array = np.asarray(array)
        if array.shape != value.shape or array.dtype != np_dtype(value.dtype):
            raise InputError(
                f"input '{name}' of graph '{graph.name}' is {value.dtype}{list(value.shape)}, "
                f"given was {array.dtype}{list(array.shape)}"
            )
        values[name] = array.astype(evaluation_dtype(value.dtype, precision), copy=False)
    for name, value in graph.values.items():
        if value.data is not None:
            values[name] = value.data.astype(evaluation_dtype(value.dtype, precision), copy=False)
    return values


def _steps(graph: Graph, values: dict[str, np.ndarray], precision: Precision) -> Iterator[Node]:
    """Evaluates the nodes in order into ``values``; yields after each."""
    for node in graph.nodes:
        with np.errstate(all="ignore"):
            results = _apply(graph, node, [values[name] for name in node.inputs], precision)
            for name, result in zip(node.outputs, results, strict=True):
                values[name] = _as_value(graph, node, name, result, precision)
        yield node


def _apply(graph: Graph, node: Node, inputs: list[np.ndarray], precision: Precision) -> list[np.ndarray]:
    if node.op.startswith("call_tir:") and "prim_func" in node.attrs:
        from .tir import evaluate_prim_func

        try:
            results = evaluate_prim_func(node.attrs["prim_func"], inputs, precision)
        except KernelError as error:
            raise UnsupportedOperator(f"{node.op} ({error})", node.id, graph.name) from error
    elif node.op in TABLE:
        _require_divisors(node, inputs)
        try:
            made = TABLE[node.op](inputs, node.attrs)
        except IndexError as error:
            raise InputError(
                f"{graph.name}: {node.op} at '{node.id}' reads outside a tensor for these inputs ({error}); "
                "indices must lie within the axis that they address"
            ) from error
        results = list(made) if isinstance(made, list) else [made]
    else:
        raise UnsupportedOperator(node.op, node.id, graph.name)
    items = node.attrs.get("tuple_items")
    return results if items is None else [results[i] for i in items]  # type: ignore[attr-defined]


def _require_divisors(node: Node, inputs: list[np.ndarray]) -> None:
    """An integer division by zero ends the process that a compiled kernel runs in, so it must not get that far."""
    if node.op in _DIVISIONS and inputs[1].dtype.kind in "iu" and not np.all(inputs[1]):
        raise InputError(f"{node.op} at '{node.id}' divides integers by zero for these inputs; give other divisors")


def _as_value(graph: Graph, node: Node, name: str, result: np.ndarray, precision: Precision) -> np.ndarray:
    value = graph.values[name]
    array = np.asarray(result)
    if array.shape != value.shape:
        raise UnsupportedOperator(f"{node.op} (made {array.shape} instead of {value.shape})", node.id, graph.name)
    return array.astype(evaluation_dtype(value.dtype, precision), copy=False)
