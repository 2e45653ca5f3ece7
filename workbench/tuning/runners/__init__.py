"""Runners: check and time built candidates on a device."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._base import Runner, RunResult
    from .fake import FakeRunner, latency_by_hash
    from .local import LocalRunner

_HOME = {
    "FakeRunner": "fake",
    "LocalRunner": "local",
    "RunResult": "_base",
    "Runner": "_base",
    "latency_by_hash": "fake",
}

__all__ = ["FakeRunner", "LocalRunner", "RunResult", "Runner", "latency_by_hash"]


def __getattr__(name: str) -> Any:  # the measuring process lives in this package and needs none of these
    if name not in _HOME:
        raise AttributeError(f"module 'workbench.tuning.runners' has no attribute '{name}'")
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
