"""Builders turn scheduled modules into object files and shared libraries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...kernels.kernel import Kernel
from ...store.record import Status
from ..task import Candidate, Task


@dataclass(frozen=True)
class BuildResult:
    """``kernel`` and the shared ``library`` made of it (its own folder), or the reason why there is none."""

    kernel: Kernel | None
    library: Path | None
    status: Status
    error: str
    seconds: float


class Builder(ABC):
    """Builds candidates in parallel; a crash or a time-out costs the candidate, never the builder."""

    @abstractmethod
    def build(self, task: Task, candidates: Sequence[Candidate]) -> list[BuildResult]:
        """One result a candidate, in order."""

    def discard(self, result: BuildResult) -> None:  # noqa: B027  a builder may have nothing to remove
        """Removes the library of a candidate that has been measured."""

    @abstractmethod
    def close(self) -> None:
        """Ends the workers and removes every artefact."""
