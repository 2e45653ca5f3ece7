"""Symbolic dimensions: one batch may be bound, all others need a size before a model can be used.

TVM's fusion passes abort the process on some symbolic shapes, so none may get past this point.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.errors import InputError, SymbolicShapeError
from workbench.tvm_seam import relax, tvm

from ._relax import is_symbol

Dimension = int | str


def bind_shapes(shapes: dict[str, Sequence[Dimension]], batch: int | None, source: str) -> dict[str, tuple[int, ...]]:
    """Input name -> static shape, given shapes whose symbolic dimensions are names.

    The batch is the one symbol that occurs as a leading dimension. Raises SymbolicShapeError naming a symbol that has
    no size, InputError for a batch that contradicts a fixed one.
    """
    symbol = batch_symbol(shapes)
    check_batch(symbol, shapes, batch, source)
    bound = {}
    for name, shape in shapes.items():
        for axis, dim in enumerate(shape):
            if isinstance(dim, str) and (dim != symbol or batch is None):
                raise _without_size(dim, symbol, source, name, axis)
        bound[name] = tuple(batch if isinstance(dim, str) else dim for dim in shape)
    return bound  # type: ignore[return-value]


def batch_symbol(shapes: dict[str, Sequence[Dimension]]) -> str | None:
    """The symbol that leads the inputs, if there is exactly one."""
    leading = {shape[0] for shape in shapes.values() if shape and isinstance(shape[0], str)}
    return str(leading.pop()) if len(leading) == 1 else None


def check_batch(symbol: str | None, shapes: dict[str, Sequence[Dimension]], batch: int | None, source: str) -> None:
    """Raises InputError for a batch below 1, or one that differs from a fixed leading dimension."""
    if batch is None:
        return
    if batch < 1:
        raise InputError(f"{source}: batch {batch} was given; it must be at least 1")
    leading = next((shape[0] for shape in shapes.values() if shape), None)
    if symbol is None and isinstance(leading, int) and leading != batch:
        raise InputError(
            f"{source}: batch {batch} was given, but the leading dimension is fixed at {leading}; "
            "export the model with a symbolic batch, or leave the batch out"
        )


def bind_module(module: tvm.IRModule, batch: int | None, source: str) -> tvm.IRModule:
    """The module with its batch symbol replaced by ``batch``; see :func:`bind_shapes` for the errors."""
    main = module["main"] if any(g.name_hint == "main" for g in module.get_global_vars()) else None
    if not isinstance(main, relax.Function):
        return module  # canonicalisation says what is wrong
    shapes: dict[str, Sequence[Dimension]] = {p.name: _dimensions(p.ty) for p in main.params}
    symbol = batch_symbol(shapes)
    check_batch(symbol, shapes, batch, source)
    if symbol is not None and batch is not None:
        module = relax.transform.BindSymbolicVars({symbol: batch}, "main")(module)
    for param in module["main"].params:
        for axis, dim in enumerate(_dimensions(param.ty)):
            if isinstance(dim, str):
                raise _without_size(dim, symbol, source, param.name, axis)
    return module


def _dimensions(ty: object) -> list[Dimension]:
    """No dimensions for a tensor of unknown shape: canonicalisation refuses it."""
    dims = getattr(getattr(ty, "shape", None), "values", ())
    return [int(dim) if isinstance(dim, tvm.tirx.IntImm) else _symbol_name(dim) for dim in dims]


def _symbol_name(dim: object) -> str:
    return str(dim.name) if is_symbol(dim) else str(dim)  # type: ignore[attr-defined]


def _without_size(dim: str, batch: str | None, source: str, name: str, axis: int) -> SymbolicShapeError:
    """Exporters invent names such as ``s77``, so the error says where the dimension is."""
    if dim == batch:
        return SymbolicShapeError(dim, source)
    place = f"it is axis {axis} of input '{name}'"
    return SymbolicShapeError(dim, source, f"{place}, and only the batch can be bound; export it with a fixed size")
