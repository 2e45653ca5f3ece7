"""A Relax function as a Graph."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import ModelError, SymbolicShapeError
from ..tvm_seam import GenericConst, relax, tvm
from ._classify import kind_of
from ._cost import cost_of
from .graph import Graph, Node, Value

_log = logging.getLogger(__name__)

# Names of the arguments that are no tensors, by position; an argument that is not listed becomes ``arg<i>``.
_ARGUMENT_NAMES: dict[str, dict[int, str]] = {
    "reshape": {1: "shape"},
    "broadcast_to": {1: "shape"},
    "clip": {1: "min", 2: "max"},
    "strided_slice": {1: "axes", 2: "begin", 3: "end", 4: "strides"},
    "full": {0: "shape"},
    "zeros": {0: "shape"},
    "ones": {0: "shape"},
    "arange": {0: "start", 1: "end", 2: "step"},
    "eye": {0: "n", 1: "m", 2: "k"},
    "eye_like": {1: "k"},
    "one_hot": {1: "on_value", 2: "off_value"},
    "triu": {1: "k"},
    "tril": {1: "k"},
    "image.resize2d": {1: "size"},
    "collapse_sum_to": {1: "shape"},
}


@dataclass
class _Draft:
    """A node while its tuple items are still being found."""

    id: str
    op: str
    inputs: tuple[str, ...]
    attrs: dict[str, object]
    types: tuple[Any, ...]  # of the items, or of the one result
    is_tuple: bool
    bindings: list[str]
    items: dict[int, str] = field(default_factory=dict)  # tuple index -> value name


# What a Relax variable stands for: a value's name, a node whose result is a tuple, or a tuple of such.
_Ref = str | _Draft | tuple


def from_model(model: Any) -> Graph:
    """The graph of a Model's ``main``. Raises ModelError, SymbolicShapeError."""
    builder = _Builder(model.module["main"], model.source, model.module)
    return replace(builder.build(model.name, model.fingerprint), module=model.module)


def from_function(func: Any, name: str, fingerprint: str = "", module: Any = None) -> Graph:
    """The graph of one Relax function; ``module`` is where its ``call_tir`` callees are found.

    Aliases are followed. Parameters become inputs, tensor constants constant values. Raises ModelError for control
    flow, SymbolicShapeError for a dimension without a size.
    """
    return _Builder(func, name, module).build(name, fingerprint)


