"""The canonical form of a model, which every later stage reads.

One Relax function ``main`` in one dataflow block whose bindings are operator calls and items of their tuple results,
nothing else: no alias, no written-out tuple, no cast or reshape that changes nothing, nothing unused. Constants are
folded (transposes of weights, shape arithmetic); BatchNorm keeps its inference form and its place.

before::

    lv = permute_dims(W);  lv1 = reshape(x, (8, 16));  lv2 = matmul(lv1, lv);  gv = (lv2,)

after, for x[8, 16]::

    matmul = matmul(x, W')
"""

from __future__ import annotations

from workbench.errors import ModelError, UnsupportedOperator
from workbench.tvm_seam import relax, tvm

from ._assemble import Binding, assemble, without_dead_code
from ._relax import bindings_of, flatten, op_name, static_shape, substitute
from ._simplify import Simplifier
from .folding import fold_constants


def canonicalise(module: tvm.IRModule, source: str) -> tvm.IRModule:
    """The module in canonical form; shapes must be static and weights bound.

    Raises ModelError for a module without a usable ``main``, UnsupportedOperator for control flow, foreign calls and
    results whose shape depends on data.
    """
    _require_main(module, source)
    if any(isinstance(f, relax.Function) and g.name_hint != "main" for g, f in module.functions_items()):
        module = relax.transform.InlinePrivateFunctions()(_made_private(module))
    module = _rewrite(module, source)
    module = _rewrite(fold_constants(module), source)
    if not module["main"].body.blocks:
        raise ModelError(
            f"{source}: no operator is left, its outputs are inputs or constants; give a model that computes"
        )
    return module


def _require_main(module: tvm.IRModule, source: str) -> None:
    names = [g.name_hint for g in module.get_global_vars()]
    if "main" not in names:
        raise ModelError(
            f"{source}: the module has no function 'main', only {', '.join(names) or 'nothing'}; name it so"
        )
    main = module["main"]
    if not isinstance(main, relax.Function):
        raise ModelError(f"{source}: 'main' is a {type(main).__name__}, not a Relax function")
    for param in main.params:
        if not isinstance(param.ty, relax.TensorType):
            raise ModelError(f"{source}: input '{param.name}' is a {param.ty}, not a tensor; pass tensors one by one")
        if static_shape(param.ty) is None:
            raise ModelError(f"{source}: input '{param.name}' is a {param.ty} without a shape; give it one")


def _made_private(module: tvm.IRModule) -> tvm.IRModule:
    """Every Relax function but ``main`` without its global symbol, so that TVM may inline it."""
    functions = {}
    for gvar, func in module.functions_items():
        inner = isinstance(func, relax.Function) and gvar.name_hint != "main"
        functions[gvar] = func.without_attr("global_symbol") if inner else func
    return tvm.IRModule(functions, attrs=module.attrs, global_infos=module.global_infos)


def _rewrite(module: tvm.IRModule, source: str) -> tvm.IRModule:
    """One pass of simplification over ``main``, then names, dataflow block and dead code."""
    main = module["main"]
    if not isinstance(main.body, relax.SeqExpr):
        main = relax.transform.Normalize()(module)["main"]
    simplify = Simplifier(module, source)
    replaced: dict[relax.Var, relax.Expr] = {}
    casts = {b.var for b in bindings_of(main) if isinstance(b, relax.MatchCast)}
    for var, value in _live(main, source):
        value = substitute(value, replaced)
        replaced[var] = _matched(var, value, source) if var in casts else simplify(var, value)
    outputs = flatten(substitute(main.body.body, replaced))
    _require_tensors(outputs, source)
    return assemble(module, list(main.params), simplify.kept, outputs)


def _live(main: relax.Function, source: str) -> list[Binding]:
    """The bindings that count; what the outputs do not need may be as odd as it likes."""
    bindings = [(binding.var, binding.value) for binding in bindings_of(main)]
    for var, value in bindings:
        if isinstance(value, relax.If):
            raise UnsupportedOperator("if", var.name, source)
    return without_dead_code(bindings, [main.body.body])


def _matched(var: relax.Var, value: relax.Expr, source: str) -> relax.Expr:
    """The value of a cast to the shape it has anyway; any other cast needs a check at run time and is refused."""
    if isinstance(value, relax.Call):
        raise UnsupportedOperator(f"{op_name(value)} (its result's shape depends on data)", var.name, source)
    wanted, found = static_shape(var.ty), static_shape(value.ty)
    if found is None or (wanted is not None and wanted != found):
        raise ModelError(
            f"{source}: match_cast '{var.name}' of a value of type {value.ty} to {var.ty}; "
            "shapes must be known before the model runs"
        )
    return value


def _require_tensors(outputs: list[relax.Expr], source: str) -> None:
    if not outputs:
        raise ModelError(f"{source}: the model returns nothing; return a tensor or a tuple of tensors")
    for index, output in enumerate(outputs):
        if not isinstance(output.ty, relax.TensorType):
            raise ModelError(f"{source}: output {index} is a {output.ty}, not a tensor; return tensors only")
