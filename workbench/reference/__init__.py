"""The reference that does not come from TVM: operators and tensor programs evaluated by NumPy and SciPy.

What evaluates is loaded when first used: a measuring process needs ``compare`` and pays for NumPy alone.
"""

from __future__ import annotations

import importlib
from typing import Any

from .compare import Comparison, compare, compare_all

_HOME = {
    "KernelReference": "kernel",
    "evaluate": "evaluation",
    "evaluate_all": "evaluation",
    "evaluate_prim_func": "tir",
    "kernel_reference": "kernel",
    "probe_references": "probes",
    "supported": "evaluation",
    "unsupported": "evaluation",
}

__all__ = [
    "Comparison",
    "KernelReference",
    "compare",
    "compare_all",
    "evaluate",
    "evaluate_all",
    "evaluate_prim_func",
    "kernel_reference",
    "probe_references",
    "supported",
    "unsupported",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'workbench.reference' has no attribute '{name}'")
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