class _Builder:
    def __init__(self, func: Any, source: str, module: Any) -> None:
        self.func, self.source, self.module = func, source, module
        self.values: dict[str, Value] = {}
        self.names: set[str] = set()
        self.env: dict[Any, _Ref] = {}
        self.constants: dict[Any, str] = {}
        self.drafts: list[_Draft] = []

    def build(self, name: str, fingerprint: str) -> Graph:
        inputs = [self._parameter(p) for p in self.func.params]
        body = self.func.body
        blocks = body.blocks if isinstance(body, relax.SeqExpr) else []
        for block in blocks:
            for binding in block.bindings:
                self._binding(binding)
        returned = self._ref(body.body if isinstance(body, relax.SeqExpr) else body)
        outputs = tuple(self._flat(returned))
        nodes = tuple(self._finish(draft) for draft in self.drafts)
        return Graph(
            name=name,
            nodes=nodes,
            values=MappingProxyType(self.values),
            inputs=tuple(i for i in inputs if i is not None),
            outputs=outputs,
            fingerprint=fingerprint,
        )

    def _parameter(self, param: Any) -> str | None:
        if not isinstance(param.ty, relax.TensorType):
            raise ModelError(f"{self.source}: parameter '{param.name}' is no tensor but {param.ty}; pass tensors only")
        name = self._unique(param.name)
        self.env[param] = name
        self._value(name, param.ty)
        return name

    def _unique(self, name: str) -> str:
        unique, i = name, 1
        while unique in self.names:
            unique, i = f"{name}_{i}", i + 1
        self.names.add(unique)
        return unique

    def _value(self, name: str, ty: Any, producer: str | None = None) -> Value:
        if isinstance(ty, relax.TensorType):
            value = Value(name, self._shape(ty, name), str(ty.dtype), producer)
        else:  # a shape, a scalar or an object: no tensor, but a node may hand it on
            value = Value(name, (), "int64", producer)
        self.values[name] = value
        return value

    def _shape(self, ty: Any, name: str) -> tuple[int, ...]:
        if ty.shape is None:
            raise ModelError(f"{self.source}: the shape of '{name}' is not known; give the model static shapes")
        dims = ty.shape.values if isinstance(ty.shape, relax.ShapeExpr) else ty.shape
        return tuple(self._dimension(d) for d in dims)

    def _dimension(self, dim: Any) -> int:
        try:
            return int(dim)
        except (TypeError, ValueError):
            raise SymbolicShapeError(str(dim), self.source) from None

    def _binding(self, binding: Any) -> None:
        var, value = binding.var, binding.value
        if isinstance(binding, relax.MatchCast) or not isinstance(value, relax.Call):
            if isinstance(value, relax.TupleGetItem):
                self.env[var] = self._item(self._ref(value.tuple_value), value.index, var.name)
            elif isinstance(value, relax.If | relax.Function):
                raise ModelError(f"{self.source}: '{var.name}' is control flow; give one straight-line function")
            else:
                self.env[var] = self._ref(value)
            return
        draft = self._call(self._unique(var.name), value, var.ty)
        self.drafts.append(draft)
        if draft.is_tuple:
            self.env[var] = draft
        else:
            draft.items[0] = draft.id
            self._value(draft.id, draft.types[0], draft.id)
            self.env[var] = draft.id

    def _call(self, node_id: str, call: Any, ty: Any) -> _Draft:
        op, inputs, attrs = self._operator(call)
        is_tuple = isinstance(ty, tvm.ir.TupleType)
        types = tuple(ty.fields) if is_tuple else (ty,)
        return _Draft(node_id, op, tuple(inputs), attrs, types, is_tuple, [node_id])

    def _operator(self, call: Any) -> tuple[str, list[str], dict[str, object]]:
        inputs: list[str] = []
        attrs: dict[str, object] = {}
        if not isinstance(call.op, tvm.ir.Op):
            self._arguments("call", list(call.args), inputs, attrs)
            return f"call:{getattr(call.op, 'name_hint', type(call.op).__name__)}", inputs, attrs
        op = call.op.name.removeprefix("relax.")
        attrs = _attributes(call.attrs)
        args = list(call.args)
        if op.startswith("call_tir") and isinstance(args[0], tvm.ir.GlobalVar):
            function = args[0].name_hint
            attrs["function"] = function
            if self.module is not None:
                attrs["prim_func"] = self.module[args[0]]
                attrs["flops"] = _program_flops(attrs["prim_func"], function)
            op, args = f"{op}:{function}", args[1:]
        self._arguments(op, args, inputs, attrs)
        return op, inputs, attrs

    def _arguments(self, op: str, args: list[Any], inputs: list[str], attrs: dict[str, object]) -> None:
        names = _ARGUMENT_NAMES.get(op, {})
        for i, arg in enumerate(args):
            if i in names or not self._is_tensor(arg):
                attrs[names.get(i, f"arg{i}")] = self._plain_argument(arg)
            else:
                inputs.extend(self._flat(self._ref(arg)))

    def _is_tensor(self, arg: Any) -> bool:
        if isinstance(arg, GenericConst):
            return True
        if isinstance(arg, relax.Tuple):
            return all(self._is_tensor(f) for f in arg.fields)
        if isinstance(arg, relax.Var):
            return arg in self.env
        return isinstance(arg, relax.TupleGetItem)

    def _plain_argument(self, arg: Any) -> object:
        if isinstance(arg, relax.ShapeExpr):
            return tuple(self._dimension(d) for d in arg.values)
        if isinstance(arg, relax.Tuple):
            return tuple(self._plain_argument(f) for f in arg.fields)
        if isinstance(arg, tvm.tirx.Var):
            raise SymbolicShapeError(str(arg), self.source)
        return _plain(arg)

    def _ref(self, expr: Any) -> _Ref:
        if isinstance(expr, GenericConst):
            return self._constant(expr)
        if isinstance(expr, relax.Tuple):
            return tuple(self._ref(f) for f in expr.fields)
        if isinstance(expr, relax.TupleGetItem):
            return self._item(self._ref(expr.tuple_value), expr.index, None)
        if isinstance(expr, relax.Var) and expr in self.env:
            return self.env[expr]
        raise ModelError(f"{self.source}: cannot read the expression '{expr}'; bind it to a variable first")

    def _constant(self, constant: Any) -> str:
        known = self.constants.get(constant)
        if known is None:
            known = self.constants[constant] = self._unique(f"const_{len(self.constants)}")
            data = constant_data(constant.value)
            self.values[known] = Value(known, tuple(data.shape), str(constant.ty.dtype), None, data)
        return known

    def _item(self, ref: _Ref, index: int, binding: str | None) -> _Ref:
        if isinstance(ref, tuple):
            return ref[index]
        if not isinstance(ref, _Draft):
            raise ModelError(f"{self.source}: item {index} is taken from '{ref}', which is no tuple")
        if binding is not None:
            ref.bindings.append(binding)
        if index not in ref.items:
            name = ref.items[index] = self._unique(binding or f"{ref.id}.{index}")
            self._value(name, ref.types[index], ref.id)
        return ref.items[index]

    def _flat(self, ref: _Ref) -> Iterable[str]:
        if isinstance(ref, str):
            return [ref]
        parts = ref if isinstance(ref, tuple) else [self._item(ref, i, None) for i in range(len(ref.types))]
        return [name for part in parts for name in self._flat(part)]

    def _finish(self, draft: _Draft) -> Node:
        if draft.is_tuple and not draft.items:
            self._flat(draft)
        items = tuple(sorted(draft.items))
        if draft.is_tuple:
            draft.attrs["tuple_items"] = items
        outputs = tuple(draft.items[i] for i in items)
        read = [self.values[name] for name in draft.inputs]
        made = [self.values[name] for name in outputs]
        flops, space = cost_of(draft.op, read, made, draft.attrs)
        return Node(
            id=draft.id,
            op=draft.op,
            kind=kind_of(draft.op, read, made),
            inputs=draft.inputs,
            outputs=outputs,
            attrs=MappingProxyType(draft.attrs),
            bindings=tuple(draft.bindings),
            flops=flops,
            space=space,
        )


