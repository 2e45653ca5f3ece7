"""Looking through TIR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import KernelError
from ..tvm_seam import tvm, tvm_ffi

_PACKED = frozenset(["tvm_call_packed", "tvm_call_cpacked"])


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
    """The buffers that something below stores to. Raises KernelError for a packed call, which could write anything."""
    found: set[Any] = set()
    packed: list[Any] = []  # an error raised inside of the walk would come out of TVM as a RuntimeError

    def visit(node: Any) -> None:
        if type(node).__name__ == "BufferStore":
            found.add(node.buffer)
        elif type(node).__name__ == "Call" and getattr(node.op, "name", "").rpartition(".")[2] in _PACKED:
            packed.append(node)

    walk(stmt, visit)
    if packed:
        name = packed[0].args[0]
        raise KernelError(f"the tensor program calls the packed function {name}, which has no reference")
    return found


def is_leaf(block: Any) -> bool:
    """Whether a block holds stores alone, so that its loops can be vectorised together."""

    def simple(stmt: Any) -> bool:
        kind = type(stmt).__name__
        return all(simple(s) for s in stmt.seq) if kind == "SeqStmt" else kind in ("BufferStore", "Bind")

    return not block.alloc_buffers and not block.match_buffers and simple(block.body)


def has_block(stmt: Any) -> bool:
    """Whether a statement holds a block or a while loop, which no outer loop may be vectorised over."""
    found = False

    def visit(node: Any) -> None:
        nonlocal found
        found = found or type(node).__name__ in ("SBlock", "While")

    walk(stmt, visit)
    return found
