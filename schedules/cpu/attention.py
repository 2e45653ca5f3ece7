"""Attention as one kernel with online softmax (Milakov and Gimelshein 2018; Dao et al. 2022).

Tiles are transposed: keys run along rows, queries along vector lanes::

    parallel task (batch, query block):
        copy q, transposed                                    # once a task
        for each block of keys:
            copy k and v as they are                          # split heads become contiguous
            for each tile of queries:
                s[key, query]  = sum_d k[key, d] * q[d, query]            # in registers
                m'[query]      = max(m, max_key s);  p = exp(s - m');  l = l * exp(m - m') + sum_key p
                o[column, query] = o * exp(m - m') + sum_key v[key, column] * p[key, query]
        write o / l, transposed

so neither k nor v is ever transposed and the softmax needs no sum across lanes. Rows of which every key is masked with
-inf give NaN, as softmax in NumPy does; NaN and infinities in q, k and v reach the outputs that they reach there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from workbench.targets import Target
from workbench.tvm_seam import tvm

from .._base import LibrarySchedule, Parameters
from .._expressions import Expr, Unsupported, substitute, unravel
from ._attention_group import Attention, find_attention
from ._kernel import find, find_inside, write
from ._register_tile import (
    Buffer,
    RegisterTile,
    T,
    accumulator_buffer,
    ceil_div,
    emit_product,
    emit_row_copy,
    float_lanes,
    lane_loops,
)

if TYPE_CHECKING:
    from workbench.kernels.workload import Workload

_NEGATIVE_INFINITY = -math.inf


class FlashAttention(LibrarySchedule):
    """``softmax(scale(q @ k) + mask) @ v``, heads split and joined by indexing, any sequence lengths."""

    name: ClassVar[str] = "attention"
    summary: ClassVar[str] = "attention with online softmax, with masks and the layout operators around it"

    def serves(self, workload: Workload) -> bool:
        """float32; one softmax over the last axis between two matmuls; all else elementwise or layout."""
        return _attention(workload) is not None

    def space(self, workload: Workload, target: Target) -> Mapping[str, tuple[int, ...]]:
        """``tile_rows`` x ``tile_vectors`` registers, ``query_tiles`` a task, ``block_keys`` between rescalings."""
        attention = _required(workload)
        lanes = float_lanes(target)
        wide = target.vector_bits >= 512
        vectors = [count for count in (2, 3, 1) if (count - 1) * lanes < attention.queries]
        tiles = ceil_div(attention.queries, vectors[0] * lanes)
        counts = list(dict.fromkeys(min(count, tiles) for count in (8, 4, 2, 1)))
        # k and v are copied once a task, so the larger the better, as long as every thread has a task.
        counts.sort(key=lambda count: attention.batches * ceil_div(tiles, count) < target.threads)
        blocks = dict.fromkeys(min(keys, attention.keys) for keys in (64, 128, 32))
        return {
            "tile_rows": (8, 12) if wide else (6, 4),
            "tile_vectors": tuple(vectors),
            "query_tiles": tuple(counts),
            "block_keys": tuple(blocks),
        }

    def legal(self, workload: Workload, target: Target, parameters: Parameters) -> bool:
        """The tile fits the registers."""
        return _tile(target, parameters).fits(target)

    def apply(self, workload: Workload, target: Target, parameters: Parameters) -> tvm.IRModule:
        """The kernel, written for the workload's sizes."""
        _required(workload)
        return _Writer(workload, target, parameters).write()


def _tile(target: Target, parameters: Parameters) -> RegisterTile:
    return RegisterTile(parameters["tile_rows"], parameters["tile_vectors"], float_lanes(target))


def _attention(workload: Workload) -> Attention | None:
    float32 = workload.args[-1].dtype == "float32"
    one_output = workload.graph is not None and len(workload.graph.outputs) == 1
    return find(workload, find_attention) if float32 and one_output else None


def _required(workload: Workload) -> Attention:
    attention = _attention(workload)
    if attention is None:
        raise Unsupported(f"{workload.label} is not attention")
    return attention


