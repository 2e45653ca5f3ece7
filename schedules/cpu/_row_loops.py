"""Loops over the columns of one row in vectors, and reductions of a row in vector registers.

Sums run in ``accumulators`` vector registers, so that the latency of one addition is not that of the loop, and end in a
tree over lanes. Where the columns are no multiple of the vector length, the last vector of a row ends with the row and
overlaps the one before it; reductions leave out what was counted already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from workbench.targets import Target

from .._expressions import Expr
from ._register_tile import Buffer, T, ceil_div, float_lanes

_SMALL = 2**14  # elements that one thread is done with before a second one has started
Combine = Callable[[Expr, Expr], Expr]
Element = Callable[[Expr], Expr]


@dataclass(frozen=True)
class Reduction:
    """``combine`` over ``element(column)`` of a row, from the float32 ``initial`` on."""

    initial: float
    combine: Combine
    element: Element


def row_space(rows: int, columns: int, target: Target) -> Mapping[str, tuple[int, ...]]:
    """``block_rows`` a task; ``accumulators``: vectors a step of every loop over columns."""
    vectors = columns // row_lanes(columns, target)
    share = ceil_div(rows, target.threads)
    blocks = [count for count in (share, 32, 8, 2) if count <= share]
    if rows * columns <= _SMALL:
        blocks.insert(0, rows)
    return {
        "block_rows": tuple(dict.fromkeys(blocks)),
        "accumulators": tuple(count for count in (4, 8, 2, 1) if count <= vectors),
    }


def row_lanes(columns: int, target: Target) -> int:
    """float32 elements of a vector: a register's, or the largest power of two that a short row has."""
    return int(min(float_lanes(target), 2 ** (columns.bit_length() - 1)))


def write_rows(rows: int, block_rows: int, allocate: Callable[[], None], write_row: Callable[[Expr], None]) -> None:
    """Emits parallel tasks of ``block_rows`` rows, the last of which may have fewer.

    ``allocate()`` makes a task's buffers, ``write_row(row)`` emits what is done for each of its rows.
    """
    tasks = ceil_div(rows, block_rows)
    with T.parallel(0, tasks) as task, T.sblock("task"):
        first = T.axis.spatial(tasks, task) * block_rows
        T.reads()
        T.writes()
        allocate()
        with T.serial(0, T.min(rows - first, block_rows)) as i:
            write_row(first + i)


class RowLoops:
    """Emits loops over one row of ``columns`` elements; made inside the block that its buffers belong to."""

    def __init__(self, columns: int, lanes: int, accumulators: int, reductions: int) -> None:
        """``reductions``: how many of them one loop does at most."""
        self._columns, self._lanes, self._accumulators = columns, lanes, accumulators
        # Under 1 KiB and not of scope "local": TVM leaves such buffers on the stack, where LLVM makes them registers.
        self._partials = [T.sblock_alloc_buffer((accumulators * lanes,), "float32") for _ in range(reductions)]

    def row_buffer(self) -> Buffer:
        """A buffer for one row, which stays in the L1 cache."""
        return T.sblock_alloc_buffer((self._columns,), "float32")

    def columns(self, body: Callable[[Expr, Expr, Expr | None], None]) -> None:
        """Emits ``body(slot, column, new)`` for all columns, in vectors.

        ``slot``: place of the element's partial result. ``new``: None, or in the last vector, which may overlap the one
        before it, whether the column comes for the first time.
        """
        lanes, width, columns = self._lanes, self._accumulators, self._columns
        vectors = columns // lanes
        with T.serial(0, vectors // width) as step, T.unroll(0, width) as u, T.vectorized(0, lanes) as lane:
            body(u * lanes + lane, (step * width + u) * lanes + lane, None)
        if vectors % width:
            with T.unroll(0, vectors % width) as u, T.vectorized(0, lanes) as lane:
                body(u * lanes + lane, (vectors // width * width + u) * lanes + lane, None)
        if columns % lanes:
            with T.vectorized(0, lanes) as lane:
                body(lane, columns - lanes + lane, lane >= lanes - columns % lanes)

    def reduce(
        self, reductions: Sequence[Reduction], prepare: Callable[[Expr], None] = lambda _column: None
    ) -> list[Expr]:
        """Emits all reductions in one loop, ``prepare(column)`` in front of their elements; the results, in order.

        A result is to be stored before the next reduction.
        """
        pairs = list(zip(self._partials, reductions, strict=False))
        assert len(pairs) == len(reductions)
        for partial, reduction in pairs:
            with T.unroll(0, self._accumulators) as vector, T.vectorized(0, self._lanes) as lane:
                T.buffer_store(partial, T.float32(reduction.initial), [vector * self._lanes + lane])

        def step(slot: Expr, column: Expr, new: Expr | None) -> None:
            prepare(column)
            for partial, reduction in pairs:
                value = reduction.element(column)
                value = value if new is None else T.Select(new, value, T.float32(reduction.initial))
                T.buffer_store(partial, reduction.combine(value, partial[slot]), [slot])

        self.columns(step)
        for partial, reduction in pairs:
            _fold(partial, reduction.combine, self._accumulators, self._lanes)
            _fold(partial, reduction.combine, self._lanes, 1)
        return [partial[0] for partial, _ in pairs]


def _fold(partial: Buffer, combine: Combine, parts: int, width: int) -> None:
    """Combines ``parts`` (a power of two) pieces of ``width`` partial results into the first, as a tree."""
    while parts > 1:
        parts //= 2
        vectors, lanes = (parts, width) if width > 1 else (1, parts)
        with T.unroll(0, vectors) as vector, T.vectorized(0, lanes) as lane:
            place = vector * lanes + lane
            T.buffer_store(partial, combine(partial[parts * width + place], partial[place]), [place])
