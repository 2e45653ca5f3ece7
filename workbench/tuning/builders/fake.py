"""A builder without a compiler: for tests, for teaching, and for comparing strategies in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from ...kernels.kernel import Kernel
from ...store.record import ScheduleSpec, Status
from ...tvm_seam import tvm_version
from ..task import Candidate, Task
from ._base import Builder, BuildResult

Fault = Callable[[ScheduleSpec], tuple[Status, str] | None]


class FakeBuilder(Builder):
    """Makes an empty kernel of every candidate, but for those that ``fault`` gives a status and an error."""

    def __init__(self, fault: Fault | None = None) -> None:
        self._fault = fault
        self.built = 0
        self.closed = False

    def build(self, task: Task, candidates: Sequence[Candidate]) -> list[BuildResult]:
        """See :class:`Builder`."""
        return [self._build(task, candidate) for candidate in candidates]

    def close(self) -> None:
        """See :class:`Builder`."""
        self.closed = True

    def _build(self, task: Task, candidate: Candidate) -> BuildResult:
        self.built += 1
        fault = self._fault(candidate.schedule) if self._fault is not None else None
        if fault is not None:
            return BuildResult(None, None, fault[0], fault[1], 0.0)
        schedule = candidate.schedule
        symbol = f"fake_{self.built}"
        kernel = Kernel(symbol, task.workload.key, task.target.key, tvm_version(), schedule, (), b"\x7fELF")
        return BuildResult(kernel, Path(f"{symbol}.so"), "ok", "", 0.0)
