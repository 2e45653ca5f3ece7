"""Python files: a function that returns a model, or a TVMScript module that stands in the file."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from workbench.errors import ModelError, WorkbenchError
from workbench.tvm_seam import tvm

from ._base import Importer, Request
from ._module import from_module
from ._te import from_te, is_te
from .model import Model


class ScriptImporter(Importer):
    """Reads ``file.py:function`` (Relax IRModule or TE tensors) and ``file.py`` with exactly one IRModule in it."""

    kind = "file.py:function, or a file.py with one IRModule"

    def accepts(self, request: Request) -> bool:
        return request.text is not None and (request.text.endswith(".py") or ".py:" in request.text)

    def read(self, request: Request) -> Model:
        text = str(request.text)
        path, separator, attribute = text.rpartition(":") if not text.endswith(".py") else (text, "", "")
        namespace = _executed(Path(path))
        if separator:
            value, name = _called(namespace, attribute, text), attribute
        else:
            name, value = _only_module(namespace, text)
        name = request.name or name
        if isinstance(value, tvm.IRModule):
            return from_module(value, request, name, text)
        if is_te(value):
            return from_te(value, request, name, text)
        raise ModelError(
            f"{text}: gives an object of type {type(value).__name__}; a Relax IRModule or TE tensors were expected"
        )


def _executed(path: Path) -> ModuleType:
    """The file as a module under a name of its own. It stays importable: TVMScript reads its source again."""
    if not path.is_file():
        raise ModelError(f"{path}: there is no such file; give the path of a Python file")
    path = path.resolve()
    name = f"workbench_model_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except WorkbenchError:
        raise
    except (Exception, SystemExit) as error:  # a user's file may raise anything
        del sys.modules[name]
        raise ModelError(f"{path}: cannot be run ({_reason(error)})") from error
    return module


def _called(namespace: ModuleType, attribute: str, source: str) -> Any:
    value = getattr(namespace, attribute, None)
    if value is None:
        names = [n for n, v in vars(namespace).items() if _is_own_function(v, namespace) or isinstance(v, tvm.IRModule)]
        raise ModelError(f"{source}: the file has no '{attribute}', only {', '.join(names) or 'no function at all'}")
    if isinstance(value, tvm.IRModule) or is_te(value) or not callable(value):
        return value
    try:
        return value()
    except WorkbenchError:
        raise
    except (Exception, SystemExit) as error:  # a user's function may raise anything
        raise ModelError(f"{source}: the function, called without arguments, failed ({_reason(error)})") from error


def _is_own_function(value: object, namespace: ModuleType) -> bool:
    return inspect.isfunction(value) and value.__module__ == namespace.__name__


def _only_module(namespace: ModuleType, source: str) -> tuple[str, Any]:
    found: dict[str, tvm.IRModule] = {}
    for name, value in vars(namespace).items():
        if isinstance(value, tvm.IRModule) and not any(value.same_as(other) for other in found.values()):
            found[name] = value
    if len(found) != 1:
        raise ModelError(
            f"{source}: holds {len(found)} IRModules ({', '.join(found) or 'none'}), one was expected; "
            f"name the one to use, or a function, as {source}:NAME"
        )
    return next(iter(found.items()))


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
