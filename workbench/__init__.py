"""TVM schedule and auto-tuning workbench: fuse, tune, measure and compare on your own machine.

>>> import workbench as wb
>>> run = wb.run("residual_layernorm", trials_per_task=16)   # doctest: +SKIP
>>> run.report("out/")                                        # doctest: +SKIP

Names are loaded when first used, so that ``import workbench`` does not pay for TVM.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "load": "api", "plan": "api", "tune": "api", "compile": "api", "run": "api", "sweep": "api", "compare": "api",
    "export_database": "api", "import_database": "api", "replay": "api",
    "Model": "models", "Graph": "graph", "Rule": "fusion", "Candidate": "fusion", "FusionPlan": "fusion",
    "Target": "targets", "Budget": "tuning", "TuneResult": "tuning", "Executable": "kernels", "Run": "report",
    "Sweep": "report", "Comparison": "report", "Store": "store", "WorkbenchError": "errors", "InputError": "errors",
}  # fmt: skip

__all__ = [*_HOME, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'workbench' has no attribute '{name}'")
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
