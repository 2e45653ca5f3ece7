"""Small questions about Relax expressions that importers and canonicalisation share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from workbench.errors import SymbolicShapeError
from workbench.tvm_seam import GenericConst, relax, tvm

from .model import TensorSpec

FIXED_PROGRAM = "write the tensor program for a fixed size"  # a batch is bound in Relax functions only


def op_name(call: relax.Call) -> str:
    """The operator's Relax name without ``relax.``; a function's own name for a call of a function."""
    if isinstance(call.op, tvm.ir.Op):
        return str(call.op.name).removeprefix("relax.")
    return str(getattr(call.op, "name_hint", None) or getattr(call.op, "global_symbol", None) or call.op)


def is_symbol(expr: object) -> bool:
    """True for a symbolic dimension, which TVM 0.27 keeps in the same class as Relax variables."""
    return isinstance(expr, relax.Var) and isinstance(expr.ty, tvm.ir.PrimType)


def static_shape(ty: object) -> tuple[int, ...] | None:
    """The shape of a tensor type when every dimension is a number, else None."""
    dims = getattr(getattr(ty, "shape", None), "values", None)
    if dims is None:
        return None
    if not all(isinstance(d, tvm.tirx.IntImm) for d in dims):
        return None
    return tuple(int(d) for d in dims)


def tensor_spec(name: str, ty: object) -> TensorSpec:
    """The specification of a tensor of static shape."""
    shape = static_shape(ty)
    assert shape is not None, name
    return TensorSpec(name, shape, str(ty.dtype))  # type: ignore[attr-defined]


def tensor_type(buffer: tvm.tirx.Var) -> relax.TensorType:
    """The Relax type of a buffer of a tensor program. Raises SymbolicShapeError for a size that is no number."""
    for dim in buffer.ty.shape:
        if not isinstance(dim, tvm.tirx.IntImm):
            raise SymbolicShapeError(str(dim), f"buffer '{buffer.name}'", FIXED_PROGRAM)
    return relax.TensorType(buffer.ty.shape, str(buffer.ty.dtype))


def bindings_of(func: relax.Function) -> Iterator[relax.Binding]:
    """The bindings of every block of a function, in program order."""
    for block in func.body.blocks:
        yield from block.bindings


def substitute(expr: relax.Expr, mapping: dict[relax.Var, relax.Expr]) -> relax.Expr:
    """``expr`` with variables replaced; an item of a tuple that is written out becomes the field itself."""
    if isinstance(expr, relax.Var):
        return mapping.get(expr, expr)
    if isinstance(expr, relax.Tuple):
        return relax.Tuple([substitute(f, mapping) for f in expr.fields])
    if isinstance(expr, relax.TupleGetItem):
        value = substitute(expr.tuple_value, mapping)
        return value.fields[expr.index] if isinstance(value, relax.Tuple) else relax.TupleGetItem(value, expr.index)
    if isinstance(expr, relax.Call):
        return relax.Call(expr.op, [substitute(a, mapping) for a in expr.args], expr.attrs, expr.ty_args, expr.span)
    return expr


def flatten(expr: relax.Expr) -> list[relax.Expr]:
    """The leaves of a (nested) tuple expression, left to right."""
    if isinstance(expr, relax.Tuple):
        return [leaf for f in expr.fields for leaf in flatten(f)]
    return [expr]


def variables(expr: relax.Expr) -> Iterator[relax.Var]:
    """The tensor variables that an expression reads."""
    if isinstance(expr, relax.Var):
        if not is_symbol(expr):
            yield expr
    elif isinstance(expr, relax.Tuple):
        for field in expr.fields:
            yield from variables(field)
    elif isinstance(expr, relax.TupleGetItem):
        yield from variables(expr.tuple_value)
    elif isinstance(expr, relax.Call):
        for arg in expr.args:
            yield from variables(arg)


def constants(expr: relax.Expr) -> Iterator[GenericConst]:
    """The tensor constants that an expression reads."""
    if isinstance(expr, GenericConst):
        yield expr
    elif isinstance(expr, relax.Tuple):
        for field in expr.fields:
            yield from constants(field)
    elif isinstance(expr, relax.Call):
        for arg in expr.args:
            yield from constants(arg)


def constant(array: np.ndarray) -> GenericConst:
    """A Relax constant of the array's own dtype (``relax.const`` narrows float64 unless told not to)."""
    return relax.const(array, str(array.dtype))


def shape_expr(shape: Sequence[int]) -> relax.ShapeExpr:
    """A static shape argument."""
    return relax.ShapeExpr([int(d) for d in shape])
