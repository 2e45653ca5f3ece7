"""Inputs for a kernel, and what it should make of them."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from ..errors import InputError, KernelError
from ..tvm_seam import tvm, tvm_ffi
from .compare import FLOOR, noise_spread
from .dtypes import is_float, np_dtype
from .evaluation import evaluate, unsupported
from .tir import argument_roles, evaluate_prim_func

_log = logging.getLogger(__name__)
_INDEX_LIMIT = 8
UNEVEN = 16.0  # of the largest native error to the median one: past what ``compare`` allows


@dataclass(frozen=True, eq=False)
class KernelReference:
    """Seeded inputs of a tensor program in parameter order, its outputs in float64 and in its own dtypes.

    Plain arrays, so that a measuring process needs NumPy alone to judge a candidate: ``compare_all(outputs,
    reference64, native)``. Integer and bool outputs have their own dtype in ``reference64`` too.
    """

    inputs: tuple[np.ndarray, ...]
    reference64: tuple[np.ndarray, ...]
    native: tuple[np.ndarray, ...]


def kernel_reference(program: Any, seed: int = 0) -> KernelReference:
    """The reference of a PrimFunc, an IRModule with ``main``, or a Workload (which is recognised by ``module``).

    Floats are standard normal, a workload's constants of two and more axes divided by the root of their fan-in;
    integers lie in [0, 8), or below the smallest axis where they address one; bools are random. Where the values of a
    program become NaN (the root of a negative variance), or cancel to almost nothing in some places and are divided by
    (``x / sum(x)``), its inputs are made positive. A program that the interpreter cannot run is evaluated as the
    operators of ``program.graph``, when it has one. Raises KernelError.
    """
    func = _prim_func(program)
    constants = tuple(getattr(program, "layout_free", ()))
    inputs, reference64 = _evaluate_valid(func, program, seed, constants)
    native: tuple[np.ndarray, ...] = ()
    if not any(_has_nan(out) for out in reference64):
        native = _evaluate(func, program, inputs, "native")
        if not uneven(reference64, native):
            return KernelReference(inputs, reference64, native)
    positive = tuple(np.abs(x) + np_dtype(x.dtype.name).type(0.125) if is_float(x.dtype) else x for x in inputs)
    again = _evaluate(func, program, positive, "float64")
    if not any(_has_nan(out) for out in again):
        rounded = _evaluate(func, program, positive, "native")
        if not native or not uneven(again, rounded):
            return KernelReference(positive, again, rounded)
    return KernelReference(inputs, reference64, native or _evaluate(func, program, inputs, "native"))


def uneven(reference64: Sequence[np.ndarray], native: Sequence[np.ndarray]) -> bool:
    """Whether rounding errors differ so much from place to place that a right kernel may be judged wrong."""
    spreads = [
        (*noise_spread(*pair), ml_dtypes.finfo(pair[1].dtype))
        for pair in zip(reference64, native, strict=True)
        if is_float(pair[1].dtype)
    ]
    return any(spread > UNEVEN and largest > FLOOR * float(info.eps) for largest, spread, info in spreads)


def evaluate_inputs(program: Any, inputs: Sequence[np.ndarray], dtype: Any) -> tuple[np.ndarray, ...]:
    """Outputs of the given inputs, in parameter order; ``dtype`` "float64" or "native". Raises KernelError."""
    return _evaluate(_prim_func(program), program, inputs, dtype)


def _prim_func(program: Any) -> Any:
    module = getattr(program, "module", program)
    if isinstance(module, tvm.IRModule):
        module = module["main"]
    if not isinstance(module, tvm.tirx.PrimFunc):
        raise KernelError(
            f"a reference needs a PrimFunc or a module with one named 'main', not {type(program).__name__}"
        )
    return module


def _evaluate_valid(
    func: Any, program: Any, seed: int, constants: Collection[int]
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Inputs whose integers are small enough to index with, and their outputs."""
    if hasattr(program, "num_outputs"):  # holds for programs that only the operators can evaluate, too
        read = list(func.params)[: len(func.params) - program.num_outputs]
    else:
        read = [param for param, written in zip(func.params, argument_roles(func), strict=True) if not written]
    extents = [int(n) for param in read for n in param.shape if int(n) > 1]
    low = int(_divides_integers(func))
    limits = dict.fromkeys([_INDEX_LIMIT, min([_INDEX_LIMIT, *extents]), 1])
    failure = KernelError("")
    for limit in limits:
        inputs = make_inputs(read, seed, constants, limit, low)
        try:
            return inputs, _evaluate(func, program, inputs, "float64")
        except KernelError as error:
            failure = error
            if not any(x.dtype.kind in "iu" for x in inputs):
                break
    raise failure


def _divides_integers(func: Any) -> bool:
    """Whether something is divided by an integer that is read: it must not be zero, or the processor traps."""
    found: list[bool] = []
    loads: list[Any] = []

    def look(division: Any) -> None:
        if str(division.ty.dtype).startswith(("int", "uint")):
            tvm_ffi.structural_walk(division.b, (tvm.ir.expr.TensorLoad, loads.append))
            found.append(bool(loads))

    kinds = (tvm.tirx.Div, tvm.tirx.Mod, tvm.tirx.FloorDiv, tvm.tirx.FloorMod)
    tvm_ffi.structural_walk(func.body, (kinds, look))
    return any(found)


def make_inputs(
    params: Sequence[Any], seed: int, constants: Collection[int], limit: int, low: int = 0
) -> tuple[np.ndarray, ...]:
    """Seeded arrays for buffer parameters; ``constants`` are positions of weights.

    Integers lie in [``low``, ``limit``), or are ``low`` where that is empty.
    """
    rng = np.random.default_rng(seed)
    arrays = []
    for i, param in enumerate(params):
        shape, dtype = tuple(int(n) for n in param.shape), np_dtype(str(param.dtype))
        if is_float(dtype):
            scale = 1.0
            if i in constants and len(shape) > 1:
                scale = 1 / math.sqrt(max(1, math.prod(shape) // max(shape)))
            arrays.append((rng.standard_normal(shape, np.float32) * scale).astype(dtype))
        elif dtype.kind == "b":
            arrays.append(rng.integers(0, 2, shape).astype(bool))
        else:
            arrays.append(rng.integers(low, max(limit, low + 1), shape).astype(dtype))
    return tuple(arrays)


def _evaluate(func: Any, program: Any, inputs: Sequence[np.ndarray], dtype: Any) -> tuple[np.ndarray, ...]:
    try:
        return tuple(evaluate_prim_func(func, inputs, dtype))
    except KernelError as error:
        graph = getattr(program, "graph", None)
        if graph is None or unsupported(graph):
            raise
        _log.debug("the operators of %s stand in for its tensor program: %s", graph.name, error)
        try:
            return tuple(evaluate(graph, inputs, dtype))
        except InputError as unfit:
            raise KernelError(str(unfit)) from unfit


def _has_nan(array: np.ndarray) -> bool:
    return is_float(array.dtype) and bool(np.isnan(array).any())