def constant_data(tensor: Any) -> np.ndarray:
    """A runtime tensor as a read-only array; shares memory where DLPack knows the dtype."""
    try:
        data = np.from_dlpack(tensor)
    except (BufferError, TypeError, RuntimeError):  # bfloat16 and 8-bit floats
        data = tensor.numpy()
    data = data.view()
    data.flags.writeable = False
    return data


def _program_flops(prim_func: Any, name: str) -> float:
    """TVM's count of a tensor program's operations; 0 for one that it cannot count, such as a while loop."""
    try:
        return float(tvm.s_tir.analysis.estimate_tir_flops(prim_func.body))
    except (RuntimeError, TypeError, ValueError) as error:
        _log.debug("operations of %s are not counted: %s", name, error)
        return 0.0


_FIELDS: dict[type, tuple[str, ...]] = {}


def _attributes(attrs: Any) -> dict[str, object]:
    """A call's attributes as plain values; object attributes know their fields only through their type's reflection."""
    if attrs is None:
        return {}
    if isinstance(attrs, tvm.ir.attrs.DictAttrs):
        return {str(k): _plain(attrs[k]) for k in attrs.keys()}  # noqa: SIM118  no mapping
    kind = type(attrs)
    if kind not in _FIELDS:
        infos = [c.__dict__["__tvm_ffi_type_info__"] for c in kind.__mro__ if "__tvm_ffi_type_info__" in c.__dict__]
        _FIELDS[kind] = tuple(dict.fromkeys(f.name for info in infos for f in info.fields))
    return {name: _plain(getattr(attrs, name)) for name in _FIELDS[kind]}


def _plain(value: Any) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, tvm.tirx.IntImm):
        return bool(value.value) if str(value.ty) == "bool" else int(value.value)
    if isinstance(value, tvm.tirx.FloatImm):
        return float(value.value)
    if isinstance(value, tvm.ir.StringImm):
        return str(value.value)
    if isinstance(value, tvm.tirx.IndexMap):
        return value
    if isinstance(value, Mapping):
        return tuple((str(k), _plain(v)) for k, v in value.items())
    if isinstance(value, list | tuple) or type(value).__name__ == "Array":
        return tuple(_plain(v) for v in value)
    return str(value)
