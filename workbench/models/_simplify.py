"""Operator by operator: what becomes of a binding on the way to the canonical form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from workbench.errors import ModelError, SymbolicShapeError, UnsupportedOperator
from workbench.tvm_seam import relax, tvm

from ._relax import FIXED_PROGRAM, constant, op_name, shape_expr, static_shape
from .model import numpy_dtype

_RESHAPES = frozenset({"reshape", "flatten", "squeeze", "expand_dims", "view"})
_COPIES = frozenset({"wrap_param", "builtin.stop_lift_params", "hint_on_device", "to_vdevice", "stop_gradient"})
_FOREIGN = ("call_tir_inplace", "call_tir_with_grad", "call_dps_packed", "call_pure_packed", "call_inplace_packed")


class Simplifier:
    """Takes bindings in program order; ``kept`` collects those that remain, as (variable, value) pairs.

    Calling it returns what stands for the bound variable from here on: the variable itself when its binding is kept,
    otherwise the equal expression that makes the binding superfluous.
    """

    def __init__(self, module: tvm.IRModule, source: str) -> None:
        self._module = module
        self.kept: list[tuple[relax.Var, relax.Expr]] = []
        self._source = source
        self._builder = relax.BlockBuilder()
        self._value_of: dict[relax.Var, relax.Expr] = {}
        self._items: dict[tuple[relax.Var, int], relax.Var] = {}

    def __call__(self, var: relax.Var, value: relax.Expr) -> relax.Expr:
        if isinstance(value, relax.Call):
            return self._call(var, value)
        if isinstance(value, relax.TupleGetItem):
            return self._item(var, value)
        if isinstance(value, relax.Function):
            raise UnsupportedOperator("closure", var.name, self._source)
        return value  # a variable, a constant, a written-out tuple or a shape: whoever reads it reads the value

    def _call(self, var: relax.Var, call: relax.Call) -> relax.Expr:
        name = op_name(call)
        if name in _FOREIGN or not isinstance(call.op, tvm.ir.Op):
            raise UnsupportedOperator(name, var.name, self._source)
        if name in _COPIES:
            return call.args[0]
        if name == "null_value":  # an optional result that is absent
            return relax.Tuple([])
        if name == "arange" and all(_is_number(a) for a in call.args):
            return constant(np.arange(*[a.value for a in call.args], dtype=numpy_dtype(str(call.attrs.dtype))))
        if name == "nn.dropout":  # the identity when a model is only run; its mask has no meaning then
            return relax.Tuple([call.args[0], call.args[0]])
        if name == "nn.batch_norm":
            self._require_inference(var, call)
        if name == "call_tir":
            self._require_static_program(call)
        if name in _RESHAPES:
            return self._reshape(var, call)
        same = _IDENTITIES.get(name)
        if same is not None and same(call, var.ty):
            return call.args[0]
        return self._keep(var, call)

    def _reshape(self, var: relax.Var, call: relax.Call) -> relax.Expr:
        """``flatten``, ``squeeze`` and ``expand_dims`` are reshapes too; a reshape of a reshape is one."""
        shape = static_shape(var.ty)
        if shape is None:
            raise self._unknown_shape(var, call)
        operand = call.args[0]
        inner = self._value_of.get(operand) if isinstance(operand, relax.Var) else None
        if isinstance(inner, relax.Call) and op_name(inner) == "reshape":
            operand = inner.args[0]
        if static_shape(operand.ty) == shape:
            return operand
        return self._keep(var, relax.op.reshape(operand, shape_expr(shape)))

    def _item(self, var: relax.Var, item: relax.TupleGetItem) -> relax.Expr:
        """One binding for each item of a tuple result, however often it is taken."""
        operand = item.tuple_value
        if not isinstance(operand, relax.Var):
            raise UnsupportedOperator(f"item {item.index} of {operand}", var.name, self._source)
        producer = self._value_of.get(operand)
        if isinstance(producer, relax.Call) and op_name(producer) == "nn.batch_norm" and item.index != 0:
            raise ModelError(
                f"{self._source}: node '{var.name}' reads the running statistics that batch_norm returns; "
                "export the model in inference mode"
            )
        key = (operand, item.index)
        if key not in self._items:
            self._items[key] = self._keep(var, item)
        return self._items[key]

    def _keep(self, var: relax.Var, value: relax.Expr) -> relax.Var:
        normal = self._builder.normalize(value)
        if isinstance(value, relax.Call) and not _is_static(normal.ty):
            raise self._unknown_shape(var, value)
        fresh = relax.DataflowVar(var.name, normal.ty)
        self._value_of[fresh] = normal
        self.kept.append((fresh, normal))
        return fresh

    def _unknown_shape(self, var: relax.Var, call: relax.Call) -> UnsupportedOperator:
        return UnsupportedOperator(f"{op_name(call)} (its result's shape depends on data)", var.name, self._source)

    def _require_inference(self, var: relax.Var, call: relax.Call) -> None:
        if call.attrs.training:
            raise ModelError(
                f"{self._source}: batch_norm at node '{var.name}' is in training form; "
                "export the model in inference mode (training=False)"
            )

    def _require_static_program(self, call: relax.Call) -> None:
        """A tensor program that is generic in a size would be tuned for none, and binding a batch does not reach it."""
        name = call.args[0].name_hint
        for buffer in self._module[call.args[0]].params:
            if not tvm.tirx.is_buffer_var(buffer):
                raise SymbolicShapeError(buffer.name, f"{self._source}: tensor program '{name}'", FIXED_PROGRAM)
            for dim in buffer.ty.shape:
                if not isinstance(dim, tvm.tirx.IntImm):
                    raise SymbolicShapeError(str(dim), f"{self._source}: tensor program '{name}'", FIXED_PROGRAM)


def _is_number(arg: object) -> bool:
    return isinstance(arg, tvm.tirx.IntImm | tvm.tirx.FloatImm)


def _is_static(ty: object) -> bool:
    if isinstance(ty, relax.TupleType):
        return all(_is_static(field) for field in ty.fields)
    return not isinstance(ty, relax.TensorType) or static_shape(ty) is not None


def _same_type(call: relax.Call, ty: relax.TensorType) -> bool:
    operand = call.args[0].ty
    shape = static_shape(operand)
    return shape is not None and shape == static_shape(ty) and operand.dtype == ty.dtype


def _is_whole_slice(call: relax.Call, ty: relax.TensorType) -> bool:
    steps = call.args[4] if len(call.args) > 4 else None
    forward = steps is None or all(int(getattr(s, "value", -1)) == 1 for s in steps.fields)
    return forward and _same_type(call, ty)


def _is_unpermuted(call: relax.Call, ty: relax.TensorType) -> bool:
    axes = call.attrs.axes
    return axes is not None and [int(a) % len(axes) for a in axes] == list(range(len(axes)))


# The operand stands for the result where the function says so.
_IDENTITIES: dict[str, Callable[[relax.Call, relax.TensorType], bool]] = {
    "astype": _same_type,
    "broadcast_to": _same_type,
    "permute_dims": _is_unpermuted,
    "strided_slice": _is_whole_slice,
}
