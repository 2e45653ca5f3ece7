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
    def compare(self, task: Task, builds: Sequence[BuildResult], rounds: int) -> list[RunResult]:
        """Checks every build on more inputs than :meth:`run` does, then times them interleaved, in random order.

        One result a build, in order, with at most ``rounds`` seconds each: the n-th of every build come from one
        round. One that is hopelessly slower than the fastest has a single one.
        """

    @abstractmethod
    def close(self) -> None:
        """Ends the worker and frees its buffers."""
