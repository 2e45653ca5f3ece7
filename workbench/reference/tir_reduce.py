"""Reductions of a block as array reductions and matrix products."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import KernelError
from ..tvm_seam import tvm
from .ops.reductions import serial_sum
from .tir_contract import contract
from .tir_domain import ELEMENTWISE_PIECE, PIECE, Loop, Vectorised, halves, pieces
from .tir_expr import strided
from .tir_walk import variables

_COMBINE: dict[str, np.ufunc] = {"Add": np.add, "Mul": np.multiply, "Max": np.maximum, "Min": np.minimum}


def _identity(kind: str, dtype: np.dtype) -> Any:
    if kind in ("Add", "Mul"):
        return dtype.type(0 if kind == "Add" else 1)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return dtype.type(info.min if kind == "Max" else info.max)
    return dtype.type(-np.inf if kind == "Max" else np.inf)


class Reduction:
    """A block that sums, multiplies, or takes the maximum or minimum of an expression."""

    def __init__(
        self, block: Any, pattern: tuple[str, Any, Any], spatial: Sequence[Loop], reduced: Sequence[Loop]
    ) -> None:
        self.block, self.machine = block, block.machine
        self.kind, self.store, self.value = pattern
        self.spatial, self.reduced = list(spatial), list(reduced)
        self.axes = tuple(range(len(spatial), len(spatial) + len(reduced)))

    def run(self) -> None:
        factors = self._factors()
        if factors is not None:
            for piece in self._contraction_pieces(factors):
                self._run_piece(piece, lambda: self._contract(factors))
            return
        per_point = math.prod(loop.extent for loop in self.reduced)
        for piece in pieces(self.spatial, per_point, ELEMENTWISE_PIECE):
            self._run_piece(piece, self._reduce)

    def _run_piece(self, spatial: Sequence[Loop], partial: Callable[[], Any]) -> None:
        machine = self.machine
        with Vectorised(machine, [*spatial, *self.reduced]):
            self.block.enter()
            value = np.asarray(partial())
            evaluator = machine.evaluator()
            forms = [evaluator.form(i) for i in self.store.indices]
            target = evaluator.buffer(self.store.buffer)
            shape = (*(loop.extent for loop in spatial), *(1 for _ in self.reduced))
            view = None if any(f is None for f in forms) else strided(target, forms, shape)  # type: ignore[arg-type]
            if view is None or any(f and n > 1 for f, n in zip(np.equal(view.shape, 1), shape, strict=True)):
                raise KernelError(f"block '{self.block.block.name_hint}' reduces into indices that are not affine")
            view[...] = _COMBINE[self.kind](view, value.astype(target.dtype, copy=False))

    def _factors(self) -> tuple[Any, Any, set[int], set[int]] | None:
        """The two factors of a sum of products and the loops each depends on, where a matrix product pays."""
        predicate = self.block.realize.predicate
        if self.kind != "Add" or type(self.value).__name__ != "Mul" or not isinstance(predicate, tvm.tirx.IntImm):
            return None
        loops = [*self.spatial, *self.reduced]
        depends = {
            iter_var.var: set(variables(v))
            for iter_var, v in zip(self.block.block.iter_vars, self.block.realize.iter_values, strict=True)
        }

        def used(expr: Any) -> set[int]:
            found = set(variables(expr))
            for var in tuple(found):
                found |= depends.get(var, set())
            return {i for i, loop in enumerate(loops) if loop.var in found and loop.extent > 1}

        left, right = used(self.value.a), used(self.value.b)
        size = math.prod(loop.extent for loop in loops)
        parts = sum(math.prod(loops[i].extent for i in part) for part in (left, right))
        if size < 4 * parts:
            return None
        return self.value.a, self.value.b, left, right

    def _contraction_pieces(self, factors: tuple[Any, Any, set[int], set[int]]) -> Iterator[list[Loop]]:
        """Splits spatial loops until both factors and the result are small enough."""
        loops = [*self.spatial, *self.reduced]
        out = set(range(len(self.spatial)))
        pending = [loops]
        while pending:
            current = pending.pop()
            sizes = [(math.prod(current[i].extent for i in part), part) for part in (factors[2], factors[3], out)]
            size, part = max(sizes, key=lambda s: s[0])
            splittable = [i for i in part & out if current[i].extent > 1]
            if size <= PIECE or not splittable:
                yield current[: len(self.spatial)]
                continue
            axis = max(splittable, key=lambda i: current[i].extent)
            pending.extend(reversed([[*current[:axis], half, *current[axis + 1 :]] for half in halves(current[axis])]))

    def _contract(self, factors: tuple[Any, Any, set[int], set[int]]) -> np.ndarray:
        machine = self.machine
        evaluator = machine.evaluator()
        rank = len(machine.shape)
        left, right = (np.asarray(evaluator(f)) for f in factors[:2])
        left, right = (f.reshape((1,) * (rank - f.ndim) + f.shape) for f in (left, right))
        return contract(left, right, self.axes, machine.shape)

    def _reduce(self) -> np.ndarray:
        machine = self.machine
        mask = self.block.guard()
        machine.mask = mask
        value = np.asarray(machine.evaluator()(self.value))
        machine.mask = None
        if mask is not None:
            value = np.where(mask, value, _identity(self.kind, value.dtype))
        value = np.broadcast_to(value, machine.shape)
        if self.kind == "Add":
            return serial_sum(value, self.axes, True)
        return _COMBINE[self.kind].reduce(value, axis=self.axes, keepdims=True)
