"""LayerNorm, RMSNorm and softmax a row at a time, with the elementwise operators before and after them.

::

    parallel task (block of rows), for each row:
        x = producers; first sum or maximum             # x is kept in the L1 cache: a buffer of one row
        layer_norm: sum (x - mean)^2                     softmax: e = exp(x - maximum), sum e
        outputs = epilogue of the normalised x

Every tensor is read once from memory and written once; ``_row_loops`` has the loops. The variance is the mean of
squared differences (two passes over the row in cache), since E[x^2] - E[x]^2 cancels. NaN and infinities reach what
they reach in NumPy; a row of -inf gives NaN in softmax.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar

from workbench.targets import Target
from workbench.tvm_seam import tvm

from .._base import LibrarySchedule, Parameters
from .._expressions import Expr, Unsupported, substitute
from ._kernel import find, find_inside, write
from ._register_tile import Buffer, T
from ._row_group import RowGroup, find_row_group
from ._row_loops import Combine, Reduction, RowLoops, row_lanes, row_space, write_rows
from ._rows import Written

if TYPE_CHECKING:
    from workbench.kernels.workload import Workload


class RowNorm(LibrarySchedule):
    """``epilogue(norm(producers))`` over the last axes, outputs of the producers included; any sizes."""

    name: ClassVar[str] = "row_norm"
    summary: ClassVar[str] = "layer_norm, rms_norm, softmax, log_softmax with elementwise operators around, row by row"

    def serves(self, workload: Workload) -> bool:
        """float32; one norm or softmax over the last axes; all else elementwise or reshapes; outputs of full size."""
        return _row_group(workload) is not None

    def space(self, workload: Workload, target: Target) -> Mapping[str, tuple[int, ...]]:
        """See ``row_space``."""
        group = _required(workload)
        return row_space(group.rows, group.columns, target)

    def apply(self, workload: Workload, target: Target, parameters: Parameters) -> tvm.IRModule:
        """The kernel, written for the workload's sizes."""
        _required(workload)
        return _Writer(workload, target, parameters).write()


def _row_group(workload: Workload) -> RowGroup | None:
    return find(workload, find_row_group)


def _required(workload: Workload) -> RowGroup:
    group = _row_group(workload)
    if group is None:
        raise Unsupported(f"{workload.label} is not one norm or softmax over rows")
    return group


def _larger(a: Expr, b: Expr) -> Expr:
    """The maximum, but for NaN, which exp brings into the sum anyway: one instruction."""
    return T.Select(a > b, a, b)


def _sum(a: Expr, b: Expr) -> Expr:
    return a + b


