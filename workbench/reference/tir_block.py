"""One leaf block of a tensor program, evaluated over all loops around it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import KernelError
from ..tvm_seam import tvm, tvm_ffi
from .dtypes import np_dtype
from .tir_domain import ELEMENTWISE_PIECE, Loop, Vectorised, pieces
from .tir_reduce import Reduction
from .tir_walk import loads_of, stores_of, variables


class Block:
    """One leaf block over the loops around it."""

    def __init__(self, machine: Any, realize: Any, loops: Sequence[Loop]) -> None:
        self.machine, self.realize, self.block = machine, realize, realize.block
        self.loops = list(loops)
        self.stores = stores_of(self.block.body)

    def run(self) -> None:
        roles = self._roles()
        if roles is None:
            self._one_by_one()
            return
        spatial = [loop for loop, role in zip(self.loops, roles, strict=True) if role != "reduce"]
        reduced = [loop for loop, role in zip(self.loops, roles, strict=True) if role == "reduce"]
        is_reduction = self.block.init is not None or bool(reduced)
        if not is_reduction:
            for piece in pieces(spatial, 1, ELEMENTWISE_PIECE):
                self._vectorise(piece, self.block.body)
            return
        if self.block.init is not None:
            for piece in pieces(spatial, 1):
                self._vectorise(piece, self.block.init, guard=False)
        pattern = self._pattern()
        if pattern is None:
            for piece in pieces(spatial, 1):
                self._fold(piece, reduced)
        else:
            Reduction(self, pattern, spatial, reduced).run()

    def _roles(self) -> list[str] | None:
        """What each loop is; None where only running it one by one is safe."""
        if any(loop.extent < 0 for loop in self.loops):
            return None
        roles = {loop.var: "unused" for loop in self.loops}
        for iter_var, value in zip(self.block.iter_vars, self.realize.iter_values, strict=True):
            reduce = iter_var.iter_type == tvm.tirx.IterVar.CommReduce
            if not reduce and iter_var.iter_type != tvm.tirx.IterVar.DataPar:
                return None
            for var in variables(value):
                if var in roles:
                    role = "reduce" if reduce else "spatial"
                    if roles[var] not in ("unused", role):
                        return None
                    roles[var] = role
        if any(roles[loop.var] == "unused" and loop.extent > 1 for loop in self.loops):
            return None
        if "reduce" not in roles.values() and self.block.init is None and self._reads_own():
            return None
        return [roles[loop.var] for loop in self.loops]

    def _reads_own(self) -> bool:
        written = {store.buffer for store in self.stores}
        return any(load.source in written for store in self.stores for load in loads_of(store.value))

    def _one_by_one(self) -> None:
        def inner(remaining: list[Loop]) -> None:
            if remaining:
                self.machine.repeat(remaining[0], lambda: inner(remaining[1:]))
                return
            self.enter()
            if self.machine.evaluator()(self.realize.predicate):
                if self.block.init is not None and self._at_start():
                    self.machine.run(self.block.init)
                self.machine.run(self.block.body)

        if any(loop.extent < 0 for loop in self.loops):
            raise KernelError(f"block '{self.block.name_hint}' has loops whose bounds depend on each other")
        inner(self.loops)

    def _at_start(self) -> bool:
        evaluator = self.machine.evaluator()
        return all(
            int(self.machine.env[i.var]) == int(evaluator(i.dom.min))
            for i in self.block.iter_vars
            if i.iter_type == tvm.tirx.IterVar.CommReduce
        )

    def enter(self) -> None:
        """Gives the block's own variables their values over the machine's present domain."""
        machine = self.machine
        evaluator = machine.evaluator()
        for iter_var, value in zip(self.block.iter_vars, self.realize.iter_values, strict=True):
            if any(v not in machine.env for v in variables(value)):
                continue  # a reduction variable, while the block is initialised
            machine.env[iter_var.var] = evaluator(value)
            form = evaluator.form(value)
            if form is None:
                machine.affine.pop(iter_var.var, None)
            else:
                machine.affine[iter_var.var] = form

    def guard(self) -> Any:
        """The block's predicate over the present domain; None where it always holds."""
        predicate = self.machine.evaluator()(self.realize.predicate)
        return None if np.ndim(predicate) == 0 and bool(predicate) else np.asarray(predicate)

    def _vectorise(self, loops: Sequence[Loop], stmt: Any, guard: bool = True) -> None:
        with Vectorised(self.machine, loops):
            self.enter()
            if guard:
                self.machine.mask = self.guard()
            self.machine.run(stmt)

    def _fold(self, spatial: Sequence[Loop], reduced: Sequence[Loop]) -> None:
        machine = self.machine
        integers = [np_dtype(str(loop.var.ty)).type for loop in reduced]
        with Vectorised(machine, spatial):
            for point in itertools.product(*(range(loop.start, loop.start + loop.extent) for loop in reduced)):
                machine.step()
                for loop, integer, value in zip(reduced, integers, point, strict=True):
                    machine.env[loop.var] = integer(value)
                self.enter()
                machine.mask = self.guard()
                machine.run(self.block.body)
                machine.mask = None

    def _pattern(self) -> tuple[str, Any, Any] | None:
        """(combiner, the store, the reduced expression) of ``b[i] = combine(b[i], expression)``."""
        if len(self.stores) != 1 or type(self.block.body).__name__ != "BufferStore":
            return None
        store = self.stores[0]
        kind = type(store.value).__name__
        if kind not in ("Add", "Mul", "Max", "Min"):
            return None
        for own, other in ((store.value.a, store.value.b), (store.value.b, store.value.a)):
            if type(own).__name__ in ("TensorLoad", "BufferLoad") and own.source.same_as(store.buffer):
                same = all(tvm_ffi.structural_equal(a, b) for a, b in zip(own.indices, store.indices, strict=True))
                if same and all(not load.source.same_as(store.buffer) for load in loads_of(other)):
                    return kind, store, other
        return None
