"""Bindings -> the function ``main`` in one dataflow block, without dead code, under names that read well."""

from __future__ import annotations

import keyword
import re

from workbench.tvm_seam import relax, tvm

from ._relax import op_name, substitute, variables

Binding = tuple[relax.Var, relax.Expr]


def assemble(
    module: tvm.IRModule, params: list[relax.Var], bindings: list[Binding], outputs: list[relax.Expr]
) -> tvm.IRModule:
    """An IRModule of ``main`` and the tensor programs that it still calls.

    Bindings are named after their operators (``matmul``, ``matmul_1``, ``split_item0``), not after the source's
    variables, so that the same structure always gets the same names.
    """
    live = without_dead_code(bindings, outputs)
    escaping = {v for output in outputs for v in variables(output)}
    names = _Names()
    replaced: dict[relax.Var, relax.Expr] = {}
    for param in params:
        replaced[param] = relax.Var(names.fresh(param.name), param.ty)
    new_params = [replaced[p] for p in params]
    block = []
    for var, value in live:
        new_value = substitute(value, replaced)
        kind = relax.Var if var in escaping else relax.DataflowVar
        new_var = kind(names.fresh(_base_name(value, replaced)), var.ty)
        block.append(relax.VarBinding(new_var, relax.BlockBuilder().normalize(new_value)))
        replaced[var] = new_var
    results = [substitute(output, replaced) for output in outputs]
    result = results[0] if len(results) == 1 else relax.Tuple(results)
    result = relax.BlockBuilder().normalize(result)
    body = relax.BlockBuilder().normalize(relax.SeqExpr([relax.DataflowBlock(block)], result))
    main = relax.Function(new_params, body, result.ty, is_pure=True).with_attr("global_symbol", "main")
    return _module(module, main, [value for _, value in live])


def without_dead_code(bindings: list[Binding], outputs: list[relax.Expr]) -> list[Binding]:
    """The bindings that the outputs depend on, in order."""
    needed = {v for output in outputs for v in variables(output)}
    live = []
    for var, value in reversed(bindings):
        if var in needed:
            live.append((var, value))
            needed.update(variables(value))
    return live[::-1]


class _Names:
    """Unique identifiers."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def fresh(self, wanted: str) -> str:
        base = re.sub(r"\W+", "_", wanted).strip("_") or "value"
        if base[0].isdigit() or keyword.iskeyword(base):
            base = f"v_{base}"
        name, count = base, self._next.get(base, 0)
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._next[base] = count
        self._taken.add(name)
        return name


def _base_name(value: relax.Expr, replaced: dict[relax.Var, relax.Expr]) -> str:
    if isinstance(value, relax.TupleGetItem):
        return f"{replaced[value.tuple_value].name}_item{value.index}"
    if op_name(value) == "call_tir":
        return str(value.args[0].name_hint)
    return op_name(value).rpartition(".")[2]


def _module(module: tvm.IRModule, main: relax.Function, values: list[relax.Expr]) -> tvm.IRModule:
    """``main`` and the PrimFuncs that it calls, private so that later passes may fuse and drop them."""
    called = [v.args[0] for v in values if isinstance(v, relax.Call) and op_name(v) == "call_tir"]
    functions = {tvm.ir.GlobalVar("main"): main}
    for gvar in called:
        functions[gvar] = module[gvar].without_attr("global_symbol")
    return tvm.IRModule(functions, global_infos=module.global_infos)