class _Writer:
    """Writes one kernel. All extents are static."""

    def __init__(self, workload: Workload, target: Target, parameters: Parameters) -> None:
        self.workload, self.target = workload, target
        self.block_rows = parameters["block_rows"]
        self.accumulators = parameters["accumulators"]

    def write(self) -> tvm.IRModule:
        return write(self.workload, self._body)

    def _body(self, buffers: Mapping[str, Buffer]) -> None:
        self.buffers = buffers
        self.group = group = find_inside(self.workload, find_row_group, buffers)
        write_rows(group.rows, self.block_rows, self._allocate, self._write_row)

    def _allocate(self) -> None:
        """``kept``: where a row of x is found once it is computed: the argument, the output, or a buffer."""
        x = self.group.operator.inputs[0]
        lanes = row_lanes(self.group.columns, self.target)
        self.loops = RowLoops(self.group.columns, lanes, self.accumulators, reductions=1)
        self.kept = self.buffers.get(x)
        self.computed = self.kept is None or any(written.name == x for written in self.group.early)
        if self.kept is None:
            self.row_buffer = self.loops.row_buffer()
        if self.group.operator.op == "nn.softmax":
            self.raised = self.loops.row_buffer()
        self.statistics = T.sblock_alloc_buffer((2,), "float32")

    def _write_row(self, row: Expr) -> None:
        self.row = row
        steps = {
            "nn.layer_norm": self._layer_norm,
            "nn.rms_norm": self._rms_norm,
            "nn.softmax": self._softmax,
            "nn.log_softmax": self._log_softmax,
        }
        steps[self.group.operator.op]()

    def _layer_norm(self) -> None:
        group, columns = self.group, T.float32(self.group.columns)
        mean, factor = 0, 1
        self._reduce(mean, 0.0, _sum, lambda j: self._first_use(j))
        self._set(mean, self.statistics[mean] / columns)

        def squared(j: Expr) -> Expr:
            difference = self._held(j) - self.statistics[mean]
            return difference * difference

        self._reduce(factor, 0.0, _sum, squared)
        self._set(factor, self._inverse_root(self.statistics[factor] / columns))
        assert group.scale is not None
        assert group.shift is not None
        scale, shift = group.scale, group.shift
        self._write_outputs(
            lambda j: (
                (self._held(j) - self.statistics[mean]) * self.statistics[factor] * self._at(scale, j)
                + self._at(shift, j)
            )
        )

    def _rms_norm(self) -> None:
        group, factor = self.group, 1

        def squared(j: Expr) -> Expr:
            value = self._first_use(j)
            return value * value

        self._reduce(factor, 0.0, _sum, squared)
        self._set(factor, self._inverse_root(self.statistics[factor] / T.float32(group.columns)))
        assert group.scale is not None
        scale = group.scale
        self._write_outputs(lambda j: self._held(j) * self.statistics[factor] * self._at(scale, j))

    def _softmax(self) -> None:
        maximum, total = 0, 1
        self._reduce(maximum, -math.inf, _larger, self._first_use)

        def raised(j: Expr) -> Expr:
            T.buffer_store(self.raised, T.exp(self._held(j) - self.statistics[maximum]), [j])
            return self.raised[j]

        self._reduce(total, 0.0, _sum, raised)
        self._set(total, T.float32(1) / self.statistics[total])
        self._write_outputs(lambda j: self.raised[j] * self.statistics[total])

    def _log_softmax(self) -> None:
        maximum, total = 0, 1
        self._reduce(maximum, -math.inf, _larger, self._first_use)
        self._reduce(total, 0.0, _sum, lambda j: T.exp(self._held(j) - self.statistics[maximum]))
        self._set(total, T.log(self.statistics[total]))
        self._write_outputs(lambda j: self._held(j) - self.statistics[maximum] - self.statistics[total])

    def _first_use(self, j: Expr) -> Expr:
        """Computes and keeps x where it has producers, stores the outputs of the producers; the element of x."""
        x = self.group.operator.inputs[0]
        if self.kept is None:
            T.buffer_store(self.row_buffer, self._at(self.group.x, j), [j])
        elif self.computed:
            T.buffer_store(self.kept, self._at(self.group.x, j), [self._at(i, j) for i in self.group.home])
        for written in self.group.early:
            if written.name != x:
                self._store(written, j, {self.group.held: self._held(j)})
        return self._held(j)

    def _held(self, j: Expr) -> Expr:
        if self.kept is None:
            return self.row_buffer[j]
        return self.kept[tuple(self._at(i, j) for i in self.group.home)]

    def _write_outputs(self, normal: Callable[[Expr], Expr]) -> None:
        def store(_slot: Expr, j: Expr, _new: Expr | None) -> None:
            for written in self.group.late:
                self._store(written, j, {self.group.held: self._held(j), self.group.normal: normal(j)})

        self.loops.columns(store)

    def _store(self, written: Written, j: Expr, values: Mapping[Expr, Expr]) -> None:
        value = self._at(substitute(written.value, values), j)
        T.buffer_store(self.buffers[written.name], value, [self._at(i, j) for i in written.place])

    def _at(self, expr: Expr, j: Expr) -> Expr:
        return substitute(expr, {self.group.row: self.row, self.group.column: j})

    def _reduce(self, statistic: int, initial: float, combine: Combine, element: Callable[[Expr], Expr]) -> None:
        """statistics[statistic] = ``element`` of all columns, combined."""
        [result] = self.loops.reduce([Reduction(initial, combine, element)])
        self._set(statistic, result)

    def _set(self, statistic: int, value: Expr) -> None:
        T.buffer_store(self.statistics, value, [statistic])

    def _inverse_root(self, variance: Expr) -> Expr:
        return T.float32(1) / T.sqrt(variance + T.float32(self.group.epsilon))
