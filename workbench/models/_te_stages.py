"""A tensor program of several stages -> one tensor program for each, so that planning sees its operators.

before: one PrimFunc that computes ``C = A @ B`` into a buffer of its own and ``D = max(C, 0)`` from it;
after: a PrimFunc ``C(A, B, C)`` and a PrimFunc ``D(C, D)``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from workbench.errors import UnsupportedOperator
from workbench.tvm_seam import tvm


@dataclass(frozen=True)
class Stage:
    """One loop nest: its name, its PrimFunc (inputs first), and the buffers of the whole program that it touches."""

    name: str
    func: tvm.tirx.PrimFunc
    reads: tuple[Any, ...]
    writes: tuple[Any, ...]


def stages(func: tvm.tirx.PrimFunc, source: str) -> list[Stage]:
    """The stages of what ``te.create_prim_func`` made, in order; each buffer is written by one stage."""
    root = func.body.block
    nests = list(root.body.seq) if isinstance(root.body, tvm.tirx.SeqStmt) else [root.body]
    return [_stage(nest, source) for nest in nests]


def _stage(nest: Any, source: str) -> Stage:
    blocks = list(_blocks(nest))
    if not blocks:
        raise UnsupportedOperator(f"a statement {type(nest).__name__}", "main", source)
    writes = _distinct(region.source for block in blocks for region in block.writes)
    reads = [b for b in _distinct(r.source for block in blocks for r in block.reads) if b not in writes]
    root = tvm.s_tir.SBlock([], [], [], "root", nest)
    # In TVM 0.27 a buffer is a variable, so the buffers are the parameters.
    func = tvm.tirx.PrimFunc([*reads, *writes], tvm.s_tir.SBlockRealize([], True, root))
    func = func.with_attr({"tirx.noalias": True, "s_tir": True})
    return Stage(blocks[0].name_hint, func, tuple(reads), tuple(writes))


def _blocks(nest: Any) -> Iterator[Any]:
    while isinstance(nest, tvm.tirx.For):
        nest = nest.body
    if isinstance(nest, tvm.tirx.SeqStmt):
        for inner in nest.seq:
            yield from _blocks(inner)
    elif isinstance(nest, tvm.s_tir.SBlockRealize):
        yield nest.block


def _distinct(buffers: Iterator[Any]) -> list[Any]:
    return list(dict.fromkeys(buffers))