class _Writer:
    """Writes one kernel. All extents are static; the last query tile and the last block of keys may be partly empty."""

    def __init__(self, workload: Workload, target: Target, parameters: Parameters) -> None:
        self.workload = workload
        self.tile = _tile(target, parameters)
        self.tiles_a_task = parameters["query_tiles"]
        self.block_keys = parameters["block_keys"]

    def write(self) -> tvm.IRModule:
        return write(self.workload, self._body)

    def _body(self, buffers: Mapping[str, Buffer]) -> None:
        assert self.workload.graph is not None
        self.output = buffers[self.workload.graph.outputs[0]]
        self.attention = find_inside(self.workload, find_attention, buffers)
        blocks = ceil_div(self.attention.queries, self.tiles_a_task * self.tile.columns)
        with T.parallel(0, self.attention.batches * blocks) as task, T.sblock("task"):
            bound = T.axis.spatial(self.attention.batches * blocks, task)
            T.reads()
            T.writes()
            self._allocate()
            self._task(bound // blocks, bound % blocks * (self.tiles_a_task * self.tile.columns))

    def _allocate(self) -> None:
        tile, attention, tiles = self.tile, self.attention, self.tiles_a_task
        self.padded_keys = ceil_div(self.block_keys, tile.rows) * tile.rows
        self.padded_columns = ceil_div(attention.columns, tile.rows) * tile.rows
        allocate = T.sblock_alloc_buffer
        self.q = allocate((tiles, attention.depth, tile.columns), "float32")
        self.k = allocate((self.padded_keys, attention.depth), "float32")
        self.v = allocate((self.block_keys, self.padded_columns), "float32")
        self.scores = allocate((self.padded_keys, tile.columns), "float32")
        self.result = allocate((tiles, self.padded_columns, tile.columns), "float32")
        self.maximum = allocate((tiles, tile.columns), "float32")
        self.total = allocate((tiles, tile.columns), "float32")
        self.accumulators = accumulator_buffer(tile)
        self.running = allocate((3, tile.columns), "float32", scope="local")  # maximum, rescaling factor, sum

    def _task(self, batch: Expr, first_query: Expr) -> None:
        attention, tile = self.attention, self.tile
        index = unravel(batch, attention.batch_shape)
        self.place = dict(zip(attention.batch, index, strict=True))
        left = ceil_div_expr(attention.queries - first_query, tile.columns)
        tiles = T.min(left, self.tiles_a_task)
        with T.serial(0, tiles) as t:
            self._start_tile(t, first_query + t * tile.columns)
        with T.serial(0, ceil_div(attention.keys, self.block_keys)) as block:
            first_key = block * self.block_keys
            keys = T.min(attention.keys - first_key, self.block_keys)
            self._copy_keys(first_key, keys)
            with T.serial(0, tiles) as t:
                self._scores(t, keys)
                self._softmax(t, first_query + t * tile.columns, first_key, keys)
                self._weigh(t, keys)
        with T.serial(0, tiles) as t:
            self._write_tile(t, first_query + t * tile.columns)

    def _element(self, expr: Expr, values: Mapping[Expr, Expr]) -> Expr:
        return substitute(expr, {**self.place, **values})

    def _query(self, first: Expr, lane: Expr) -> Expr:
        """A lane's query; lanes beyond the last repeat it, so that nothing is read out of bounds."""
        if self.attention.queries % self.tile.columns == 0:
            return first + lane
        return T.min(first + lane, self.attention.queries - 1)

    def _start_tile(self, t: Expr, first_query: Expr) -> None:
        attention, tile = self.attention, self.tile
        with T.serial(0, tile.columns) as j, T.serial(0, attention.depth) as d:
            values = {attention.query: self._query(first_query, j), attention.inner: d}
            T.buffer_store(self.q, self._element(attention.q, values), [t, d, j])
        with T.serial(0, self.padded_columns) as c, self._lanes() as j:
            T.buffer_store(self.result, T.float32(0), [t, c, j])
        with self._lanes() as j:
            T.buffer_store(self.maximum, T.float32(_NEGATIVE_INFINITY), [t, j])
        with self._lanes() as j:
            T.buffer_store(self.total, T.float32(0), [t, j])

    def _lanes(self) -> Any:
        """Unrolled vector loop over the queries of a tile."""
        return lane_loops(self.tile)

    def _copy_keys(self, first_key: Expr, keys: Expr) -> None:
        attention = self.attention
        with T.serial(0, self.padded_keys) as row:
            key = T.min(first_key + row, attention.keys - 1)

            def store_k(d: Expr) -> None:
                values = {attention.key: key, attention.inner: d}
                T.buffer_store(self.k, self._element(attention.k, values), [row, d])

            emit_row_copy(self.tile.lanes, attention.depth, store_k)
        with T.serial(0, keys) as row:

            def store_v(c: Expr) -> None:
                values = {attention.key: first_key + row, attention.column: c}
                T.buffer_store(self.v, self._element(attention.v, values), [row, c])

            emit_row_copy(self.tile.lanes, attention.columns, store_v)
            if self.padded_columns > attention.columns:
                with T.serial(0, self.padded_columns - attention.columns) as c:
                    T.buffer_store(self.v, T.float32(0), [row, c + attention.columns])

    def _scores(self, t: Expr, keys: Expr) -> None:
        rows = self.tile.rows
        with T.serial(0, ceil_div_expr(keys, rows)) as key_tile:
            emit_product(
                self.tile,
                self.accumulators,
                self.attention.depth,
                initial=lambda i, j: T.float32(0),
                left=lambda i, d: self.k[key_tile * rows + i, d],
                right=lambda d, j: self.q[t, d, j],
                finish=lambda i, j, value: T.buffer_store(self.scores, value, [key_tile * rows + i, j]),
            )

    def _softmax(self, t: Expr, first_query: Expr, first_key: Expr, keys: Expr) -> None:
        """scores -> exp(tail(scores) - maximum); updates maximum and sum; leaves the rescaling factor in running[1]."""
        attention, scores, running = self.attention, self.scores, self.running
        with self._lanes() as j:
            T.buffer_store(running, self.maximum[t, j], [0, j])
        with T.serial(0, keys) as row:
            with self._lanes() as j:
                values = {
                    attention.score: scores[row, j],
                    attention.query: self._query(first_query, j),
                    attention.key: first_key + row,
                }
                T.buffer_store(scores, self._element(attention.tail, values), [row, j])
            with self._lanes() as j:
                larger = scores[row, j] > running[0, j]
                T.buffer_store(running, T.Select(larger, scores[row, j], running[0, j]), [0, j])
        with self._lanes() as j:
            # Nothing but -inf so far: exp(-inf - 0) = 0 keeps the sums zero, exp(-inf - -inf) would make them NaN.
            nothing = tvm.tirx.EQ(running[0, j], T.float32(_NEGATIVE_INFINITY))
            T.buffer_store(running, T.Select(nothing, T.float32(0), running[0, j]), [2, j])
        with self._lanes() as j:
            T.buffer_store(running, T.exp(self.maximum[t, j] - running[2, j]), [1, j])
        with self._lanes() as j:
            T.buffer_store(self.maximum, running[0, j], [t, j])
        with self._lanes() as j:
            T.buffer_store(running, self.total[t, j] * running[1, j], [0, j])
        with T.serial(0, keys) as row:
            with self._lanes() as j:
                T.buffer_store(scores, T.exp(scores[row, j] - running[2, j]), [row, j])
            with self._lanes() as j:
                T.buffer_store(running, running[0, j] + scores[row, j], [0, j])
        with self._lanes() as j:
            T.buffer_store(self.total, running[0, j], [t, j])

    def _weigh(self, t: Expr, keys: Expr) -> None:
        rows = self.tile.rows
        with T.serial(0, self.padded_columns // rows) as column_tile:
            emit_product(
                self.tile,
                self.accumulators,
                keys,
                initial=lambda i, j: self.result[t, column_tile * rows + i, j] * self.running[1, j],
                left=lambda i, key: self.v[key, column_tile * rows + i],
                right=lambda key, j: self.scores[key, j],
                finish=lambda i, j, value: T.buffer_store(self.result, value, [t, column_tile * rows + i, j]),
            )

    def _write_tile(self, t: Expr, first_query: Expr) -> None:
        attention = self.attention
        count = T.min(attention.queries - first_query, self.tile.columns)
        with T.serial(0, count) as j, T.serial(0, attention.columns) as c:
            values = {attention.query: first_query + j, attention.column: c}
            place = [self._element(index, values) for index in attention.place]
            T.buffer_store(self.output, self.result[t, c, j] / self.total[t, j], place)


def ceil_div_expr(a: Expr, b: int) -> Expr:
    return tvm.tirx.floordiv(a + (b - 1), b)
