"""Records to and from MetaSchedule's JSON database: two files, of workloads and of tuning records.

What is written here plain TVM applies with its own pass, ``relax.transform.MetaScheduleApplyDatabase``. What is read
here is matched by structure: a database's own hashes and names count for nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import StoreError
from ..kernels.build import tvm_target
from ..kernels.tvm_errors import TVM_ERRORS, one_line
from ..store.record import MeasureSettings, Record, ScheduleSpec
from ..tvm_seam import tvm, tvm_ffi, tvm_version
from .storage import TuningStore, schedule_key, trials_of
from .strategies.metaschedule import unreadable
from .task import Task

logger = logging.getLogger(__name__)
ms = tvm.s_tir.meta_schedule
WORKLOADS, RECORDS = "database_workload.json", "database_tuning_record.json"
FAILED_S = 1e9  # MetaSchedule writes 1e10 seconds for a candidate that failed
IMPORTED = "imported"  # strategy of a record that somebody else's search has found


@dataclass(frozen=True)
class ExportedDatabase:
    """``left_out``: schedules that are no traces, which MetaSchedule cannot hold."""

    folder: Path
    workloads: int
    written: int
    left_out: int

    def describe(self) -> str:
        """One line for people."""
        text = f"{self.folder}: {self.written} records of {self.workloads} workloads written"
        return f"{text}, {self.left_out} left out (schedules of the library are no traces)" if self.left_out else text


@dataclass(frozen=True)
class ImportedDatabase:
    """What became of a database's records. ``unmatched``: of workloads that are none of the tasks."""

    added: int
    known: int
    unmatched: int
    other_target: int
    unreadable: int

    def describe(self) -> str:
        """One line for people."""
        parts = [f"{self.added} records added", f"{self.known} already there"]
        if self.unmatched:
            parts.append(f"{self.unmatched} of other workloads")
        if self.other_target:
            parts.append(f"{self.other_target} for another target")
        if self.unreadable:
            parts.append(f"{self.unreadable} whose trace does not fit")
        return ", ".join(parts)


def export_database(tasks: Sequence[Task], store: TuningStore, folder: Path) -> ExportedDatabase:
    """Writes the tasks' successful traces into a new database in ``folder``.

    Raises StoreError where there is a database already: nothing is overwritten, and nothing mixed.
    """
    existing = [name for name in (WORKLOADS, RECORDS) if (folder / name).exists()]
    if existing:
        raise StoreError(f"{folder / existing[0]} exists; give a folder without a database")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        database = ms.database.JSONDatabase(str(folder / WORKLOADS), str(folder / RECORDS), allow_missing=True)
    except (OSError, *TVM_ERRORS) as error:
        raise StoreError(f"{folder}: no database can be written there: {one_line(error)}") from error
    workloads, written, left_out = 0, 0, 0
    for task in tasks:
        good = [one for one in trials_of(store.records(*_key(task))) if one.status == "ok"]
        traces = [one for one in good if one.schedule.kind == "trace"]
        left_out += sum(one.schedule.kind == "library" for one in good)
        if traces:
            workload = database.commit_workload(task.workload.module)
            workloads += 1
        for record in traces:
            database.commit_tuning_record(_tuning_record(task, record, workload))
            written += 1
    return ExportedDatabase(folder, workloads, written, left_out)


def _tuning_record(task: Task, record: Record, workload: Any) -> Any:
    target = tvm_target(task.target)
    with target:
        schedule = tvm.s_tir.Schedule(task.workload.module)
        tvm.s_tir.schedule.Trace.apply_json_to_schedule(record.schedule.data, schedule)
    arguments = ms.arg_info.ArgInfo.from_entry_func(task.workload.module, remove_preproc=True)
    return ms.database.TuningRecord(schedule.trace, workload, list(record.seconds), target, arguments)


