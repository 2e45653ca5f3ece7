"""A matrix product of one tile that lives in vector registers, written with TVM's IR builder.

::

    acc[rows, columns] = initial
    for k in range(extent):  acc[i, j] += left(i, k) * right(k, j)      # left is one number, right a vector
    finish(i, j, acc[i, j])

Everything that touches ``acc`` is unrolled, so that LLVM keeps it in registers: ``rows * vectors`` accumulators, one
vector of ``right`` per column vector and one broadcast number (Goto and van de Geijn 2008, without their packing).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from workbench.targets import Target
from workbench.tvm_seam import tvm

from tvm.script.ir_builder import IRBuilder  # isort: skip
from tvm.script.ir_builder import tirx as T  # isort: skip

Expr: TypeAlias = Any  # tvm.ir.Expr, whose operators carry no annotations
Buffer: TypeAlias = Any


@dataclass(frozen=True)
class RegisterTile:
    """``rows`` x ``vectors`` vector registers of ``lanes`` float32 each."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes

    def fits(self, target: Target) -> bool:
        """Whether accumulators, one row of ``right`` and one broadcast number fit the register file."""
        return self.rows * self.vectors + self.vectors + 1 <= vector_registers(target)


def float_lanes(target: Target) -> int:
    """float32 elements of a vector register."""
    return max(target.vector_bits, 128) // 32


def vector_registers(target: Target) -> int:
    """Vector registers that x86-64 has: 32 with AVX-512, else 16."""
    return 32 if target.vector_bits >= 512 else 16


@contextmanager
def tile_loops(tile: RegisterTile) -> Iterator[tuple[Expr, Expr]]:
    """Unrolled loops over all elements of a tile, vectorised along columns: ``(row, column)``."""
    with T.unroll(0, tile.rows) as i, T.unroll(0, tile.vectors) as vector, T.vectorized(0, tile.lanes) as lane:
        yield i, vector * tile.lanes + lane


@contextmanager
def lane_loops(tile: RegisterTile) -> Iterator[Expr]:
    """Loops over the columns of one row of a tile: vectors unrolled, lanes vectorised."""
    with T.unroll(0, tile.vectors) as vector, T.vectorized(0, tile.lanes) as lane:
        yield vector * tile.lanes + lane


def emit_product(
    tile: RegisterTile,
    accumulators: Buffer,
    extent: Expr,
    initial: Callable[[Expr, Expr], Expr],
    left: Callable[[Expr, Expr], Expr],
    right: Callable[[Expr, Expr], Expr],
    finish: Callable[[Expr, Expr, Expr], None],
) -> None:
    """Emits the tile's product into the function under construction; ``accumulators`` is ``accumulator_buffer``'s."""
    with tile_loops(tile) as (i, j):
        T.buffer_store(accumulators, initial(i, j), [i, j])
    with T.serial(0, extent) as k, tile_loops(tile) as (i, j):
        T.buffer_store(accumulators, accumulators[i, j] + left(i, k) * right(k, j), [i, j])
    with tile_loops(tile) as (i, j):
        finish(i, j, accumulators[i, j])


def accumulator_buffer(tile: RegisterTile) -> Buffer:
    """Scope "local" keeps TVM from allocating tiles of more than 1 KiB on the heap, where LLVM must store them."""
    return T.sblock_alloc_buffer((tile.rows, tile.columns), "float32", scope="local")


def emit_row_copy(lanes: int, extent: int, store: Callable[[Expr], None]) -> None:
    """Emits ``store(j)`` for j in [0, extent), in vectors with a scalar rest."""
    if extent >= lanes:
        with T.serial(0, extent // lanes) as outer, T.vectorized(0, lanes) as lane:
            store(outer * lanes + lane)
    if extent % lanes:
        with T.serial(0, extent % lanes) as rest:
            store(rest + extent // lanes * lanes)


def scheduled_module(builder: IRBuilder) -> Any:
    """The finished function as a module with ``main``, marked as scheduled."""
    return tvm.IRModule({"main": builder.get().with_attr("tirx.is_scheduled", True)})


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)
