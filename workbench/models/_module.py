"""Relax modules in TVMScript or from a BlockBuilder, and modules of one tensor program."""

from __future__ import annotations

from workbench.errors import ModelError
from workbench.tvm_seam import relax, tvm

from ._base import Importer, Request
from ._finish import finish
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
    if len(func.buffer_map) != len(func.params):
        raise ModelError(f"{source}: the tensor program takes a number; only buffers can be inputs of a model")
    buffers = [func.buffer_map[param] for param in func.params]
    written = _written(func)
    is_output = [any(b.same_as(w) for w in written) for b in buffers]
    inputs = is_output.index(True) if True in is_output else len(buffers)
    if not all(is_output[inputs:]) or inputs == len(buffers):
        raise ModelError(f"{source}: the tensor program must write its last buffers, the outputs, and only these")
    builder = relax.BlockBuilder()
    program = builder.add_func(func.without_attr("global_symbol"), "tensor_program")
    types = [relax.TensorType(b.shape, b.dtype) for b in buffers]
    params = [relax.Var(b.name, ty) for b, ty in zip(buffers[:inputs], types, strict=False)]
    with builder.function("main", params):
        with builder.dataflow():
            out = types[inputs:]
            call = relax.op.call_tir(program, params, out_ty=out if len(out) > 1 else out[0])
            output = builder.emit_output(call)
        builder.emit_func_output(output)
    return builder.get()


def _written(func: tvm.tirx.PrimFunc) -> list[object]:
    written: list[object] = []

    def visit(node: object) -> None:
        if isinstance(node, tvm.tirx.BufferStore):
            written.append(node.buffer)

    tvm.tirx.stmt_functor.post_order_visit(func.body, visit)
    return written