def import_database(folder: Path, tasks: Sequence[Task], store: TuningStore) -> ImportedDatabase:
    """Takes the records of the tasks' workloads into the store; a record that is there already is left.

    Every trace is read back and applied before it counts. Raises StoreError for what is no database.
    """
    for name in (WORKLOADS, RECORDS):
        if not (folder / name).is_file():
            raise StoreError(f"{folder} is no MetaSchedule database: there is no {name}")
    by_structure = {int(tvm_ffi.structural_hash(_bare(task.workload.module))): task for task in tasks}
    known = {task.workload.key: {schedule_key(one.schedule) for one in store.records(*_key(task))} for task in tasks}
    counts = dict.fromkeys(("added", "known", "unmatched", "other_target", "unreadable"), 0)
    workloads = [_structure(line) for line in _lines(folder / WORKLOADS)]
    for line in _lines(folder / RECORDS):
        counts[_take(line, workloads, by_structure, known, store)] += 1
    return ImportedDatabase(**counts)


def _lines(path: Path) -> list[Any]:
    """Line by line, since TVM's own reader gives nothing of a database of which a single line is broken.

    None stands for a line that is no JSON, such as the last one of a job that was killed. Raises StoreError.
    """
    try:
        return [_json(line) for line in path.read_text().splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path}: the database cannot be read: {error}") from error


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return None


def _structure(line: Any) -> int | None:
    try:
        return int(tvm_ffi.structural_hash(_bare(ms.database.Workload.from_json(line).mod)))
    except (*TVM_ERRORS, KeyError) as error:
        logger.warning("a workload is left out: %s", one_line(error))
        return None


def _take(
    line: Any,
    workloads: Sequence[int | None],
    by_structure: Mapping[int, Task],
    known: Mapping[str, set[str]],
    store: TuningStore,
) -> str:
    """What became of a line: the name of a count."""
    try:
        index, (trace, seconds, target, _) = line
        structure, times = workloads[index], [float(value) for value in seconds or ()]
        found = tvm.target.Target(target)
    except (*TVM_ERRORS, TypeError, ValueError, IndexError) as error:
        logger.warning("a record is left out: %s", one_line(error))
        return "unreadable"
    task = None if structure is None else by_structure.get(structure)
    if task is None:
        return "unmatched"
    if not _same_machine(found, tvm_target(task.target)):
        return "other_target"
    spec = ScheduleSpec("trace", "metaschedule", trace)
    key = schedule_key(spec)
    if key in known[task.workload.key]:
        return "known"
    reason = unreadable(task, spec, None)
    if reason is not None:
        logger.warning("%s: a record is left out: %s", task.workload.label, reason)
        return "unreadable"
    known[task.workload.key].add(key)
    store.add_record(_record(task, spec, times))
    return "added"


def _record(task: Task, spec: ScheduleSpec, seconds: Sequence[float]) -> Record:
    good = tuple(seconds) if seconds and all(0 < value < FAILED_S for value in seconds) else ()
    settings = MeasureSettings(repeat=max(1, len(seconds)), threads=task.target.threads)
    status, error = ("ok", "") if good else ("run_error", "failed where it was measured")
    return Record(*_key(task), spec, status, good, settings, error, strategy=IMPORTED)  # type: ignore[arg-type]


def _same_machine(one: Any, other: Any) -> bool:
    """Times and code of another processor, or of another number of cores, mean nothing here."""
    names = ("mcpu", "num-cores", "mattr")
    left, right = dict(one.attrs), dict(other.attrs)
    same = all(str(left.get(name, "")) == str(right.get(name, "")) for name in names)
    return str(one.kind.name) == str(other.kind.name) and same


def _bare(module: Any) -> Any:
    """The function without attributes that say how it is called or packed, and not what it computes."""
    function = module["main"]
    for name in ("layout_free_buffers", "tirx.noalias", "global_symbol", "op_pattern"):
        if function.attrs is not None and name in function.attrs:
            function = function.without_attr(name)
    return function


def _key(task: Task) -> tuple[str, str, str]:
    return task.workload.key, task.target.key, tvm_version()
