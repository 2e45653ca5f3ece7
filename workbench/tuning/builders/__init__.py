"""Builders: scheduled modules -> object files and shared libraries."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._base import Builder, BuildResult
    from .fake import FakeBuilder
    from .local import LocalBuilder

_HOME = {"BuildResult": "_base", "Builder": "_base", "FakeBuilder": "fake", "LocalBuilder": "local"}

__all__ = ["BuildResult", "Builder", "FakeBuilder", "LocalBuilder"]


def __getattr__(name: str) -> Any:  # the build worker lives in this package and needs none of these
    if name not in _HOME:
        raise AttributeError(f"module 'workbench.tuning.builders' has no attribute '{name}'")
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
