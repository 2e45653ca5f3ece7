"""A kernel: a scheduled workload, compiled. The store keeps it, so the data type lives there."""

from __future__ import annotations

from ..store.kernel import Kernel, PackedArgument

__all__ = ["Kernel", "PackedArgument"]
