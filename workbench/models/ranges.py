"""Which integers an input may hold: example inputs must address what is there, and divide by no zero."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.tvm_seam import relax, tvm

from ._relax import bindings_of, flatten, op_name, static_shape

# Operators that hand on the values of arguments: see _passed_on.
_PASS_ON = frozenset(
    "astype broadcast_to concat expand_dims flatten flip permute_dims repeat reshape split squeeze stack "
    "strided_slice dynamic_strided_slice take tile where".split()
)
_DIVISIONS = frozenset({"divide", "floor_divide", "mod", "floor_mod"})


@dataclass(frozen=True)
class IntegerRange:
    """Integers from ``low`` up to, not including, ``high``."""

    low: int = 0
    high: int = 8

    def within(self, other: IntegerRange) -> IntegerRange:
        """What is in both; never empty."""
        low = max(self.low, other.low)
        return IntegerRange(low, max(min(self.high, other.high), low + 1))


def integer_ranges(module: tvm.IRModule) -> dict[str, IntegerRange]:
    """The range of every input of ``main`` by name, found by going back from the operators that restrict it."""
    main = module["main"]
    ranges: dict[relax.Var, IntegerRange] = {}
    for binding in reversed(list(bindings_of(main))):
        value = binding.value
        if isinstance(value, relax.TupleGetItem):
            _restrict(ranges, value.tuple_value, ranges.get(binding.var))
        elif isinstance(value, relax.Call):
            for argument, allowed in _restrictions(value):
                _restrict(ranges, argument, allowed)
            if op_name(value) in _PASS_ON:
                for argument in _passed_on(value):
                    for leaf in flatten(argument):
                        _restrict(ranges, leaf, ranges.get(binding.var))
    return {param.name: ranges.get(param, IntegerRange()) for param in main.params}


def _passed_on(call: relax.Call) -> list[relax.Expr]:
    """The arguments whose values are in the result: of most operators the first."""
    args, op = list(call.args), op_name(call)
    return args if op in ("concat", "stack") else args[1:] if op == "where" else args[:1]


def _restrict(ranges: dict[relax.Var, IntegerRange], leaf: relax.Expr, allowed: IntegerRange | None) -> None:
    if allowed is not None and isinstance(leaf, relax.Var):
        ranges[leaf] = ranges.get(leaf, IntegerRange()).within(allowed)


def _restrictions(call: relax.Call) -> Iterator[tuple[relax.Expr, IntegerRange]]:
    """The arguments of one operator that it restricts."""
    op, args = op_name(call), list(call.args)
    shape = static_shape(args[0].ty) if args and isinstance(args[0].ty, relax.TensorType) else None
    if op in _DIVISIONS:
        yield args[1], IntegerRange(low=1)
    elif shape is None:
        return
    elif op == "take":
        axis = call.attrs.axis
        yield args[1], _below((math.prod(shape),) if axis is None else (shape[int(axis)],))
    elif op in ("gather_elements", "scatter_elements"):
        yield args[1], _below((shape[int(call.attrs.axis)],))
    elif op in ("gather_nd", "scatter_nd"):
        skipped = int(getattr(call.attrs, "batch_dims", 0))
        depth = (static_shape(args[1].ty) or (len(shape),))[-1]
        yield args[1], _below(shape[skipped : skipped + depth])
    elif op in ("index_tensor", "index_put"):
        for index, size in zip(flatten(args[1]), shape, strict=False):
            yield index, _below((size,))


def _below(sizes: tuple[int, ...]) -> IntegerRange:
    return IntegerRange(0, max(min(sizes, default=1), 1))
