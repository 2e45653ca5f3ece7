"""The local builder: its contract, crashed, hung and killed workers, and a full disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tuning_tasks import matmul_task, plain_task

from workbench.errors import SetupError, StoreError
from workbench.store.record import ScheduleSpec
from workbench.tuning import Candidate
from workbench.tuning.builders import FakeBuilder, LocalBuilder, local
from workbench.tuning.strategies.metaschedule import MetaScheduleStrategy
from workbench.tuning.testing import BuilderContract

DEFAULT = Candidate(ScheduleSpec("default", "default", {}), None)


def never_ending() -> Candidate:
    """A candidate that the compiler does not finish for minutes: a loop unrolled without end."""
    from workbench.tvm_seam import tvm

    schedule = tvm.s_tir.Schedule(matmul_task(64).workload.module)
    block = schedule.get_sblock("T_matmul")
    for loop in schedule.get_loops(block):
        schedule.unroll(loop)
    return Candidate(ScheduleSpec("library", "never-ending", {}), schedule.mod)


@pytest.fixture(scope="module")
def builder() -> Iterator[LocalBuilder]:
    made = LocalBuilder(jobs=2, timeout_s=60)
    yield made
    made.close()


class TestFakeBuilder(BuilderContract):
    task = plain_task()
    candidates = tuple(Candidate(ScheduleSpec("library", "grid", {"x": x}), None) for x in range(3))

    def make(self) -> FakeBuilder:
        return FakeBuilder()


class TestLocalBuilder(BuilderContract):
    task = matmul_task()
    candidates = (DEFAULT, *MetaScheduleStrategy(matmul_task(), 0, [], population=32).ask(3))

    def make(self) -> LocalBuilder:
        return LocalBuilder(jobs=2, timeout_s=60)


def test_a_schedule_that_cannot_be_applied_is_a_build_error(builder: LocalBuilder) -> None:
    bad = Candidate(
        ScheduleSpec("trace", "metaschedule", [[["GetSBlock", [], ["no such block", "main"], ["b0"]]], []]), None
    )
    results = builder.build(matmul_task(), [bad, DEFAULT])
    assert [result.status for result in results] == ["build_error", "ok"]
    assert results[0].kernel is None
    assert results[0].library is None
    assert "\n" not in results[0].error


def test_a_worker_killed_in_mid_build_costs_its_candidate_alone(builder: LocalBuilder) -> None:
    builder.build(matmul_task(), [DEFAULT, DEFAULT])  # both are warm
    before = set(builder.pids)

    def kill() -> None:
        time.sleep(1.0)
        os.kill(builder.pids[0], signal.SIGKILL)

    candidates = [never_ending(), DEFAULT, DEFAULT]
    killer = threading.Thread(target=kill)
    killer.start()
    results = builder.build(matmul_task(), candidates)
    killer.join()
    assert [result.status for result in results] == ["crash", "ok", "ok"]
    assert "SIGKILL" in results[0].error
    again = builder.build(matmul_task(), [DEFAULT, DEFAULT])
    assert [result.status for result in again] == ["ok", "ok"]
    assert len(set(builder.pids) - before) == 1


def test_a_worker_killed_while_idle_costs_nothing(builder: LocalBuilder) -> None:
    builder.build(matmul_task(), [DEFAULT, DEFAULT])
    os.kill(builder.pids[0], signal.SIGKILL)
    time.sleep(0.1)
    results = builder.build(matmul_task(), [DEFAULT, DEFAULT, DEFAULT])
    assert [result.status for result in results] == ["ok"] * 3


def test_a_worker_killed_while_it_starts_gets_a_successor() -> None:
    made = LocalBuilder(jobs=1)
    try:
        os.kill(made.pids[0], signal.SIGKILL)
        assert [result.status for result in made.build(matmul_task(), [DEFAULT])] == ["ok"]
    finally:
        made.close()


def test_a_worker_that_cannot_start_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "tvm.py").write_text("raise ImportError('a broken installation')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    made = LocalBuilder(jobs=1)
    try:
        with pytest.raises(SetupError, match=r"ended while it started: exit code 1: .*a broken installation"):
            made.build(matmul_task(), [DEFAULT])
    finally:
        made.close()


def test_a_build_that_hangs_is_ended(builder: LocalBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    builder.build(matmul_task(), [DEFAULT, DEFAULT])
    monkeypatch.setattr(builder, "timeout_s", 1.5)
    begin = time.monotonic()
    results = builder.build(matmul_task(), [never_ending(), DEFAULT])
    assert [result.status for result in results] == ["timeout", "ok"]
    assert "1.5 s" in results[0].error
    assert 1.4 < results[0].seconds < 30
    assert time.monotonic() - begin < 60


def test_a_missing_linker_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    made = LocalBuilder(jobs=1)
    try:
        result = made.build(matmul_task(), [DEFAULT])[0]
    finally:
        made.close()
    assert result.status == "build_error"
    assert "no linker: CC=no-such-compiler is not installed" in result.error


def test_a_full_disk_is_said_before_anything_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "_free", lambda folder: 1000)
    with pytest.raises(StoreError, match=r"No space left on device.*64 MiB"):
        LocalBuilder(jobs=1)


def test_workers_die_with_their_parent(tmp_path: Path) -> None:
    script = (
        "import os, signal\n"
        "from workbench.tuning.builders import LocalBuilder\n"
        "builder = LocalBuilder(jobs=2)\n"
        "[worker.wait_ready() for worker in builder._workers]\n"
        "print(*builder.pids, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    pids = [int(text) for text in done.stdout.split()]
    assert len(pids) == 2
    for _ in range(100):
        if not any(map(alive, pids)):
            return
        time.sleep(0.1)
    raise AssertionError(f"workers {pids} outlive their parent")


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead but not yet waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_what_killed_processes_left_is_removed(tmp_path: Path) -> None:
    gone, young, alive_ = (
        tmp_path / "workbench-999999999-a",
        tmp_path / "workbench-999999998-b",
        tmp_path / (f"workbench-{os.getpid()}-c"),
    )
    for folder in (gone, young, alive_):
        folder.mkdir()
    for folder in (gone, alive_):
        os.utime(folder, (0, 0))
    local._remove_stale(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted((young.name, alive_.name))


def test_a_linker_ends_with_its_worker_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    linker, started, places = tmp_path / "linker", tmp_path / "started", tmp_path / "temporary"
    linker.write_text(f"#!/bin/sh\necho $$ > {started}\nexec sleep 300\n")
    linker.chmod(0o755)
    places.mkdir()
    monkeypatch.setenv("CC", str(linker))
    monkeypatch.setenv("TMPDIR", str(places))
    stuck = LocalBuilder(jobs=1, timeout_s=2.0)
    folder = stuck._folder
    [result] = stuck.build(matmul_task(), [DEFAULT])
    assert result.status == "timeout"
    stuck.close()
    stat = Path("/proc", started.read_text().strip(), "stat")
    deadline = time.monotonic() + 10
    while stat.exists() and stat.read_text().split()[2] != "Z" and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not stat.exists() or stat.read_text().split()[2] == "Z"
    assert not folder.exists()
    assert not list(places.iterdir())
