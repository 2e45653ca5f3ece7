"""What can be computed before the model runs: operators whose operands are all constants."""

from __future__ import annotations

from workbench.tvm_seam import GenericConst, relax, tvm

from ._assemble import Binding, assemble
from ._relax import bindings_of, flatten, substitute, variables


def fold_constants(module: tvm.IRModule) -> tvm.IRModule:
    """The module (in one dataflow block) with transposed weights, shape arithmetic and the like computed.

    TVM's FoldConstant lowers every operator that it meets, foldable or not, and raises at one that it cannot lower for
    some dtype; so it gets a function of the constant operators alone. What it leaves stays an operator.
    """
    main = module["main"]
    bindings = [(binding.var, binding.value) for binding in bindings_of(main)]
    constant = _constant_part(bindings)
    if not constant:
        return module
    known = {var for var, _ in constant}
    rest = [(var, value) for var, value in bindings if var not in known]
    results = flatten(main.body.body)
    used = {v for _, value in rest for v in variables(value)} | {v for r in results for v in variables(r)}
    wanted = [var for var, _ in constant if var in used and isinstance(var.ty, relax.TensorType)]
    replaced = _computed(module, constant, wanted)
    left = [(var, substitute(value, replaced)) for var, value in bindings if var not in replaced]
    return assemble(module, list(main.params), left, [substitute(result, replaced) for result in results])


def _constant_part(bindings: list[Binding]) -> list[Binding]:
    known: set[relax.Var] = set()
    part = []
    for var, value in bindings:
        if all(v in known for v in variables(value)):
            known.add(var)
            part.append((var, value))
    return part


def _computed(module: tvm.IRModule, bindings: list[Binding], wanted: list[relax.Var]) -> dict[relax.Var, relax.Expr]:
    """The constants that stand for the wanted variables; those that cannot be computed are left out."""
    if not wanted:
        return {}
    folded = relax.transform.FoldConstant()(assemble(module, [], bindings, list(wanted)))["main"]
    value_of = {binding.var: binding.value for binding in bindings_of(folded)}
    results = [value_of.get(result, result) for result in flatten(folded.body.body)]
    return {var: value for var, value in zip(wanted, results, strict=True) if isinstance(value, GenericConst)}
