"""A planned model -> one tensor program a group, and a ``main`` that calls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import KernelError, UnsupportedOperator
from ..fusion import FusionPlan
from ..graph import Graph, from_function
from ..models import Model
from ..models.model import TensorSpec
from ..tvm_seam import relax, tvm
from . import rewrites
from .main_function import CallStep, Step, ViewStep, build_module, traffic
from .outline import OutlinedGroup, outline, outline_operations
from .program import Operation, Program, output_list, read_program
from .tensor_program import lower_function, normalise, program_key, structural_key
from .workload import KernelCall, LoweredModel, Workload

# Operators whose result is their argument in another shape.
VIEW_OPERATORS = frozenset({"reshape", "flatten", "squeeze", "expand_dims"})
# Operators that call what is not in the model: nothing that could be outlined, scheduled or cached.
_FOREIGN = ("call_dps_packed", "call_pure_packed", "call_packed", "call_tir_inplace", "call_py_func", "invoke_closure")


def lower(model: Model, plan: FusionPlan, name: str) -> LoweredModel:
    """One PrimFunc for every group of the plan; equal groups share one, whatever their weights.

    Groups of reshapes only become views and are no kernels. Raises IllegalGroup (groups overlap, depend on each other,
    or miss a node), PlanError (unknown rewrite), UnsupportedOperator, KernelError.
    """
    program = read_program(model.module, model.source)
    refuse_foreign(program, model.source)
    groups = {group.id: group.nodes for group in plan.groups}
    outlined = outline(program, groups)
    wanted = {group.id: group.rewrite for group in plan.groups if group.rewrite}
    if wanted:
        outlined = _rewrite(program, groups, outlined, wanted)
    lowering = Lowering(model, program)
    for group in outlined:
        lowering.add_group(group, tuple(plan.graph.order(frozenset(groups[group.id]))))
    return lowering.finish(name)


def refuse_foreign(program: Program, source: str) -> None:
    """Raises UnsupportedOperator for calls of functions that are not in the module."""
    for operation in program.operations:
        if operation.op.split(":")[0] in _FOREIGN:
            raise UnsupportedOperator(operation.op, operation.id, source)


def _rewrite(
    program: Program,
    groups: Mapping[str, Sequence[str]],
    outlined: Sequence[OutlinedGroup],
    wanted: Mapping[str, str],
) -> list[OutlinedGroup]:
    """The groups again, with the operations of those that have a rewrite replaced."""
    by_id = {operation.id: operation for operation in program.operations}
    position = {operation.id: index for index, operation in enumerate(program.operations)}
    operations = {group: [by_id[id] for id in sorted(ids, key=position.__getitem__)] for group, ids in groups.items()}
    for group in outlined:
        if group.id in wanted:
            rewrite = rewrites.get(wanted[group.id])
            operations[group.id] = rewrite(group.operations, frozenset(group.outputs))
    return outline_operations(program, operations)


@dataclass(eq=False)
class Lowering:
    """Collects the steps of a lowered ``main`` and its distinct workloads."""

    model: Model
    program: Program
    input_names: Sequence[str] = ()  # default: as in the program
    steps: list[Step] = field(default_factory=list)
    calls: list[KernelCall] = field(default_factory=list)
    workloads: dict[str, Workload] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)  # workload key -> function name
    _lowered: dict[Any, Workload] = field(default_factory=dict)  # structure of an outlined function -> its workload

    def add_group(self, group: OutlinedGroup, nodes: tuple[str, ...]) -> None:
        """Adds one group: a view where it only reshapes, else a call of its tensor program."""
        if is_view(group):
            self.steps.extend(ViewStep(group.inputs[0], output) for output in group.outputs)
            return
        workload = self.lowered_once(group, lambda: group_workload(group, self.program, self.model.source))
        self.add_call(workload, (*group.inputs, *group.constants), group.outputs, group.id, nodes)

    def lowered_once(self, group: OutlinedGroup, make: Callable[[], Workload]) -> Workload:
        """The workload of a group; groups of equal functions are lowered once."""
        key = (structural_key(group.function), len(group.constants))
        if key not in self._lowered:
            self._lowered[key] = make()
        return self._lowered[key]

    def add_call(
        self,
        workload: Workload,
        arguments: Sequence[Any],
        outputs: Sequence[Any],
        group: str,
        nodes: tuple[str, ...],
        name: str | None = None,
    ) -> None:
        """Adds a call of a workload; one with a known key is the same workload."""
        workload = self.workloads.setdefault(workload.key, workload)
        function = self.names.setdefault(workload.key, self._unique(name or _function_name(workload)))
        self.steps.append(CallStep(function, tuple(arguments), tuple(outputs)))
        self.calls.append(KernelCall(group, function, workload.key, workload.ops, nodes))

    def _unique(self, name: str) -> str:
        taken, candidate, index = {"main", *self.names.values()}, name, 1
        while candidate in taken:
            candidate, index = f"{name}_{index}", index + 1
        return candidate

    def finish(self, name: str) -> LoweredModel:
        """The lowered model of all that was added."""
        functions = {
            function: self.workloads[key].module["main"].without_attr("global_symbol")
            for key, function in self.names.items()
        }
        module = build_module(self.program, self.steps, functions, self.input_names)
        return LoweredModel(name, module, self.workloads, tuple(self.calls), traffic(self.steps, self.program))


def is_view(group: OutlinedGroup) -> bool:
    """Whether the group only gives one tensor another shape."""
    return len(group.inputs) == 1 and all(
        operation.op in VIEW_OPERATORS and not operation.is_tuple for operation in group.operations
    )


def group_workload(group: OutlinedGroup, program: Program, source: str) -> Workload:
    """The workload of an outlined group. Raises UnsupportedOperator, KernelError."""
    tensor_programs = {
        operation.call.args[0]: program.module[operation.call.args[0]]
        for operation in group.operations
        if operation.op.startswith("call_tir:")
    }
    for operation in group.operations:
        for variable in output_list(operation):
            _require_tensor(variable, operation, source)
    node = "+".join(operation.id for operation in group.operations)
    function = lower_function(group.function, tensor_programs, node, source)
    graph = from_function(group.function, group.id, module=program.module)
    ops = tuple(operation.op for operation in group.operations)
    return make_workload(function, len(group.inputs), len(group.constants), len(group.outputs), ops, graph)


def _require_tensor(variable: Any, operation: Operation, source: str) -> None:
    if not isinstance(variable.ty, relax.TensorType):
        raise UnsupportedOperator(operation.op, operation.id, source)


def make_workload(
    function: Any, inputs: int, constants: int, outputs: int, ops: tuple[str, ...], graph: Graph | None
) -> Workload:
    """The workload of a PrimFunc whose parameters are inputs, then constants, then outputs."""
    if len(function.params) != inputs + constants + outputs:
        raise KernelError(f"{'+'.join(ops)}: the tensor program has scalar parameters; bind all symbolic sizes first")
    layout_free = tuple(range(inputs, inputs + constants))
    function = normalise(function, layout_free)
    labels = [f"x{i}" for i in range(inputs)] + [f"w{i}" for i in range(constants)] + [f"y{i}" for i in range(outputs)]
    args = tuple(
        TensorSpec(label, tuple(int(extent) for extent in buffer.shape), str(buffer.dtype))
        for label, buffer in zip(labels, function.params, strict=True)
    )
    return Workload(
        key=program_key(function),
        module=tvm.IRModule({"main": function}),
        args=args,
        num_outputs=outputs,
        layout_free=layout_free,
        ops=ops,
        flops=_flops(function, graph),
        bytes=sum(spec.bytes for spec in args),
        graph=graph,
    )


def _flops(function: Any, graph: Graph | None) -> float:
    """Operations of the group's graph; TVM's own count of the tensor program where there is no graph."""
    if graph is not None:
        return float(sum(node.flops for node in graph.nodes))
    return float(tvm.s_tir.analysis.estimate_tir_flops(function.body))


def _function_name(workload: Workload) -> str:
    """A C identifier made of the operators; short, since a chain may have dozens."""
    parts = [op.removeprefix("nn.").replace("call_tir:", "") for op in workload.ops]
    text = "_".join(parts[:4]) + (f"_and_{len(parts) - 4}" if len(parts) > 4 else "")
    return "".join(character if character.isalnum() or character == "_" else "_" for character in text)
