"""What the store keeps: plain data, free of TVM and of planning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Status = Literal["ok", "invalid", "build_error", "timeout", "crash", "wrong_output", "run_error", "no_time"]
Stage = Literal["search", "final", "winner"]


@dataclass(frozen=True)
class ScheduleSpec:
    """How a workload becomes a scheduled kernel; plain JSON, so that it can be stored and replayed.

    ``kind`` "trace": ``data`` is a MetaSchedule trace as JSON. "library": ``name`` is an entry of ``schedules/`` and
    ``data`` its parameters. "default": the schedule every group can fall back to; ``data`` is empty.
    """

    kind: Literal["trace", "library", "default"]
    name: str  # strategy or library entry
    data: Any

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "data": self.data}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> ScheduleSpec:
        return ScheduleSpec(document["kind"], document["name"], document["data"])


@dataclass(frozen=True)
class MeasureSettings:
    """How a trial was timed; ``seconds`` of a record are ``repeat`` means, each over at least ``min_repeat_ms``."""

    number: int = 1
    repeat: int = 3
    min_repeat_ms: int = 20
    threads: int = 1
    cold_cache: bool = False


@dataclass(frozen=True)
class Record:
    """A trial as stored. ``workload``, ``target`` and ``tvm`` together say what it may be reused for.

    ``stage`` "search": timed once, when the search asked for it. "final": checked on more inputs and timed again,
    interleaved with others; ``seconds`` is one value a round then. "winner": the final that was chosen, which stands
    until a later trial is faster or other finals choose again.
    """

    workload: str  # workload key: sha256, hexadecimal
    target: str  # Target.key
    tvm: str  # TVM version
    schedule: ScheduleSpec
    status: Status
    seconds: tuple[float, ...]  # empty unless status is "ok"
    settings: MeasureSettings
    error: str = ""  # one line; "" when status is "ok"
    strategy: str = ""
    seed: int = 0
    trial: int = 0  # position in its search
    elapsed_s: float = 0.0  # since the search began
    created: str = ""  # ISO 8601, UTC
    machine: str = ""
    stage: Stage = "search"
    space: str = ""  # fingerprint of the space that the strategy searched; "" where there is none

    @property
    def median_s(self) -> float:
        """Median of ``seconds``; infinity for a failed trial."""
        if not self.seconds:
            return float("inf")
        ordered = sorted(self.seconds)
        middle = len(ordered) // 2
        return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
