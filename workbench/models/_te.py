"""Tensor expressions (TE)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.errors import ModelError
from workbench.tvm_seam import relax, tvm

from ._base import Importer, Request
from ._finish import finish
from ._relax import tensor_type
from ._te_stages import Stage, stages
from .model import Model
from .symbols import bind_module


class TensorExpressionImporter(Importer):
    """Reads one TE tensor, or a list of placeholders and outputs in which placeholders may be left out."""

    kind = "a list of TE tensors"

    def accepts(self, request: Request) -> bool:
        return is_te(request.source)

    def read(self, request: Request) -> Model:
        return from_te(request.source, request, request.name or "tensor_expression", "TE tensors")


def is_te(source: object) -> bool:
    """Whether the object is a TE tensor or a sequence of these."""
    if isinstance(source, tvm.te.Tensor):
        return True
    return isinstance(source, Sequence) and bool(source) and all(isinstance(t, tvm.te.Tensor) for t in source)


def from_te(source: Any, request: Request, name: str, label: str) -> Model:
    """The model whose outputs are the tensors that are no placeholders, each stage one ``call_tir``.

    Inputs are the placeholders in the given order, then those found on the way from the outputs to their operands,
    first operand first.
    """
    tensors = [source] if isinstance(source, tvm.te.Tensor) else list(source)
    outputs = [t for t in tensors if not _is_placeholder(t)]
    if not outputs:
        raise ModelError(f"{label}: only placeholders were given; return the computed tensors too")
    inputs = _unique([t for t in tensors if _is_placeholder(t)] + _placeholders(outputs))
    func = tvm.te.create_prim_func([*inputs, *_unique(outputs)])
    buffers = list(func.params)  # inputs, then outputs
    module = _module(stages(func, label), buffers[: len(inputs)], buffers[len(inputs) :])
    return finish(bind_module(module, request.batch, label), name=name, source=label)


def _is_placeholder(tensor: Any) -> bool:
    return isinstance(tensor.op, tvm.te.PlaceholderOp)


def _unique(tensors: list[Any]) -> list[Any]:
    seen: list[Any] = []
    for tensor in tensors:
        if not any(tensor.same_as(other) or tensor == other for other in seen):
            seen.append(tensor)
    return seen


def _placeholders(outputs: list[Any]) -> list[Any]:
    found, visited, stack = [], set(), outputs[::-1]
    while stack:
        tensor = stack.pop()
        if tensor.op in visited:
            continue
        visited.add(tensor.op)
        if _is_placeholder(tensor):
            found.append(tensor)
        stack.extend(reversed(list(tensor.op.input_tensors)))
    return found


def _module(program: list[Stage], inputs: list[Any], outputs: list[Any]) -> tvm.IRModule:
    """A Relax ``main`` that calls the stages in order."""
    builder = relax.BlockBuilder()
    params = [relax.Var(b.name, tensor_type(b)) for b in inputs]
    value_of = dict(zip(inputs, params, strict=True))
    with builder.function("main", params):
        with builder.dataflow():
            for stage in program:
                callee = builder.add_func(stage.func, stage.name)
                types = [tensor_type(b) for b in stage.writes]
                args = [value_of[b] for b in stage.reads]
                call = builder.emit(relax.op.call_tir(callee, args, out_ty=types if len(types) > 1 else types[0]))
                for index, buffer in enumerate(stage.writes):
                    value_of[buffer] = builder.emit(relax.TupleGetItem(call, index)) if len(types) > 1 else call
            results = [value_of[b] for b in outputs]
            output = builder.emit_output(results[0] if len(results) == 1 else relax.Tuple(results))
        builder.emit_func_output(output)
    return builder.get()
