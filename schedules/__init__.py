"""Schedules of our own, for workloads that MetaSchedule's rules cannot schedule or schedule badly.

One file an entry, by kind of target: what it serves, its parameters, the kernel. To add one, subclass
:class:`LibrarySchedule` and list it in ``_entries``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from workbench.errors import InputError
from workbench.targets import Target

from ._base import LibrarySchedule, Parameters

if TYPE_CHECKING:
    from workbench.kernels.workload import Workload

__all__ = ["LibrarySchedule", "Parameters", "for_workload", "get", "names"]


@lru_cache
def _entries() -> dict[str, dict[str, LibrarySchedule]]:
    """Entries by kind of target and name. Loaded on first use: they import TVM."""
    from .cpu.attention import FlashAttention
    from .cpu.multi_matmul import MultiMatmul
    from .cpu.row_norm import RowNorm
    from .cpu.row_reduce import RowReduce

    entries: dict[str, tuple[LibrarySchedule, ...]] = {
        "llvm": (FlashAttention(), MultiMatmul(), RowNorm(), RowReduce())
    }
    return {kind: {entry.name: entry for entry in found} for kind, found in entries.items()}


def for_workload(workload: Workload, target: Target) -> list[LibrarySchedule]:
    """The entries for the target's kind that can compute the workload, most special first."""
    return [entry for entry in _entries().get(target.kind, {}).values() if entry.serves(workload)]


def get(name: str) -> LibrarySchedule:
    """The entry of a name; InputError when there is none."""
    for entries in _entries().values():
        if name in entries:
            return entries[name]
    raise InputError(f"no library schedule '{name}'; there are {', '.join(names())}")


def names() -> tuple[str, ...]:
    """All entries' names."""
    return tuple(name for entries in _entries().values() for name in entries)
