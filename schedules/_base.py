"""The interface of a library schedule: what it serves, its parameters, and the scheduled tensor program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import tvm

    from workbench.kernels.workload import Workload
    from workbench.targets import Target

Parameters = Mapping[str, int]


class LibrarySchedule(ABC):
    """A schedule, or a kernel written in TIR, for one family of workloads."""

    name: ClassVar[str]
    summary: ClassVar[str]

    @abstractmethod
    def serves(self, workload: Workload) -> bool:
        """Whether this schedule can compute the workload; decides by ``workload.graph``, never by names."""

    @abstractmethod
    def space(self, workload: Workload, target: Target) -> Mapping[str, tuple[int, ...]]:
        """Values that each parameter may take, most promising first (the first of each make the default)."""

    def legal(self, workload: Workload, target: Target, parameters: Parameters) -> bool:
        """Whether a combination of parameter values makes sense; default: all do."""
        return True

    @abstractmethod
    def apply(self, workload: Workload, target: Target, parameters: Parameters) -> tvm.IRModule:
        """The scheduled module, function ``main``, with the same parameters in the same order as the workload's."""
