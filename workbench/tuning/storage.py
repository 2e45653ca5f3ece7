"""What the search needs of a store, and the marks it leaves there. ``workbench.store.Store`` is one such."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..kernels.kernel import Kernel
from ..store.record import MeasureSettings, Record, ScheduleSpec
from ..store.serialise import canonical

END = "end"  # name of the schedule of a mark: no trial, but the news that a search is over


class TuningStore(Protocol):
    """Records by workload, target and TVM version, and the winners' kernels."""

    def records(self, workload: str, target: str, tvm: str) -> Sequence[Record]:
        """All records of a workload, oldest first."""

    def add_record(self, record: Record) -> object:
        """Keeps a record, at once."""

    def add_records(self, new: Sequence[Record]) -> object:
        """Keeps all of them, at once, or none."""

    def add_groups(self, new: Mapping[str, Mapping[str, Any]]) -> object:
        """Keeps what workloads compute: workload key -> the group's graph as JSON."""

    def put(self, kernel: Kernel) -> object:
        """Keeps a compiled kernel."""


class MemoryStore:
    """Keeps everything for the life of the object; for notebooks, benchmarks and tests."""

    def __init__(self) -> None:
        self.all: list[Record] = []
        self.kernels: dict[str, Kernel] = {}
        self.groups: dict[str, Mapping[str, Any]] = {}

    def records(self, workload: str, target: str, tvm: str) -> list[Record]:
        """See :class:`TuningStore`."""
        wanted = (workload, target, tvm)
        return [record for record in self.all if (record.workload, record.target, record.tvm) == wanted]

    def add_record(self, record: Record) -> None:
        """See :class:`TuningStore`."""
        self.all.append(record)

    def add_records(self, new: Sequence[Record]) -> None:
        """See :class:`TuningStore`."""
        self.all += new

    def add_groups(self, new: Mapping[str, Mapping[str, Any]]) -> None:
        """See :class:`TuningStore`."""
        self.groups |= new

    def put(self, kernel: Kernel) -> None:
        """See :class:`TuningStore`."""
        self.kernels[kernel.symbol] = kernel


def end_mark(
    workload: str,
    target: str,
    tvm: str,
    strategy: str,
    reason: str,
    allotted_s: float | None,
    settings: MeasureSettings,
    worth: float | None = None,
) -> Record:
    """The news that a search ended for ``reason``.

    "exhausted" (of its space), "time" (``allotted_s`` seconds), or "worth": a minute was worth less than ``worth`` %.
    """
    data = {"reason": reason, "allotted_s": allotted_s}
    schedule = ScheduleSpec("default", END, data if worth is None else {**data, "worth": worth})
    return Record(workload, target, tvm, schedule, "invalid", (), settings, f"search ended: {reason}", strategy)


def is_mark(record: Record) -> bool:
    """Whether a record is such news rather than a trial."""
    return record.schedule.kind == "default" and record.schedule.name == END


def trials_of(records: Sequence[Record]) -> list[Record]:
    """The records that are trials of a search: neither marks nor finals."""
    return [record for record in records if not is_mark(record) and record.stage == "search"]


def standing(records: Sequence[Record]) -> list[Record]:
    """What may be the best, of records in the order of their measurement: the last winner and the successful trials
    since, or all of these where there was no winner; without the schedules that failed as finalists.

    The store's own query (``workbench.store``) gives the same.
    """
    won = [index for index, record in enumerate(records) if record.stage == "winner"]
    refuted = {schedule_key(record.schedule) for record in records if record.stage != "search" and not record.seconds}
    good = [record for record in records[won[-1] if won else 0 :] if record.seconds and record.stage != "final"]
    return [record for record in good if not refuted or schedule_key(record.schedule) not in refuted]


def best_of(records: Sequence[Record]) -> Record | None:
    """The fastest that stands, or None."""
    return min(standing(records), key=lambda record: record.median_s, default=None)


def default_seconds(records: Sequence[Record]) -> float | None:
    """Median seconds of the default schedule: of its last finals, else of its fastest trial; None without any."""
    found = [record for record in records if record.schedule.kind == "default" and record.seconds]
    finals = [record for record in found if record.stage != "search"]
    return finals[-1].median_s if finals else min((record.median_s for record in found), default=None)


def schedule_key(schedule: ScheduleSpec) -> str:
    """Equal for equal schedules."""
    return canonical(schedule.to_json())
