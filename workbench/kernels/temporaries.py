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
Guard: TypeAlias = tuple[Expr, bool]  # a condition, and which of its two branches one is in

_STATEMENTS = (tirx.BufferStore, tirx.Evaluate, tirx.Bind)


def map_expressions(body: Any, rules: Rules) -> Any:
    """The statement with every expression of a rule's type replaced by the rule's result, innermost first.

    A rule gets the expression and ``keep``: what it uses repeatedly it passes through ``keep``, which puts an operand
    that is itself an expansion into a temporary before the statement. What stands in a branch of ``if_then_else``,
    which may guard loads, is computed under the same condition there. Nothing is moved out of conditions of statements
    and loop bounds.
    """

    def statement(stmt: Any) -> Any:
        before: list[Any] = []
        mapped = _mapped(stmt, rules, before, ())
        return tirx.SeqStmt([*before, mapped]) if before else mapped

    # In pre-order a rule's result would be descended into again; statements of these kinds hold no statements.
    body = tvm_ffi.structural_map(body, (_STATEMENTS, statement))
    return tvm_ffi.structural_map(body, _bound(rules, _inline))


def _mapped(part: Any, rules: Rules, before: list[Any], guards: tuple[Guard, ...]) -> Any:
    """A statement or expression with the rules applied, where ``guards`` hold; temporaries go to ``before``."""
    branches: dict[Any, Expr] = {}

    def hold(call: Expr) -> Expr:
        if not (isinstance(call.op, tvm.ir.Op) and call.op.name.endswith("if_then_else") and hasattr(call.ty, "dtype")):
            return call  # that of a pointer checks arguments, and holds nothing to expand
        var = tirx.Var("branches", str(call.ty.dtype))
        branches[var] = call
        return var

    outside = tvm_ffi.structural_map(part, (tvm.ir.Call, hold), order="pre")
    for var, call in branches.items():
        condition = _mapped(call.args[0], rules, before, guards)
        chosen = [
            _mapped(branch, rules, before, (*guards, (condition, taken)))
            for branch, taken in zip(call.args[1:], (True, False), strict=True)
        ]
        branches[var] = tirx.if_then_else(condition, *chosen)

    def keep(operand: Expr) -> Expr:
        return _kept(_filled(operand, branches), before, guards)

    return _filled(tvm_ffi.structural_map(outside, _bound(rules, keep)), branches)


def _filled(part: Any, branches: dict[Any, Expr]) -> Any:
    """With every variable that stands for an ``if_then_else`` replaced by it."""
    if not branches:
        return part
    return tvm_ffi.structural_map(part, (tirx.Var, lambda var: branches.get(var, var)))


def _bound(rules: Rules, keep: Keep) -> list[tuple[Any, Callable[[Expr], Expr]]]:
    return [(kind, lambda expr, rule=rule: rule(expr, keep)) for kind, rule in rules]  # type: ignore[misc]


def _inline(operand: Expr) -> Expr:
    return operand


def _kept(operand: Expr, before: list[Any], guards: tuple[Guard, ...]) -> Expr:
    """The operand, or where it contains an expansion a load of the temporary that holds it."""
    if not _contains(operand, tirx.Let):
        return operand
    dtype = tvm.DataType(str(operand.ty.dtype))
    lanes = dtype.lanes
    element = str(dtype).removesuffix(f"x{lanes}") if lanes > 1 else str(dtype)
    buffer = tirx.decl_buffer((lanes,), element, name="kept", scope="local")
    place = tirx.Ramp(tirx.const(0, "int32"), tirx.const(1, "int32"), lanes) if lanes > 1 else tirx.const(0, "int32")
    before += [tirx.AllocBuffer(buffer), tirx.BufferStore(buffer, _guarded(operand, guards), [place])]
    return tirx.BufferLoad(buffer, [place])


def _guarded(operand: Expr, guards: tuple[Guard, ...]) -> Expr:
    """The operand where every guard holds, else 0, which nothing reads."""
    nothing = tirx.const(0, str(operand.ty.dtype))
    for condition, taken in reversed(guards):
        operand = tirx.if_then_else(condition, *((operand, nothing) if taken else (nothing, operand)))
    return operand


def _contains(expr: Expr, kind: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(expr, (kind, found.append))
    return bool(found)
