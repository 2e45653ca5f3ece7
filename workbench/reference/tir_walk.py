"""Looking through TIR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tvm_seam import tvm, tvm_ffi


def walk(node: Any, action: Callable[[Any], None]) -> None:
    """Calls ``action`` with every node below, children first."""

    def visit(found: Any) -> None:
        action(found)

    tvm_ffi.structural_walk(node, visit)


def variables(expr: Any) -> list[Any]:
    """The scalar variables that an expression reads; buffers are variables too in TVM 0.27 and are left out."""
    found: dict[Any, None] = {}

    def visit(node: Any) -> None:
        if type(node).__name__ == "Var" and isinstance(node.ty, tvm.ir.PrimType):
            found[node] = None

    walk(expr, visit)
    return list(found)


def loads_of(expr: Any) -> list[Any]:
    """The loads in an expression."""
    found: list[Any] = []

    def visit(node: Any) -> None:
        if type(node).__name__ in ("TensorLoad", "BufferLoad"):
            found.append(node)

    walk(expr, visit)
    return found


def stores_of(stmt: Any) -> list[Any]:
    """The stores of a sequence of statements."""
    if type(stmt).__name__ == "SeqStmt":
        return [store for s in stmt.seq for store in stores_of(s)]
    return [stmt] if type(stmt).__name__ == "BufferStore" else []


def written_buffers(stmt: Any) -> set[Any]:
    """The buffers that something below stores to."""
    found: set[Any] = set()

    def visit(node: Any) -> None:
        if type(node).__name__ == "BufferStore":
            found.add(node.buffer)

    walk(stmt, visit)
    return found


def is_leaf(block: Any) -> bool:
    """Whether a block holds stores alone, so that its loops can be vectorised together."""

    def simple(stmt: Any) -> bool:
        kind = type(stmt).__name__
        return all(simple(s) for s in stmt.seq) if kind == "SeqStmt" else kind in ("BufferStore", "Bind")

    return not block.alloc_buffers and not block.match_buffers and simple(block.body)


def has_block(stmt: Any) -> bool:
    found = False

    def visit(node: Any) -> None:
        nonlocal found
        found = found or type(node).__name__ in ("SBlock", "While")

    walk(stmt, visit)
    return found
