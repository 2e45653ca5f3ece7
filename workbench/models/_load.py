"""One door for every kind of model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache

from workbench.errors import InputError, ModelError

from . import zoo
from ._base import Importer, Request
from .model import Model


def load(
    source: object,
    *,
    args: Sequence[object] | None = None,
    batch: int | None = None,
    name: str | None = None,
) -> Model:
    """The model that ``source`` stands for, in canonical form; not yet compared with the source framework.

    ``source`` is a built-in model's name, the path of an ``.onnx`` or ``.pt2`` file, an ``nn.Module`` (with ``args``,
    a tuple of example tensors) or ``ExportedProgram``, ``"file.py:function"`` returning a Relax IRModule or TE
    tensors, a ``file.py`` that holds one IRModule, an IRModule, or TE tensors. ``batch`` is the size of the one
    symbolic leading dimension; ``name`` replaces the model's name.

    Raises ModelError for a source that is missing or broken or holds NaN, UnsupportedOperator, SymbolicShapeError,
    InputError for arguments that do not fit the source, SetupError when the source's framework is not installed.

    >>> load("attention").outputs[0].shape
    (1, 8, 512, 64)
    """
    if isinstance(source, os.PathLike):
        source = os.fspath(source)
    if args is not None and (isinstance(source, str) or not callable(source)):
        raise InputError(f"{source}: args are example tensors of an nn.Module; leave them out for other sources")
    if args is not None and not isinstance(args, list | tuple):
        args = (args,)  # a tensor is a sequence too: its rows are not what is meant
    request = Request(source, None if args is None else tuple(args), batch, name)
    for importer in importers():
        if importer.accepts(request):
            return importer.read(request)
    kinds = "; ".join(importer.kind for importer in importers())
    shown = f"'{source}'" if isinstance(source, str) else f"an object of type {type(source).__name__}"
    raise ModelError(f"{shown} is not a model; expected {kinds}. Built-in models: {', '.join(zoo.BUILTINS)}")


@cache
def importers() -> tuple[Importer, ...]:
    """Every importer, in the order in which they are asked; made when first needed, since they import TVM."""
    from ._builtin import BuiltinImporter
    from ._module import ModuleImporter
    from ._onnx import OnnxImporter
    from ._script import ScriptImporter
    from ._te import TensorExpressionImporter
    from ._torch import TorchImporter

    return (
        BuiltinImporter(),
        OnnxImporter(),
        TorchImporter(),
        ScriptImporter(),
        ModuleImporter(),
        TensorExpressionImporter(),
    )


def builtin_models() -> Mapping[str, str]:
    """Name -> description with input shapes of every built-in model; imports no TVM."""
    return {name: str(entry) for name, entry in zoo.BUILTINS.items()}
