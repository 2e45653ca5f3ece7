"""Temporaries between expansions, so that generating code takes time in proportion to the code.

TVM's LLVM generator simplifies the value of every ``Let`` with all earlier ones substituted, once for each use. An
expansion uses its argument dozens of times, so one inside another costs dozens squared: ``tanh(tanh(x))`` took a
minute to compile. What is loaded from a buffer is not substituted::

    B[i] = tanh(tanh(A[i]))   ->   t = local buffer of one vector;  t[:] = <tanh of A[i]>;  B[i] = <tanh of t[:]>

LLVM keeps such a buffer in a register.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ..tvm_seam import tvm, tvm_ffi

tirx = tvm.tirx
Expr: TypeAlias = Any  # tvm.ir.Expr, whose operators carry no annotations
Keep: TypeAlias = Callable[[Expr], Expr]
Rules: TypeAlias = list[tuple[Any, Callable[[Expr, Keep], Expr]]]

_STATEMENTS = (tirx.BufferStore, tirx.Evaluate, tirx.Bind)


def map_expressions(body: Any, rules: Rules) -> Any:
    """The statement with every expression of a rule's type replaced by the rule's result, innermost first.

    A rule gets the expression and ``keep``: what it uses repeatedly it passes through ``keep``, which puts an operand
    that is itself an expansion into a temporary before the statement. Nothing is moved out of a statement with
    ``if_then_else``, whose branches may guard loads, nor out of conditions and loop bounds.
    """

    def statement(stmt: Any) -> Any:
        before: list[Any] = []
        keep = _inline if _has_branches(stmt) else lambda operand: _kept(operand, before)
        mapped = tvm_ffi.structural_map(stmt, _bound(rules, keep))
        return tirx.SeqStmt([*before, mapped]) if before else mapped

    # In pre-order a rule's result would be descended into again; statements of these kinds hold no statements.
    body = tvm_ffi.structural_map(body, (_STATEMENTS, statement))
    return tvm_ffi.structural_map(body, _bound(rules, _inline))


def _bound(rules: Rules, keep: Keep) -> list[tuple[Any, Callable[[Expr], Expr]]]:
    return [(kind, lambda expr, rule=rule: rule(expr, keep)) for kind, rule in rules]  # type: ignore[misc]


def _inline(operand: Expr) -> Expr:
    return operand


def _kept(operand: Expr, before: list[Any]) -> Expr:
    """The operand, or where it contains an expansion a load of the temporary that holds it."""
    if not _contains(operand, tirx.Let):
        return operand
    dtype = tvm.DataType(str(operand.ty.dtype))
    lanes = dtype.lanes
    element = str(dtype).removesuffix(f"x{lanes}") if lanes > 1 else str(dtype)
    buffer = tirx.decl_buffer((lanes,), element, name="kept", scope="local")
    place = tirx.Ramp(tirx.const(0, "int32"), tirx.const(1, "int32"), lanes) if lanes > 1 else tirx.const(0, "int32")
    before += [tirx.AllocBuffer(buffer), tirx.BufferStore(buffer, operand, [place])]
    return tirx.BufferLoad(buffer, [place])


def _has_branches(stmt: Any) -> bool:
    found: list[bool] = []

    def look(call: Expr) -> None:
        if isinstance(call.op, tvm.ir.Op) and call.op.name.endswith("if_then_else"):
            found.append(True)

    tvm_ffi.structural_walk(stmt, (tvm.ir.Call, look))
    return bool(found)


def _contains(expr: Expr, kind: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(expr, (kind, found.append))
    return bool(found)
