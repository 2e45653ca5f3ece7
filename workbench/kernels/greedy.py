"""TVM's own fusion: FuseOps decides the partition, everything else is as for a plan."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ..errors import IllegalGroup, KernelError, UnsupportedOperator
from ..graph import from_model
from ..models import Model
from ..tvm_seam import GenericConst, relax, tvm
from .batchnorm import decompose, is_foldable
from .lower import Lowering, group_workload, make_workload, refuse_foreign
from .main_function import ViewStep
from .outline import OutlinedGroup, outline
from .program import Operation, Program, output_list, read_program, result_variables, substitute
from .tensor_program import legalise, lower_function
from .tvm_errors import TVM_ERRORS, one_line
from .workload import LoweredModel, Workload

_MARK = re.compile(r"wbv(\d+)p\d+q")  # operation, and which of its bindings


def lower_greedy(model: Model) -> LoweredModel:
    """The variant ``greedy``: what a user of TVM 0.27 gets from its fusion on a CPU.

    DecomposeOpsForInference, CanonicalizeBindings, LegalizeOps, AnnotateTIROpPattern, FoldConstant, FuseOps, FuseTIR,
    on the model without aliases (TVM's memory planner returns wrong results behind ``match_cast``). A workload that is
    also one of the plan's has the plan's key and graph. Raises UnsupportedOperator, KernelError.
    """
    program = read_program(model.module, model.source)
    refuse_foreign(program, model.source)
    legal = _legalise(program, model.source)
    tensor_level = read_program(legal, model.source)
    _require_tensor_programs(tensor_level, program, model.source)
    partition = fuse_ops_partition(legal, tensor_level)
    nodes = _nodes_of(program, tensor_level, partition)
    high_level = _high_level_groups(program, nodes)
    graph = from_model(model)
    lowering = Lowering(model, tensor_level, [spec.name for spec in model.inputs])
    for group in outline(tensor_level, partition):
        if _is_view(group, legal):
            lowering.steps.append(ViewStep(group.inputs[0], group.outputs[0]))
            continue
        known = nodes.get(group.id, ())
        ops = tuple(graph.node(node).op for node in known) or _tensor_ops(group)
        make = partial(_workload, group, legal, ops, high_level.get(group.id), program, model)
        workload = lowering.lowered_once(group, make)
        lowering.add_call(workload, (*group.inputs, *group.constants), group.outputs, group.id, known, group.id)
    return lowering.finish("greedy")


def _legalise(program: Program, source: str) -> Any:
    """The model on the level of tensor programs, before fusion; variables are named after operations' positions."""
    module = _marked_module(program)
    before = tvm.transform.Sequential(
        [
            relax.transform.DecomposeOpsForInference(),
            relax.transform.CanonicalizeBindings(),
            relax.transform.FoldConstant(),
        ]
    )
    after = tvm.transform.Sequential(
        [
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FoldConstant(),
            relax.transform.DeadCodeElimination(),
        ]
    )
    try:
        return after(legalise(before(module)))
    except TVM_ERRORS as error:
        raise KernelError(f"{source}: TVM cannot legalise the model: {one_line(error)}") from error


def _marked_module(program: Program) -> Any:
    """The program as a module in which operation ``k`` is bound to ``wbv<k>p<n>q``, so that it is known again later."""
    module = tvm.IRModule(dict(program.module.functions_items()))
    builder = relax.BlockBuilder()
    mapping = {p: relax.Var(f"wbv{len(program.operations) + i}p0q", p.ty) for i, p in enumerate(program.parameters)}
    parameters = list(mapping.values())
    bindings: list[Any] = []

    returned = result_variables(program)

    def bind(index: int, value: Any) -> Any:
        value = builder.normalize(value)
        # An alias for a result would keep its own name, and the operator lose its mark.
        last = any(variable in returned for variable in output_list(program.operations[index]))
        variable = (relax.Var if last else relax.DataflowVar)(f"wbv{index}p{len(bindings)}q", value.ty)
        bindings.append(relax.VarBinding(variable, value))
        return variable

    for index, operation in enumerate(program.operations):
        call = substitute(operation.call, mapping)
        if is_foldable(operation):
            mapping[operation.outputs[0]] = decompose(call, partial(bind, index))
            continue
        result = bind(index, call)
        if not operation.is_tuple:
            mapping[operation.outputs[0]] = result
            continue
        for position, variable in sorted(operation.outputs.items()):
            mapping[variable] = bind(index, relax.TupleGetItem(result, position))
    value = builder.normalize(substitute(program.result, mapping))
    body = relax.SeqExpr([relax.DataflowBlock(bindings)] if bindings else [], value)
    main = relax.Function(parameters, body, value.ty, is_pure=True).with_attr("global_symbol", "main")
    module["main"] = main
    return module


def _require_tensor_programs(tensor_level: Program, program: Program, source: str) -> None:
    for operation in tensor_level.operations:
        if not operation.op.startswith("call_tir:"):
            mark = _MARK.fullmatch(operation.id)
            node = program.operations[int(mark[1])].id if mark is not None else operation.id
            raise UnsupportedOperator(operation.op, node, source)


def fuse_ops_partition(legal: Any, program: Program) -> dict[str, list[str]]:
    """What FuseOps makes of a legalised module: kernel name -> operations of ``program``, in execution order.

    FuseOps renames variables, so each call is found again by its function and arguments.
    """
    fused = relax.transform.FuseOps()(legal)
    waiting: dict[tuple[Any, ...], list[Operation]] = {}
    for operation in program.operations:
        waiting.setdefault(_identity(operation.call, {}), []).append(operation)
    main = fused["main"]
    known: dict[Any, Any] = dict(zip(main.params, program.parameters, strict=True))
    partition: dict[str, list[str]] = {}
    for block in main.body.blocks:
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.GlobalVar):
                function = fused[value.op]
                inner = dict(zip(function.params, (_known(arg, known) for arg in value.args), strict=True))
                found: list[str] = []
                for inside in function.body.blocks[0].bindings:
                    _match(inside, inner, waiting, found)
                known[binding.var] = _known(function.body.body, inner)
                partition[_unique(value.op.name_hint, partition)] = found
            else:
                found = []
                _match(binding, known, waiting, found)
                if found:
                    partition[_unique(value.args[0].name_hint, partition)] = found
    return partition


