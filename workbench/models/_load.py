"""One door for every kind of model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from workbench.errors import ModelError

from . import zoo
from ._base import Importer, Request
from ._builtin import BuiltinImporter
from .model import Model

IMPORTERS: tuple[Importer, ...] = (BuiltinImporter(),)


def load(
    source: object,
    *,
    args: Sequence[object] | None = None,
    batch: int | None = None,
    name: str | None = None,
) -> Model:
    """The model that ``source`` stands for, in canonical form."""
    if isinstance(source, os.PathLike):
        source = os.fspath(source)
    request = Request(source, None if args is None else tuple(args), batch, name)
    for importer in IMPORTERS:
        if importer.accepts(request):
            return importer.read(request)
    raise ModelError(f"{source}: not a model")


def builtin_models() -> Mapping[str, str]:
    """Name -> description with input shapes of every built-in model; imports no TVM."""
    return {name: str(entry) for name, entry in zoo.BUILTINS.items()}
