"""A device whose latency is a known function of the schedule: search, resume and reports in milliseconds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...store.record import MeasureSettings, ScheduleSpec
from ..builders._base import BuildResult
from ..task import Task
from ._base import Runner, RunResult

Latency = Callable[[ScheduleSpec], float]


def latency_by_hash(schedule: ScheduleSpec) -> float:
    """Between 1 and 2 ms, a fixed function of the schedule's JSON; the default schedule takes 3 ms."""
    if schedule.kind == "default":
        return 3e-3
    digest = hashlib.sha256(json.dumps(schedule.to_json(), sort_keys=True).encode()).digest()
    return 1e-3 * (1 + int.from_bytes(digest[:4], "big") / 2**32)


class FakeRunner(Runner):
    """``latency`` gives a schedule's seconds; ``fault`` a whole result instead, for those schedules that fail."""

    def __init__(
        self,
        latency: Latency = latency_by_hash,
        fault: Callable[[ScheduleSpec], RunResult | None] | None = None,
        settings: MeasureSettings | None = None,
    ) -> None:
        self.settings = settings or MeasureSettings()
        self._latency, self._fault = latency, fault
        self.measured: list[ScheduleSpec] = []
        self.closed = False

    def run(self, task: Task, builds: Sequence[BuildResult]) -> list[RunResult]:
        """See :class:`Runner`."""
        return [self._run(build) for build in builds]

    def compare(self, task: Task, builds: Sequence[BuildResult], rounds: int) -> list[RunResult]:
        """See :class:`Runner`."""
        results = self.run(task, builds)
        return [replace(one, seconds=one.seconds[:1] * rounds) if one.status == "ok" else one for one in results]

    def close(self) -> None:
        """See :class:`Runner`."""
        self.closed = True

    def _run(self, build: BuildResult) -> RunResult:
        if build.kernel is None:
            return RunResult(build.status, (), build.error)
        schedule = build.kernel.schedule
        self.measured.append(schedule)
        fault = self._fault(schedule) if self._fault is not None else None
        if fault is not None:
            return fault
        seconds = self._latency(schedule)
        return RunResult("ok", (seconds,) * self.settings.repeat, "", 0.0)
