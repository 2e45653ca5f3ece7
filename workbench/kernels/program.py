"""A model's ``main`` as a list of operations: what outlining works on.

Aliases, ``match_cast`` of a static shape, nested tuples and tuple items are resolved here, so that an operation reads
and writes single tensors only. TVM 0.27 itself loses track of memory behind ``match_cast``: its planner frees the
source while the alias is still read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import ModelError
from ..tvm_seam import GenericConst, relax, tvm


@dataclass(frozen=True, eq=False)
class Operation:
    """One call. ``outputs`` maps the position in the result to its variable; ``is_tuple``: the result is a tuple.

    Arguments of ``call`` are variables of other operations, parameters of ``main``, constants, tuples of these, and
    what is no tensor.
    """

    id: str  # name of the call's binding in ``main``: the graph's node id
    call: Any
    is_tuple: bool
    outputs: dict[int, Any] = field(default_factory=dict)

    @property
    def op(self) -> str:
        """The operator's Relax name without ``relax.``; ``call_tir:NAME`` for a tensor program of the user's."""
        name = str(getattr(self.call.op, "name", self.call.op)).removeprefix("relax.")
        return f"{name}:{self.call.args[0].name_hint}" if name.startswith("call_tir") else name

    def reads(self) -> Iterator[Any]:
        """Variables and constants among the arguments, in order, with repetitions."""
        for argument in self.call.args:
            yield from leaves(argument)


@dataclass(frozen=True, eq=False)
class Program:
    """``main`` in program order. ``result``: the returned variable, constant or (nested) tuple."""

    module: Any
    parameters: tuple[Any, ...]
    operations: tuple[Operation, ...]
    result: Any


def is_tensor_var(expr: Any) -> bool:
    """False for symbolic dimensions, which TVM 0.27 keeps in the same class as Relax variables."""
    return isinstance(expr, relax.Var) and not isinstance(expr.ty, tvm.ir.PrimType)


def leaves(expr: Any) -> Iterator[Any]:
    """The tensor variables and constants of an argument, left to right."""
    if is_tensor_var(expr) or isinstance(expr, GenericConst):
        yield expr
    elif isinstance(expr, relax.Tuple):
        for item in expr.fields:
            yield from leaves(item)


def substitute(expr: Any, mapping: dict[Any, Any]) -> Any:
    """``expr`` with variables and constants replaced."""
    if isinstance(expr, relax.Var | GenericConst):
        return mapping.get(expr, expr)
    if isinstance(expr, relax.Tuple):
        return relax.Tuple([substitute(item, mapping) for item in expr.fields])
    if isinstance(expr, relax.Call):
        return relax.Call(expr.op, [substitute(argument, mapping) for argument in expr.args], expr.attrs, expr.ty_args)
    return expr


def read_program(module: Any, source: str) -> Program:
    """The program of ``module["main"]``. Raises ModelError for control flow and calls of functions."""
    main = module["main"]
    reader = _Reader(source)
    for block in main.body.blocks:
        for binding in block.bindings:
            reader.bind(binding)
    result = reader.resolve(main.body.body)
    return Program(module, tuple(main.params), tuple(reader.operations), result)


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.operations: list[Operation] = []
        self.known: dict[Any, Any] = {}  # variable -> what it stands for: an expression, or an Operation with items

    def bind(self, binding: Any) -> None:
        value = binding.value
        if isinstance(value, relax.Call) and not isinstance(binding, relax.MatchCast):
            if not isinstance(value.op, tvm.ir.Op):
                raise ModelError(f"{self.source}: '{binding.var.name}' calls a function; inline it into main first")
            arguments = [self.resolve(argument) for argument in value.args]
            call = relax.Call(value.op, arguments, value.attrs, value.ty_args)
            is_tuple = isinstance(binding.var.ty, tvm.ir.TupleType)
            operation = Operation(binding.var.name, call, is_tuple)
            self.operations.append(operation)
            if is_tuple:
                self.known[binding.var] = operation
            else:
                operation.outputs[0] = binding.var
        else:
            self._alias(binding)

    def _alias(self, binding: Any) -> None:
        value = binding.value
        if isinstance(value, relax.TupleGetItem):
            whole = self._resolve_tuple(value.tuple_value)
            if isinstance(whole, Operation):
                self.known[binding.var] = whole.outputs.setdefault(int(value.index), binding.var)
                return
        self.known[binding.var] = self.resolve(value)

    def _resolve_tuple(self, expr: Any) -> Any:
        """An Operation whose result is the tuple, or the tuple's expression."""
        return self.known[expr] if isinstance(self.known.get(expr), Operation) else self.resolve(expr)

    def resolve(self, expr: Any) -> Any:
        if isinstance(expr, relax.Var) and expr in self.known:
            found = self.known[expr]
            if isinstance(found, Operation):
                items = [self._item(found, expr, index) for index in range(len(expr.ty.fields))]
                return relax.Tuple(items)
            return found if found is expr else self.resolve(found)
        if isinstance(expr, relax.Tuple):
            return relax.Tuple([self.resolve(item) for item in expr.fields])
        if isinstance(expr, relax.TupleGetItem):
            whole = self._resolve_tuple(expr.tuple_value)
            if isinstance(whole, Operation):
                return self._item(whole, expr.tuple_value, int(expr.index))
            if isinstance(whole, relax.Tuple):
                return self.resolve(whole.fields[int(expr.index)])
        if isinstance(expr, relax.If | relax.Function):
            raise ModelError(f"{self.source}: control flow cannot be planned; give one straight-line function")
        return expr

    def _item(self, operation: Operation, whole: Any, index: int) -> Any:
        if index not in operation.outputs:
            operation.outputs[index] = relax.DataflowVar(f"{operation.id}_{index}", whole.ty.fields[index])
        return operation.outputs[index]


def result_variables(program: Program) -> set[Any]:
    """The variables that ``main`` returns."""
    return {leaf for leaf in leaves(program.result) if isinstance(leaf, relax.Var)}


def output_list(operation: Operation) -> list[Any]:
    """The operation's output variables in order of their position."""
    return [operation.outputs[index] for index in sorted(operation.outputs)]


def unique(items: Sequence[Any]) -> list[Any]:
    """Without repetitions, first occurrences kept; TVM objects are compared by identity."""
    return list(dict.fromkeys(items))
