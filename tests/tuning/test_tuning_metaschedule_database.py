"""Records out to plain TVM and in from it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tuning_tasks import TARGET, matmul_task, plain_task

from workbench.errors import StoreError
from workbench.kernels.build import tvm_target
from workbench.kernels.schedule import schedule_workload
from workbench.tuning import Budget, MemoryStore, Task, tune_tasks
from workbench.tuning.builders import FakeBuilder
from workbench.tuning.metaschedule_database import RECORDS, WORKLOADS, export_database, import_database
from workbench.tuning.runners import FakeRunner
from workbench.tuning.storage import best_of, schedule_key, trials_of
from workbench.tuning.strategies import MetaScheduleStrategy
from workbench.tvm_seam import relax, tvm, tvm_ffi

TASK = matmul_task(64)


def tuned(trials: int = 12) -> MemoryStore:
    store = MemoryStore()
    tune_tasks(
        [TASK],
        Budget(trials_per_task=trials),
        store=store,
        builder=FakeBuilder(),
        runner=FakeRunner(),
        chooser=lambda task: MetaScheduleStrategy,
    )
    return store


def traces(store: MemoryStore) -> set[str]:
    return {schedule_key(one.schedule) for one in trials_of(store.all) if one.schedule.kind == "trace"}


def test_there_and_back(tmp_path: Path) -> None:
    store = tuned()
    written = export_database([TASK], store, tmp_path)
    assert (written.workloads, written.written, written.left_out) == (1, 11, 0)
    assert "11 records of 1 workloads written" in written.describe()
    other = MemoryStore()
    first = import_database(tmp_path, [TASK], other)
    assert (first.added, first.known, first.unmatched, first.other_target, first.unreadable) == (11, 0, 0, 0, 0)
    again = import_database(tmp_path, [TASK], other)
    assert (again.added, again.known) == (0, 11)
    found = {one.median_s for one in other.all}
    assert found == {one.median_s for one in trials_of(store.all) if one.schedule.kind == "trace"}
    best = best_of(other.all)
    assert best is not None
    assert schedule_workload(TASK.workload, TARGET, best.schedule) is not None


def test_plain_tvm_applies_what_was_exported(tmp_path: Path) -> None:
    """Its own pass, on a module as its own pipeline makes it."""
    store = tuned()
    export_database([TASK], store, tmp_path)
    best = min((one for one in trials_of(store.all) if one.schedule.kind == "trace"), key=lambda one: one.median_s)
    module = tvm.IRModule({"main": TASK.workload.module["main"]})
    with tvm_target(TARGET), tvm.transform.PassContext(opt_level=3):
        applied = relax.transform.MetaScheduleApplyDatabase(str(tmp_path))(module)
    expected = schedule_workload(TASK.workload, TARGET, best.schedule)["main"]
    assert tvm_ffi.structural_equal(_plain(applied["main"]), _plain(expected))
    assert not tvm_ffi.structural_equal(_plain(applied["main"]), _plain(module["main"]))


def _plain(function: tvm.tirx.PrimFunc) -> tvm.tirx.PrimFunc:
    for name in list(function.attrs.keys() if function.attrs is not None else ()):
        function = function.without_attr(str(name))
    return function


# T23: merged databases must not give another machine's record.
def test_records_of_other_workloads_and_machines_are_counted_and_left(tmp_path: Path) -> None:
    export_database([TASK], tuned(6), tmp_path)
    assert import_database(tmp_path, [matmul_task(32)], MemoryStore()).unmatched == 5
    import dataclasses

    elsewhere = Task(TASK.workload, dataclasses.replace(TARGET, mcpu="znver4"))
    fewer = Task(TASK.workload, dataclasses.replace(TARGET, cores=1, threads=1))
    for task in (elsewhere, fewer):
        store = MemoryStore()
        report = import_database(tmp_path, [task], store)
        assert (report.added, report.other_target, store.all) == (0, 5, [])
        assert "5 for another target" in report.describe()


def test_a_trace_that_does_not_fit_is_left_out_and_the_others_come_in(tmp_path: Path) -> None:
    export_database([TASK], tuned(6), tmp_path)
    path = tmp_path / RECORDS
    lines = path.read_text().splitlines()
    broken = lines[2].replace('"T_matmul"', '"no_such_block"')
    assert broken != lines[2]
    lines[2] = broken
    path.write_text("\n".join([*lines, lines[0][:40]]))  # and a last line that a kill has cut off
    report = import_database(tmp_path, [TASK], MemoryStore())
    assert (report.added, report.unreadable) == (4, 2)
    assert "2 whose trace does not fit" in report.describe()


def test_what_failed_there_is_a_failed_trial_here(tmp_path: Path) -> None:
    export_database([TASK], tuned(4), tmp_path)
    path = tmp_path / RECORDS
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0][1][1] = [1e10]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    store = MemoryStore()
    assert import_database(tmp_path, [TASK], store).added == 3
    assert sorted(one.status for one in store.all) == ["ok", "ok", "run_error"]
    assert np.isfinite([one.median_s for one in store.all if one.status == "ok"]).all()


def test_nothing_is_overwritten_and_no_database_is_an_error(tmp_path: Path) -> None:
    store = tuned(4)
    export_database([TASK], store, tmp_path)
    with pytest.raises(StoreError, match="exists; give a folder without a database"):
        export_database([TASK], store, tmp_path)
    with pytest.raises(StoreError, match=f"is no MetaSchedule database: there is no {WORKLOADS}"):
        import_database(tmp_path / "nowhere", [TASK], store)
    (tmp_path / RECORDS).write_bytes(b"\xff\xfe not text")
    with pytest.raises(StoreError, match="the database cannot be read"):
        import_database(tmp_path, [TASK], store)
    assert export_database([plain_task()], store, tmp_path / "empty").written == 0
