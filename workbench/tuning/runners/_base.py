"""Runners check and time built candidates on a device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from ...store.record import MeasureSettings, Status
from ..builders._base import BuildResult
from ..task import Task


@dataclass(frozen=True)
class RunResult:
    """``seconds``: one mean per repeat. A candidate whose output is wrong has status "wrong_output" and no times."""

    status: Status
    seconds: tuple[float, ...]
    error: str
    max_error: float | None = None


class Runner(ABC):
    """Owns one device; measures one candidate at a time."""

    settings: MeasureSettings

    @abstractmethod
    def run(self, task: Task, builds: Sequence[BuildResult]) -> list[RunResult]:
        """One result a build, in order. Failed builds give their own status back."""

    @abstractmethod
    def close(self) -> None:
        """Ends the worker and frees its buffers."""
