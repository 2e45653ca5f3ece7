"""Splits a scheduled function into the kernel and the re-packing of its constants.

MetaSchedule's ``RewriteLayout`` puts the re-packing of layout-free arguments into the kernel itself, as blocks marked
``meta_schedule.layout_rewrite_preproc``::

    main(x, w, y):  w_packed = pack(w);  y = f(x, w_packed)
    ->  prepack(w, w_packed)             run once, at load
        kernel(x, w_packed, y)           run at every call
"""

from __future__ import annotations

from typing import Any

from ..errors import KernelError
from ..tvm_seam import relax, tvm
from .kernel import PackedArgument

_PREPROCESSING = "meta_schedule.layout_rewrite_preproc"


def split_prepack(function: Any, num_outputs: int) -> tuple[Any, Any | None, tuple[PackedArgument, ...]]:
    """(kernel, prepack or None, packed arguments) of a scheduled PrimFunc whose last ``num_outputs`` are outputs.

    ``prepack`` takes the packed arguments' originals in order of their index, then the packed results in that order.
    TVM splits functions that a Relax ``main`` calls, so the function is wrapped in one for the pass.
    """
    if not _has_preprocessing(function):
        return function, None, ()
    module = relax.transform.SplitLayoutRewritePreproc()(_wrap(function, num_outputs))
    bindings = {b.var: b.value for b in module["relax_main"].body.blocks[0].bindings}
    calls = {c.args[0].name_hint: c for c in bindings.values() if _is_call_tir(c)}
    if "wb_prepacked" not in calls or "wb_weight_prepack" not in calls:
        raise KernelError("the re-packing of constants cannot be taken out of the scheduled function; retune the task")
    position = {parameter: index for index, parameter in enumerate(module["relax_main"].params)}
    sources = [position[argument] for argument in calls["wb_weight_prepack"].args[1].fields]
    results: list[int] = []  # argument index -> which result of the prepack it takes
    packed: list[PackedArgument] = []
    kernel = module["wb_prepacked"]
    for index, argument in enumerate(calls["wb_prepacked"].args[1].fields):
        value = bindings.get(argument)
        if isinstance(value, relax.TupleGetItem):
            results.append(int(value.index))
        elif value is not None:
            results.append(0)
        else:
            continue
        buffer = kernel.params[index]
        packed.append(PackedArgument(index, tuple(int(extent) for extent in buffer.shape), str(buffer.dtype)))
    prepack = module["wb_weight_prepack"]
    order = [sources.index(argument.index) for argument in packed] + [len(sources) + result for result in results]
    parameters = [prepack.params[index] for index in order]
    prepack = tvm.tirx.PrimFunc(parameters, prepack.body, prepack.ret_type, prepack.attrs)
    return kernel, prepack, tuple(packed)


def _has_preprocessing(function: Any) -> bool:
    """Whether a top-level loop nest of the function ends in a marked block; RewriteLayout puts them nowhere else."""
    pending = [function.body.block.body] if isinstance(function.body, tvm.s_tir.SBlockRealize) else []
    while pending:
        statement = pending.pop()
        if isinstance(statement, tvm.tirx.SeqStmt):
            pending.extend(statement.seq)
        elif isinstance(statement, tvm.tirx.For):
            pending.append(statement.body)
        elif isinstance(statement, tvm.s_tir.SBlockRealize) and _PREPROCESSING in statement.block.annotations:
            return True
    return False


def _is_call_tir(value: Any) -> bool:
    return isinstance(value, relax.Call) and getattr(value.op, "name", "") == "relax.call_tir"


def _wrap(function: Any, num_outputs: int) -> Any:
    """A Relax module whose ``relax_main`` calls the function once."""
    types = [relax.TensorType(list(buffer.shape), str(buffer.dtype)) for buffer in function.params]
    inputs = [relax.Var(f"a{index}", kind) for index, kind in enumerate(types[: len(types) - num_outputs])]
    outputs = types[len(types) - num_outputs :]
    builder = relax.BlockBuilder()
    name = builder.add_func(function.with_attr("global_symbol", "wb"), "wb")
    with builder.function("relax_main", inputs):
        with builder.dataflow():
            call = relax.call_tir(name, inputs, outputs[0] if num_outputs == 1 else outputs)
            result = builder.emit_output(call)
        builder.emit_func_output(result)
    return builder.get()
