"""The lowered ``main``: calls of tensor programs and views, written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..models.model import TensorSpec
from ..tvm_seam import relax
from .program import Program, leaves, result_variables, substitute


@dataclass(frozen=True, eq=False)
class CallStep:
    """``outputs = function(*arguments)``: variables and constants of the source ``main``."""

    function: str
    arguments: tuple[Any, ...]
    outputs: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class ViewStep:
    """``output`` is ``source`` in another shape: costs nothing, the same memory."""

    source: Any
    output: Any


Step = CallStep | ViewStep


def build_module(
    program: Program, steps: Sequence[Step], functions: Mapping[str, Any], input_names: Sequence[str] = ()
) -> Any:
    """A module of the tensor programs and a ``main`` with one ``call_tir`` a CallStep, in order.

    ``input_names``: of the parameters of ``main``; default: as in the program.
    """
    builder = relax.BlockBuilder()
    # The attribute keeps functions apart that differ in block names only: BlockBuilder would merge them.
    names = {name: builder.add_func(function.with_attr("name", name), name) for name, function in functions.items()}
    returned = result_variables(program)
    names_in = input_names or [parameter.name for parameter in program.parameters]
    pairs = zip(names_in, program.parameters, strict=True)
    renamed: dict[Any, Any] = {parameter: relax.Var(name, parameter.ty) for name, parameter in pairs}
    parameters = [renamed[parameter] for parameter in program.parameters]
    bindings: list[Any] = []

    def bind(value: Any, variable: Any) -> None:
        kind = relax.Var if variable in returned else relax.DataflowVar
        renamed[variable] = kind(variable.name, variable.ty)
        bindings.append(relax.VarBinding(renamed[variable], builder.normalize(value)))

    for step in steps:
        if isinstance(step, ViewStep):
            bind(relax.op.reshape(substitute(step.source, renamed), step.output.ty.shape), step.output)
            continue
        arguments = [substitute(argument, renamed) for argument in step.arguments]
        types = [variable.ty for variable in step.outputs]
        call = relax.call_tir(names[step.function], arguments, types[0] if len(types) == 1 else types)
        if len(types) == 1:
            bind(call, step.outputs[0])
            continue
        whole = relax.DataflowVar(f"{step.outputs[0].name}_all", builder.normalize(call).ty)
        bindings.append(relax.VarBinding(whole, builder.normalize(call)))
        for index, variable in enumerate(step.outputs):
            bind(relax.TupleGetItem(whole, index), variable)
    body = _body(builder, bindings, substitute(program.result, renamed))
    source = program.module["main"]
    module = builder.get()
    module["main"] = relax.Function(parameters, body, source.ret_ty, is_pure=source.is_pure, attrs=source.attrs)
    return module


def _body(builder: Any, bindings: list[Any], result: Any) -> Any:
    """The bindings in one dataflow block, where there are any: an empty block is not well formed."""
    blocks = [relax.DataflowBlock(bindings)] if bindings else []
    return builder.normalize(relax.SeqExpr(blocks, builder.normalize(result)))


def traffic(steps: Sequence[Step], program: Program) -> int:
    """Bytes that kernels write for, and read from, each other; model inputs, weights and outputs do not count.

    A value that several kernels read counts once for each. An output of the model that another kernel reads counts
    its reads only, since it must be written anyway. Views share their source's memory.
    """
    source = {step.output: step.source for step in steps if isinstance(step, ViewStep)}

    def origin(value: Any) -> Any:
        while value in source:
            value = source[value]
        return value

    reads: dict[Any, int] = {}
    calls = [step for step in steps if isinstance(step, CallStep)]
    for step in calls:
        for value in dict.fromkeys(origin(argument) for argument in step.arguments):
            reads[value] = reads.get(value, 0) + 1
    returned = {origin(leaf) for leaf in leaves(program.result)}
    total = 0
    for step in calls:
        for variable in step.outputs:
            count = reads.get(variable, 0)
            if count:
                total += type_bytes(variable.ty) * (count + (variable not in returned))
    return total


def type_bytes(kind: Any) -> int:
    """Size of a tensor type in memory, in bytes."""
    return TensorSpec("", tuple(int(extent) for extent in kind.shape.values), str(kind.dtype)).bytes
