"""A kernel as the store keeps it: plain data, made and understood by :mod:`workbench.kernels`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .record import ScheduleSpec


@dataclass(frozen=True)
class PackedArgument:
    """A constant argument that the kernel wants re-packed: what ``NAME_prepack`` makes of it, once, at load."""

    index: int  # position in Workload.args
    shape: tuple[int, ...]
    dtype: str

    def to_json(self) -> dict[str, Any]:
        return {"index": self.index, "shape": list(self.shape), "dtype": self.dtype}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> PackedArgument:
        return PackedArgument(document["index"], tuple(document["shape"]), document["dtype"])


@dataclass(frozen=True)
class Kernel:
    """One object file with the function ``symbol`` (arguments as in ``Workload.args``, packed ones in packed shape).

    Where ``packed`` is not empty the object also holds ``symbol + "_prepack"``: takes the original constants in order
    of ``packed``, then the packed results. ``code`` is the object file itself (ELF).
    """

    symbol: str
    workload: str  # Workload.key
    target: str  # Target.key
    tvm: str
    schedule: ScheduleSpec
    packed: tuple[PackedArgument, ...]
    code: bytes
