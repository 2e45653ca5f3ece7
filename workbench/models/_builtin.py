"""Built-in models by name."""

from __future__ import annotations

import dataclasses

from workbench.errors import InputError

from . import zoo
from ._base import Importer, Request
from .model import Model


class BuiltinImporter(Importer):
    """Reads the name of a built-in model."""

    kind = "the name of a built-in model"

    def accepts(self, request: Request) -> bool:
        return request.text in zoo.BUILTINS

    def read(self, request: Request) -> Model:
        name = str(request.text)
        leading = zoo.BUILTINS[name].inputs[0].shape[0]
        if request.batch not in (None, leading):
            raise InputError(
                f"{name}: batch {request.batch} was given, but built-in models have the fixed size {leading}"
            )
        model = zoo.build(name)
        return dataclasses.replace(model, name=request.name or name)
