"""A kernel: a scheduled workload, compiled. The store keeps it, so the data type lives there."""

from __future__ import annotations

from typing import Protocol

from ..store.kernel import Kernel, PackedArgument
from ..store.record import ScheduleSpec

__all__ = ["Kernel", "KernelCache", "PackedArgument"]


class KernelCache(Protocol):
    """Where compiled kernels are kept; ``Store`` is one."""

    def get(self, workload: str, target: str, tvm: str, schedule: ScheduleSpec) -> Kernel | None:
        """The kernel of a workload key, a target key, a TVM version and a schedule, or None."""

    def put(self, kernel: Kernel) -> None:
        """Keeps a kernel."""
