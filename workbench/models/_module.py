"""Relax modules in TVMScript or from a BlockBuilder, and modules of one tensor program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from workbench.errors import ModelError
from workbench.tvm_seam import relax, tvm

from ._base import Importer, Request
from ._finish import finish
from ._relax import tensor_type
from .model import Model
from .symbols import bind_module


class ModuleImporter(Importer):
    """Reads an IRModule with a Relax ``main``, or with a PrimFunc ``main`` whose last buffers are its outputs."""

    kind = "a Relax IRModule"

    def accepts(self, request: Request) -> bool:
        return isinstance(request.source, tvm.IRModule)

    def read(self, request: Request) -> Model:
        return from_module(request.source, request, request.name or "module", "IRModule")


def from_module(module: tvm.IRModule, request: Request, name: str, source: str) -> Model:
    """The model of an IRModule."""
    entries = {g.name_hint: f for g, f in module.functions_items()}
    if isinstance(entries.get("main"), tvm.tirx.PrimFunc):
        module = calling_module(entries["main"], source)
    return finish(bind_module(module, request.batch, source), name=name, source=source)


def calling_module(func: tvm.tirx.PrimFunc, source: str) -> tvm.IRModule:
    """A Relax ``main`` that calls one tensor program.

    The buffers that the program writes are the outputs, the others the inputs. Raises ModelError when a parameter is
    no buffer or an output comes before an input: ``call_tir`` passes inputs first.
    """
    buffers = list(func.params)
    if not all(tvm.tirx.is_buffer_var(buffer) for buffer in buffers):
        raise ModelError(f"{source}: the tensor program takes a number; only buffers can be inputs of a model")
    written = set(_stored(func.body))
    is_output = [buffer in written for buffer in buffers]
    inputs = is_output.index(True) if True in is_output else len(buffers)
    if not all(is_output[inputs:]) or inputs == len(buffers):
        raise ModelError(f"{source}: the tensor program must write its last buffers, the outputs, and only these")
    builder = relax.BlockBuilder()
    program = builder.add_func(func.without_attr("global_symbol"), "tensor_program")
    types = [tensor_type(b) for b in buffers]
    params = [relax.Var(b.name, ty) for b, ty in zip(buffers[:inputs], types, strict=False)]
    with builder.function("main", params):
        with builder.dataflow():
            out = types[inputs:]
            call = relax.op.call_tir(program, params, out_ty=out if len(out) > 1 else out[0])
            output = builder.emit_output(call)
        builder.emit_func_output(output)
    return builder.get()


def _stored(statement: Any) -> Iterator[Any]:
    """The buffers that a statement writes."""
    if isinstance(statement, tvm.tirx.BufferStore):
        yield statement.buffer
        return
    for child in ("block", "init", "body", "then_case", "else_case"):
        inner = getattr(statement, child, None)
        if inner is not None:
            yield from _stored(inner)
    for inner in getattr(statement, "seq", ()):
        yield from _stored(inner)
