"""The store: records, kernels, runs. Knows nothing of planning."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .kernel import Kernel, PackedArgument
from .record import MeasureSettings, Record, ScheduleSpec, Status

if TYPE_CHECKING:
    from .exchange import ImportReport
    from .store import RunSummary, Store
    from .summary import Removed, StoreSummary, TargetSummary

__all__ = [
    "ImportReport", "Kernel", "MeasureSettings", "PackedArgument", "Record", "Removed", "RunSummary", "ScheduleSpec",
    "Status", "Store", "StoreSummary", "TargetSummary",
]  # fmt: skip

# Loaded when first used: plain records should not cost an import of SQLAlchemy.
_HOME = {
    "ImportReport": "exchange", "RunSummary": "store", "Store": "store",
    "Removed": "summary", "StoreSummary": "summary", "TargetSummary": "summary",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'workbench.store' has no attribute '{name}'")
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