def _unique(name: str, taken: Mapping[str, Any]) -> str:
    candidate, index = name, 1
    while candidate in taken:
        candidate, index = f"{name}_call{index}", index + 1
    return candidate


def _identity(call: Any, known: Mapping[Any, Any]) -> tuple[Any, ...]:
    return (call.args[0].name_hint, *(_known(argument, known) for argument in call.args[1].fields))


def _known(expr: Any, known: Mapping[Any, Any]) -> Any:
    """The legalised module's variable (or list of them, for a tuple) that an expression of the fused one stands for."""
    if isinstance(expr, relax.Tuple):
        return [_known(item, known) for item in expr.fields]
    if isinstance(expr, relax.TupleGetItem):
        return _known(expr.tuple_value, known)[int(expr.index)]
    return expr if isinstance(expr, GenericConst) else known.get(expr, expr)


def _match(
    binding: Any, known: dict[Any, Any], waiting: dict[tuple[Any, ...], list[Operation]], found: list[str]
) -> None:
    value = binding.value
    if not isinstance(value, relax.Call):
        known[binding.var] = _known(value, known)
        return
    candidates = waiting.get(_identity(value, known), [])
    if not candidates:
        raise KernelError(f"TVM's FuseOps made a call of {value.args[0].name_hint} that was not in the model")
    operation = candidates.pop(0)
    found.append(operation.id)
    if operation.is_tuple:
        count = len(binding.var.ty.fields)
        known[binding.var] = [operation.outputs.get(index) for index in range(count)]
    else:
        known[binding.var] = operation.outputs[0]


def _nodes_of(
    program: Program, tensor_level: Program, partition: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """The graph nodes of each group, where they can be told; () where an operator's parts are in several groups."""
    found = {op.id: _MARK.fullmatch(op.id) for op in tensor_level.operations}
    marks = {name: int(match[1]) for name, match in found.items() if match is not None}
    homes: dict[int, set[str]] = {}
    for group, members in partition.items():
        for member in members:
            if member in marks:
                homes.setdefault(marks[member], set()).add(group)
    groups: dict[str, tuple[str, ...]] = {}
    for group, members in partition.items():
        indices = sorted({marks[member] for member in members if member in marks})
        whole = all(member in marks for member in members) and all(len(homes[index]) == 1 for index in indices)
        groups[group] = tuple(program.operations[index].id for index in indices) if whole else ()
    return groups


def _high_level_groups(program: Program, nodes: Mapping[str, tuple[str, ...]]) -> dict[str, OutlinedGroup]:
    """The groups of known nodes on the level of operators; none where they do not make a partition."""
    groups = {group: ids for group, ids in nodes.items() if ids}
    covered = {id for ids in groups.values() for id in ids}
    rest: dict[str, tuple[str, ...]] = {f"rest {op.id}": (op.id,) for op in program.operations if op.id not in covered}
    try:
        return {group.id: group for group in outline(program, groups | rest) if group.id in groups}
    except IllegalGroup:
        return {}


def _is_view(group: OutlinedGroup, legal: Any) -> bool:
    if len(group.operations) != 1 or len(group.inputs) != 1 or group.constants or len(group.outputs) != 1:
        return False
    return bool(relax.analysis.has_reshape_pattern(legal[group.operations[0].call.args[0]]))


def _tensor_ops(group: OutlinedGroup) -> tuple[str, ...]:
    """Operators by the names of TVM's functions, which it numbers: ``matmul1`` is a ``matmul``."""
    return tuple(operation.op.removeprefix("call_tir:").rstrip("0123456789") for operation in group.operations)


def _workload(
    group: OutlinedGroup,
    legal: Any,
    ops: tuple[str, ...],
    high_level: OutlinedGroup | None,
    program: Program,
    model: Model,
) -> Workload:
    """What TVM makes of the group; with the operators' graph where lowering these gives the same tensor program."""
    tensor_programs = {operation.call.args[0]: legal[operation.call.args[0]] for operation in group.operations}
    function = _without_marks(lower_function(group.function, tensor_programs, group.id, model.source))
    own = make_workload(function, len(group.inputs), len(group.constants), len(group.outputs), ops, None)
    if high_level is None:
        return own
    planned = group_workload(high_level, program, model.source)
    return planned if planned.key == own.key else own


def _without_marks(function: Any) -> Any:
    """TVM names blocks after variables; groups outlined from a plan call every variable ``x``."""
    text = tvm.ir.save_json(function)
    if not _MARK.search(text):
        return function
    return tvm.ir.load_json(_MARK.sub("x", text))
