"""LayerNorm, RMSNorm and softmax a row at a time, with the elementwise operators before and after them.

::

    parallel task (block of rows), for each row:
        x = producers; first sum or maximum             # x is kept in the L1 cache: a buffer of one row
        layer_norm: sum (x - mean)^2                     softmax: e = exp(x - maximum), sum e
        outputs = epilogue of the normalised x

Every tensor is read once from memory and written once. Sums run in ``accumulators`` vector registers, so that the
latency of one addition is not that of the loop, and end in a tree over lanes. The variance is the mean of squared
differences (two passes over the row in cache), since E[x^2] - E[x]^2 cancels. Where the columns are no multiple of the
vector length, the last vector of a row ends with the row and overlaps the one before it; sums leave out what was
counted already. NaN and infinities reach what they reach in NumPy; a row of -inf gives NaN in softmax.
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
from ._register_tile import Buffer, T, ceil_div, float_lanes
from ._row_group import RowGroup, Written, find_row_group

if TYPE_CHECKING:
    from workbench.kernels.workload import Workload

_SMALL = 2**14  # elements that one thread is done with before a second one has started
Combine = Callable[[Expr, Expr], Expr]


class RowNorm(LibrarySchedule):
    """``epilogue(norm(producers))`` over the last axes, outputs of the producers included; any sizes."""

    name: ClassVar[str] = "row_norm"
    summary: ClassVar[str] = "layer_norm, rms_norm, softmax, log_softmax with elementwise operators around, row by row"

    def serves(self, workload: Workload) -> bool:
        """float32; one norm or softmax over the last axes; all else elementwise or reshapes; outputs of full size."""
        return _row_group(workload) is not None

    def space(self, workload: Workload, target: Target) -> Mapping[str, tuple[int, ...]]:
        """``block_rows`` a task; ``accumulators``: vectors a step of every loop over columns."""
        group = _required(workload)
        vectors = group.columns // _lanes(group, target)
        share = ceil_div(group.rows, target.threads)
        blocks = [rows for rows in (share, 32, 8, 2) if rows <= share]
        if group.rows * group.columns <= _SMALL:
            blocks.insert(0, group.rows)
        return {
            "block_rows": tuple(dict.fromkeys(blocks)),
            "accumulators": tuple(count for count in (4, 8, 2, 1) if count <= vectors),
        }

    def apply(self, workload: Workload, target: Target, parameters: Parameters) -> tvm.IRModule:
        """The kernel, written for the workload's sizes."""
        _required(workload)
        return _Writer(workload, target, parameters).write()


def _lanes(group: RowGroup, target: Target) -> int:
    """float32 elements of a vector: a register's, or the largest power of two that a short row has."""
    return int(min(float_lanes(target), 2 ** (group.columns.bit_length() - 1)))


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
    """Writes one kernel. All extents are static; the last block may have fewer rows."""

    def __init__(self, workload: Workload, target: Target, parameters: Parameters) -> None:
        self.workload, self.target = workload, target
        self.block_rows = parameters["block_rows"]
        self.accumulators = parameters["accumulators"]

    def write(self) -> tvm.IRModule:
        return write(self.workload, self._body)

    def _body(self, buffers: Mapping[str, Buffer]) -> None:
        self.buffers = buffers
        self.group = group = find_inside(self.workload, find_row_group, buffers)
        self.lanes = _lanes(group, self.target)
        tasks = ceil_div(group.rows, self.block_rows)
        with T.parallel(0, tasks) as task, T.sblock("task"):
            first = T.axis.spatial(tasks, task) * self.block_rows
            T.reads()
            T.writes()
            self._allocate()
            with T.serial(0, T.min(group.rows - first, self.block_rows)) as i:
                self.row = first + i
                self._write_row()

    def _allocate(self) -> None:
        """``kept``: where a row of x is found once it is computed: the argument, the output, or a buffer."""
        x = self.group.operator.inputs[0]
        self.kept = self.buffers.get(x)
        self.computed = self.kept is None or any(written.name == x for written in self.group.early)
        if self.kept is None:
            self.row_buffer = self._row_buffer()
        if self.group.operator.op == "nn.softmax":
            self.raised = self._row_buffer()
        # Under 1 KiB and not of scope "local": TVM leaves such buffers on the stack, where LLVM makes them registers.
        self.partial = T.sblock_alloc_buffer((self.accumulators * self.lanes,), "float32")
        self.statistics = T.sblock_alloc_buffer((2,), "float32")

    def _row_buffer(self) -> Buffer:
        return T.sblock_alloc_buffer((self.group.columns,), "float32")

    def _write_row(self) -> None:
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

        self._columns(store)

    def _store(self, written: Written, j: Expr, values: Mapping[Expr, Expr]) -> None:
        value = self._at(substitute(written.value, values), j)
        T.buffer_store(self.buffers[written.name], value, [self._at(i, j) for i in written.place])

    def _at(self, expr: Expr, j: Expr) -> Expr:
        return substitute(expr, {self.group.row: self.row, self.group.column: j})

    def _reduce(self, statistic: int, initial: float, combine: Combine, element: Callable[[Expr], Expr]) -> None:
        """statistics[statistic] = ``element`` of all columns, combined."""
        partial, neutral = self.partial, T.float32(initial)
        with T.unroll(0, self.accumulators) as vector, T.vectorized(0, self.lanes) as lane:
            T.buffer_store(partial, neutral, [vector * self.lanes + lane])

        def step(slot: Expr, j: Expr, new: Expr | None) -> None:
            value = element(j)
            value = value if new is None else T.Select(new, value, neutral)
            T.buffer_store(partial, combine(value, partial[slot]), [slot])

        self._columns(step)
        self._fold(combine, self.accumulators, self.lanes)
        self._fold(combine, self.lanes, 1)
        self._set(statistic, partial[0])

    def _fold(self, combine: Combine, parts: int, width: int) -> None:
        """Combines ``parts`` (a power of two) pieces of ``width`` partial results into the first, as a tree."""
        partial = self.partial
        while parts > 1:
            parts //= 2
            vectors, lanes = (parts, width) if width > 1 else (1, parts)
            with T.unroll(0, vectors) as vector, T.vectorized(0, lanes) as lane:
                place = vector * lanes + lane
                T.buffer_store(partial, combine(partial[parts * width + place], partial[place]), [place])

    def _columns(self, body: Callable[[Expr, Expr, Expr | None], None]) -> None:
        """Emits ``body(slot, column, new)`` for all columns, in vectors.

        ``slot``: place of the element's partial result. ``new``: None, or in the last vector, which may overlap the one
        before it, whether the column comes for the first time.
        """
        lanes, width, columns = self.lanes, self.accumulators, self.group.columns
        vectors = columns // lanes
        with T.serial(0, vectors // width) as step, T.unroll(0, width) as u, T.vectorized(0, lanes) as lane:
            body(u * lanes + lane, (step * width + u) * lanes + lane, None)
        if vectors % width:
            with T.unroll(0, vectors % width) as u, T.vectorized(0, lanes) as lane:
                body(u * lanes + lane, (vectors // width * width + u) * lanes + lane, None)
        if columns % lanes:
            with T.vectorized(0, lanes) as lane:
                body(lane, columns - lanes + lane, lane >= lanes - columns % lanes)

    def _set(self, statistic: int, value: Expr) -> None:
        T.buffer_store(self.statistics, value, [statistic])

    def _inverse_root(self, variance: Expr) -> Expr:
        return T.float32(1) / T.sqrt(variance + T.float32(self.group.epsilon))
