"""Reductions over rows with all that models put around them, a row at a time: softmax and norms written out too.

::

    parallel task (block of rows), for each row:
        for each pass:
            for each column: compute what is kept, and all of the pass's reductions
        for each column: outputs

Every tensor is read once from memory and written once; what a pass keeps stays in the L1 cache, as does the row of an
argument between passes. TVM's rules inline a division by a sum into no schedule that vectorises both. ``_row_loops``
has the loops. NaN reaches what it reaches in NumPy, in maximum and minimum too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from workbench.targets import Target
from workbench.tvm_seam import tvm

from .._base import LibrarySchedule, Parameters
from .._expressions import Expr, Unsupported, substitute
from ._kernel import find, find_inside, write
from ._register_tile import Buffer, T
from ._row_loops import Combine, Reduction, RowLoops, row_lanes, row_space, write_rows
from ._row_program import Pass, Reduced, RowProgram, find_row_program
from ._rows import Written

if TYPE_CHECKING:
    from workbench.kernels.workload import Workload


class RowReduce(LibrarySchedule):
    """Sums, means, products, maxima and minima over the last axes, all else elementwise; any sizes."""

    name: ClassVar[str] = "row_reduce"
    summary: ClassVar[str] = "reductions over the last axes with elementwise operators around, row by row"

    def serves(self, workload: Workload) -> bool:
        """float32; reductions over the same last axes; all else elementwise or reshapes."""
        return find(workload, find_row_program) is not None

    def space(self, workload: Workload, target: Target) -> Mapping[str, tuple[int, ...]]:
        """See ``row_space``."""
        program = _required(workload)
        return row_space(program.rows, program.columns, target)

    def apply(self, workload: Workload, target: Target, parameters: Parameters) -> tvm.IRModule:
        """The kernel, written for the workload's sizes."""
        _required(workload)
        return _Writer(workload, target, parameters).write()


def _required(workload: Workload) -> RowProgram:
    program = find(workload, find_row_program)
    if program is None:
        raise Unsupported(f"{workload.label} is not reductions over rows")
    return program


def _larger(value: Expr, partial: Expr) -> Expr:
    # Two values that compare neither way have NaN as their sum. TVM simplifies the plain test, x != x, to false.
    return T.Select(value > partial, value, T.Select(partial >= value, partial, value + partial))


def _smaller(value: Expr, partial: Expr) -> Expr:
    return T.Select(value < partial, value, T.Select(partial <= value, partial, value + partial))


_KINDS: Mapping[str, tuple[float, Combine]] = {
    "sum": (0.0, lambda a, b: a + b),
    "mean": (0.0, lambda a, b: a + b),
    "prod": (1.0, lambda a, b: a * b),
    "max": (-math.inf, _larger),
    "min": (math.inf, _smaller),
}


class _Writer:
    """Writes one kernel. All extents are static."""

    def __init__(self, workload: Workload, target: Target, parameters: Parameters) -> None:
        self.workload, self.target, self.parameters = workload, target, parameters

    def write(self) -> tvm.IRModule:
        return write(self.workload, self._body)

    def _body(self, buffers: Mapping[str, Buffer]) -> None:
        self.buffers = buffers
        self.program = program = find_inside(self.workload, find_row_program, buffers)
        write_rows(program.rows, self.parameters["block_rows"], self._allocate, self._write_row)

    def _allocate(self) -> None:
        passes = self.program.passes
        lanes = row_lanes(self.program.columns, self.target)
        most = max(len(one.reduced) for one in passes)
        self.loops = RowLoops(self.program.columns, lanes, self.parameters["accumulators"], most)
        self.kept = [(held.variable, self.loops.row_buffer()) for one in passes for held in one.held]
        results = [reduced.variable for one in passes for reduced in one.reduced]
        statistics = T.sblock_alloc_buffer((len(results),), "float32")
        self.statistics = statistics
        self.places = {variable: place for place, variable in enumerate(results)}

    def _write_row(self, row: Expr) -> None:
        self.row = row
        for one in self.program.passes:
            self._write_pass(one)
        if self.program.wide:
            self.loops.columns(lambda _slot, j, _new: self._store(self.program.wide, j))
        self._store(self.program.narrow, None)

    def _write_pass(self, one: Pass) -> None:
        buffers = {id(variable): buffer for variable, buffer in self.kept}

        def keep(j: Expr) -> None:
            for held in one.held:
                T.buffer_store(buffers[id(held.variable)], self._at(held.value, j), [j])

        def reduction(reduced: Reduced) -> Reduction:
            initial, combine = _KINDS[reduced.op]
            return Reduction(initial, combine, lambda j: self._at(reduced.value, j))

        results = self.loops.reduce([reduction(reduced) for reduced in one.reduced], keep)
        for reduced, result in zip(one.reduced, results, strict=True):
            value = result / T.float32(self.program.columns) if reduced.op == "mean" else result
            T.buffer_store(self.statistics, value, [self.places[reduced.variable]])

    def _store(self, outputs: tuple[Written, ...], j: Expr | None) -> None:
        for written in outputs:
            place = [self._at(i, j) for i in written.place]
            T.buffer_store(self.buffers[written.name], self._at(written.value, j), place)

    def _at(self, expr: Expr, j: Expr | None) -> Expr:
        """The expression at the row and, if there is one, the column at hand."""
        values = {self.program.row: self.row}
        values |= {variable: self.statistics[place] for variable, place in self.places.items()}
        if j is not None:
            values |= {self.program.column: j, **{variable: buffer[j] for variable, buffer in self.kept}}
        return substitute(expr, values)
