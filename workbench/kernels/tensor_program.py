"""A Primitive function of operators -> one TIR PrimFunc, and its name-free identity."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from ..errors import KernelError, UnsupportedOperator
from ..tvm_seam import relax, tvm, tvm_ffi
from .tvm_errors import TVM_ERRORS, one_line

# What a schedule needs to know of a function; everything else (names, operator patterns) would only split equal tasks.
_KEPT_ATTRIBUTES = ("s_tir", "tirx.noalias")


def lower_function(function: Any, tensor_programs: Mapping[Any, Any], node: str, source: str) -> Any:
    """The PrimFunc of a Primitive function: parameters as in the function, then one per result.

    ``tensor_programs``: the user's own PrimFuncs by GlobalVar, for ``call_tir`` operations. ``node`` and ``source``
    are for messages. Raises UnsupportedOperator for an operator that TVM cannot make a tensor program of.
    """
    module = _carrier(function, tensor_programs)
    try:
        module = legalise(module)
    except TVM_ERRORS as error:
        raise KernelError(f"{source}: node '{node}' cannot be lowered: {one_line(error)}; replace it") from error
    calls = _tensor_program_calls(module["group"], node, source)
    if len(calls) == 1 and not isinstance(module[calls[0].args[0]].body, tvm.s_tir.SBlockRealize):
        return _reorder(module[calls[0].args[0]], calls[0], module["group"], node, source)
    try:
        if _index_types(module) == {"int32", "int64"}:  # TE's own and Relax's: FuseTIR wants one
            module = tvm.tirx.transform.ForceNarrowIndexToInt32()(module)
        module = relax.transform.FuseTIR()(module)
    except TVM_ERRORS as error:
        raise KernelError(f"{source}: group '{node}' cannot be one kernel: {one_line(error)}; split it") from error
    [call] = [b.value for b in module["main"].body.blocks[0].bindings if isinstance(b.value, relax.Call)]
    return module[call.args[0]]


def legalise(module: Any) -> Any:
    """Operators as calls of tensor programs, wherever TVM has one for a CPU."""
    with tvm.target.Target("llvm"):  # sorting and scanning are dispatched by the kind of target
        passes = [
            relax.transform.DecomposeOpsForInference(),
            relax.backend.DispatchSampling(),
            relax.backend.DispatchSortScan(),
            relax.transform.LegalizeOps(),
        ]
        return tvm.transform.Sequential(passes)(module)


def _carrier(function: Any, tensor_programs: Mapping[Any, Any]) -> Any:
    """A module whose ``main`` calls the function once, with fresh names for all that the user could have named."""
    builder = relax.BlockBuilder()
    renamed = {}
    for index, (variable, program) in enumerate(tensor_programs.items()):
        renamed[variable] = builder.add_func(program.without_attr("global_symbol"), f"program_{index}")
    body = function.body
    block = body.blocks[0]
    bindings = [relax.VarBinding(b.var, builder.normalize(_retarget(b.value, renamed))) for b in block.bindings]
    inner = relax.Function(
        function.params,
        relax.SeqExpr([relax.DataflowBlock(bindings)], body.body),
        function.ret_ty,
        is_pure=True,
        attrs=function.attrs,
    )
    group = builder.add_func(inner, "group")
    parameters = [relax.Var("x", parameter.ty) for parameter in function.params]
    with builder.function("main", parameters):
        with builder.dataflow():
            result = builder.emit_output(relax.Call(group, parameters))
        builder.emit_func_output(result)
    return builder.get()


def _index_types(module: Any) -> set[str]:
    """The types of the dimensions of all tensor programs' arguments."""
    programs = [function for function in module.functions.values() if isinstance(function, tvm.tirx.PrimFunc)]
    buffers = [parameter.ty for program in programs for parameter in program.params]
    return {str(extent.ty.dtype) for buffer in buffers for extent in getattr(buffer, "shape", ())}


def _retarget(value: Any, renamed: Mapping[Any, Any]) -> Any:
    if isinstance(value, relax.Call) and value.args and value.args[0] in renamed:
        return relax.Call(value.op, [renamed[value.args[0]], *value.args[1:]], value.attrs, value.ty_args)
    return value


def _tensor_program_calls(function: Any, node: str, source: str) -> list[Any]:
    """All calls of a legalised function; UnsupportedOperator for one that is still an operator."""
    calls = []
    for block in function.body.blocks:
        for binding in block.bindings:
            value = binding.value
            if not isinstance(value, relax.Call):
                continue
            name = str(getattr(value.op, "name", value.op))
            if name != "relax.call_tir":
                raise UnsupportedOperator(name.removeprefix("relax."), node, source)
            calls.append(value)
    return calls


def _reorder(program: Any, call: Any, function: Any, node: str, source: str) -> Any:
    """The user's program itself, where FuseTIR needs a block structure that it does not have."""
    arguments = list(call.args[1].fields)
    if len(set(arguments)) != len(arguments) or set(arguments) != set(function.params):
        raise KernelError(f"{source}: tensor program '{node}' reads one tensor twice; give it a root block, or a copy")
    order = [arguments.index(parameter) for parameter in function.params]
    parameters = [program.params[index] for index in order] + list(program.params[len(arguments) :])
    return tvm.tirx.PrimFunc(parameters, program.body, program.ret_type, program.attrs)


def normalise(program: Any, layout_free: tuple[int, ...]) -> Any:
    """The function with the attributes that count only, ``layout_free`` among them, named ``main``."""
    attributes = {name: program.attrs[name] for name in _KEPT_ATTRIBUTES if name in program.attrs}
    attributes |= {"tirx.noalias": True, "global_symbol": "main"}
    if layout_free:
        attributes["layout_free_buffers"] = list(layout_free)
    plain = tvm.tirx.PrimFunc(list(program.params), program.body, program.ret_type)
    return plain.with_attrs(attributes)


def program_key(program: Any) -> str:
    """sha256 of a normalised function's text in which variables are numbered in order of appearance.

    Equal for functions that differ in variables' names, or in which equal expressions are shared differently (TVM's own
    JSON tells both apart). Names of blocks count: traces address blocks by name, which TVM's structural hash ignores.
    """
    numbered: dict[Any, Any] = {}

    def number(variable: Any) -> Any:
        if variable not in numbered:
            numbered[variable] = type(variable)(f"v{len(numbered)}", variable.ty)
        return numbered[variable]

    renamed = tvm_ffi.structural_map(program, [(tvm.ir.Var, number)])
    return hashlib.sha256(renamed.script(show_meta=True).encode()).hexdigest()


def structural_key(function: Any) -> Any:
    """Equal, as a dictionary key, for functions of equal structure."""
    return tvm_ffi.StructuralKey(function)  # type: ignore[call-arg]
