"""Groups of operations -> functions of their own.

``main`` with the groups {lv, lv1} and {lv2}::

    lv = matmul(x, W);  lv1 = relu(lv);  lv2 = add(lv1, y)
    ->  g0(x0, x1) = relu(matmul(x0, x1))        g1(x0, x1) = add(x0, x1)
        main: g0(x, W), then g1(g0's result, y)

Values that are read outside a group become further results. The functions are marked ``Primitive``, which is what
TVM's FuseTIR turns into one tensor program each.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import IllegalGroup
from ..tvm_seam import GenericConst, relax
from .program import Operation, Program, output_list, result_variables, substitute, unique

# Operators whose legalisation turns a constant without dimensions into an immediate (TVM's legalize_ops/binary.py,
# create.py, datatype.py).
_INLINES_SCALARS = frozenset(
    "add divide floor_divide log_add_exp multiply power atan2 subtract equal mod floor_mod greater greater_equal less "
    "less_equal not_equal maximum minimum bitwise_and bitwise_or bitwise_xor left_shift right_shift logical_and "
    "logical_or logical_xor full full_like astype".split()
)


@dataclass(frozen=True, eq=False)
class OutlinedGroup:
    """One group as a function of ``inputs`` and then ``constants`` that returns ``outputs``.

    All three are variables and constants of ``main``; the function's parameters stand for inputs and constants in
    this order. Constants without dimensions stay inside the function where LegalizeOps makes immediates of them.
    """

    id: str
    operations: tuple[Operation, ...]
    function: Any
    inputs: tuple[Any, ...]
    constants: tuple[Any, ...]
    outputs: tuple[Any, ...]


def outline(program: Program, groups: Mapping[str, Sequence[str]]) -> list[OutlinedGroup]:
    """The groups (id -> operation ids) in an order in which they can run; groups that nothing reads are left out.

    Raises IllegalGroup for an unknown operation, one in two groups or in none, and groups that depend on each other.
    """
    owner = _owners(program, groups)
    members: dict[str, list[Operation]] = {group: [] for group in groups}
    for operation in program.operations:
        members[owner[operation.id]].append(operation)
    return outline_operations(program, members)


def outline_operations(program: Program, groups: Mapping[str, Sequence[Operation]]) -> list[OutlinedGroup]:
    """As :func:`outline`, for operations that need not be those of the program (a rewrite may have changed them)."""
    producer = {var: group for group, operations in groups.items() for op in operations for var in output_list(op)}
    order = _contracted_order(groups, producer)
    readers: dict[Any, set[str]] = {}
    for group, operations in groups.items():
        for operation in operations:
            for leaf in operation.reads():
                readers.setdefault(leaf, set()).add(group)
    returned = result_variables(program)
    outlined = []
    for group in order:
        inner = [var for operation in groups[group] for var in output_list(operation)]
        outputs = [var for var in inner if var in returned or readers.get(var, set()) - {group}]
        if outputs:
            outlined.append(_outline_one(group, groups[group], inner, outputs))
    return outlined


def _owners(program: Program, groups: Mapping[str, Sequence[str]]) -> dict[str, str]:
    known = {operation.id for operation in program.operations}
    owner: dict[str, str] = {}
    for group, ids in groups.items():
        for id in ids:
            if id not in known:
                raise IllegalGroup("unknown node", f"group {group} names '{id}', which the model has not")
            if id in owner:
                raise IllegalGroup("overlap", f"'{id}' is in both {owner[id]} and {group}")
            owner[id] = group
    for operation in program.operations:
        if operation.id not in owner:
            raise IllegalGroup("not covered", f"'{operation.id}' is in no group; give it one of its own")
    return owner


def _contracted_order(groups: Mapping[str, Sequence[Operation]], producer: Mapping[Any, str]) -> list[str]:
    """A topological order of the graph in which every group is one node: that there is one is the whole check."""
    needs: dict[str, set[str]] = {}
    for group, operations in groups.items():
        sources = {producer[leaf] for op in operations for leaf in op.reads() if leaf in producer}
        needs[group] = sources - {group}
    users: dict[str, list[str]] = {group: [] for group in groups}
    for group, sources in needs.items():
        for source in sources:
            users[source].append(group)
    position = {group: index for index, group in enumerate(groups)}
    ready = [position[group] for group, sources in needs.items() if not sources]
    heapq.heapify(ready)
    names = list(groups)
    waiting = {group: len(sources) for group, sources in needs.items()}
    order = []
    while ready:
        group = names[heapq.heappop(ready)]
        order.append(group)
        for user in users[group]:
            waiting[user] -= 1
            if waiting[user] == 0:
                heapq.heappush(ready, position[user])
    if len(order) < len(groups):
        stuck = [f"{group} ({'+'.join(op.id for op in groups[group])})" for group in groups if waiting[group] > 0]
        raise IllegalGroup("would form a cycle", "groups need each other's results: " + ", ".join(stuck[:4]))
    return order


def _inlined(constant: Any, operations: Sequence[Operation]) -> bool:
    """Whether every operation that reads the constant makes an immediate of it; FuseTIR refuses what is left."""
    return len(constant.ty.shape) == 0 and all(
        operation.op in _INLINES_SCALARS
        for operation in operations
        if any(leaf.same_as(constant) for leaf in operation.reads())
    )


def _outline_one(
    group: str, operations: Sequence[Operation], inner: Sequence[Any], outputs: Sequence[Any]
) -> OutlinedGroup:
    produced = set(inner)
    read = unique([leaf for operation in operations for leaf in operation.reads() if leaf not in produced])
    constants = [leaf for leaf in read if isinstance(leaf, GenericConst) and not _inlined(leaf, operations)]
    inputs = [leaf for leaf in read if isinstance(leaf, relax.Var)]
    # TVM names blocks after variables, and blocks are what traces address: equal groups must spell them equally.
    parameters = [relax.Var("x", leaf.ty) for leaf in [*inputs, *constants]]
    mapping: dict[Any, Any] = dict(zip([*inputs, *constants], parameters, strict=True))
    builder = relax.BlockBuilder()
    bindings = []
    for operation in operations:
        # An un-normalised call changes its hash when LegalizeOps infers its type, and TVM then loses the function.
        call = builder.normalize(substitute(operation.call, mapping))
        result = relax.DataflowVar("x", call.ty)
        bindings.append(relax.VarBinding(result, call))
        if not operation.is_tuple:
            mapping[operation.outputs[0]] = result
            continue
        for index, variable in sorted(operation.outputs.items()):
            item = relax.DataflowVar("x", variable.ty)
            bindings.append(relax.VarBinding(item, builder.normalize(relax.TupleGetItem(result, index))))
            mapping[variable] = item
    returned = [mapping[variable] for variable in outputs]
    value = builder.normalize(returned[0] if len(returned) == 1 else relax.Tuple(returned))
    last = relax.Var("x", value.ty)
    bindings.append(relax.VarBinding(last, value))
    body = relax.SeqExpr([relax.DataflowBlock(bindings)], last)
    function = relax.Function(parameters, body, value.ty, is_pure=True).with_attr("Primitive", True)
    return OutlinedGroup(group, tuple(operations), function, tuple(inputs), tuple(constants), tuple(outputs))
