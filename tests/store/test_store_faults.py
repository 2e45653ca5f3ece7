"""Read-only, full, damaged, newer, killed, shared: one clear line, and nothing that was committed is lost."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from store_samples import kernel, key, record

from workbench.errors import StoreError
from workbench.store import Store

HERE = Path(__file__).parent


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    """A Python process that can import this folder's samples."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONPATH": f"{HERE}{os.pathsep}{HERE.parent.parent}"},
    )


WRITER = """
    import sys
    from store_samples import record
    from workbench.store import Store
    store, first, number = Store(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    for trial in range(first, first + number):
        store.add_record(record(1e-3, trial))
        print(trial, flush=True)
"""


def test_a_killed_writer_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    with start(WRITER, tmp_path, 0, 100_000) as writer:
        assert writer.stdout is not None
        committed = [int(writer.stdout.readline()) for _ in range(40)]
        os.kill(writer.pid, signal.SIGKILL)
        committed += [int(line) for line in writer.stdout.read().split()]
        assert writer.wait() == -signal.SIGKILL
    with Store(tmp_path) as store:
        found = {one.trial for one in store.records(*key(record()))}
        assert set(committed) <= found
        assert len(found) <= len(committed) + 1
        assert store.add_record(record(1e-3, 1_000_000))


def test_two_runs_on_one_new_store_at_once(tmp_path: Path) -> None:
    writers = [start(WRITER, tmp_path, first, 60) for first in (0, 60)]
    for writer in writers:
        output, _ = writer.communicate(timeout=60)
        assert writer.returncode == 0, output
    with Store(tmp_path) as store:
        assert sorted(one.trial for one in store.records(*key(record()))) == list(range(120))


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(StoreError, match=r"store .*file/store cannot be used .*--store") as caught:
        Store(blocker / "store")
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_a_file_system_that_forbids_new_folders() -> None:
    with pytest.raises(StoreError, match=r"store /proc/workbench cannot be .*--store"):
        Store("/proc/workbench")


def test_a_database_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "store.sqlite").mkdir()
    with pytest.raises(StoreError, match=r"unable to open database file\): give a writable folder with --store"):
        Store(tmp_path)


def test_a_read_only_database(tmp_path: Path) -> None:
    """``query_only`` makes SQLite refuse writes as a read-only file does; permissions mean nothing to root."""
    with Store(tmp_path) as store:
        store.add_record(record(1e-3, 0))
        with store._engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA query_only=ON")
        with pytest.raises(StoreError, match=r"cannot be written \(attempt to write a readonly database\): give a"):
            store.add_record(record(1e-3, 1))
        assert store.count() == 1


def test_a_full_disk_keeps_what_was_committed(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.add_record(record(1e-3, 0))
        with store._engine.connect() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
            connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
        with pytest.raises(StoreError, match=r"disk is full\): the disk is full.*what was committed is kept"):
            store.add_records([record(1e-3, trial, machine="m" * 1000) for trial in range(1, 200)])
        assert [one.trial for one in store.records(*key(record()))] == [0]
    with Store(tmp_path) as store:
        assert store.add_record(record(1e-3, 1))


FULL_FOR_KERNELS = """
    import resource, sys
    from store_samples import kernel
    from workbench.errors import StoreError
    from workbench.store import Store
    store = Store(sys.argv[1])
    store.put(kernel(b"small"))
    limit = 300_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        store.put(kernel(b"x" * 1_000_000, workload="large"))
    except StoreError as error:
        print(error)
"""


def test_a_full_disk_leaves_no_half_written_kernel(tmp_path: Path) -> None:
    output, _ = start(FULL_FOR_KERNELS, tmp_path).communicate(timeout=60)
    assert "the disk is full; what was committed is kept" in output
    with Store(tmp_path) as store:
        assert store.summary().kernels == 1
        one = kernel(b"small")
        assert store.get(one.workload, one.target, one.tvm, one.schedule) == one
        assert len(list((tmp_path / "kernels").iterdir())) == 1


def test_a_newer_store_is_refused_and_left_alone(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.add_record(record())
    with sqlite3.connect(tmp_path / "store.sqlite") as connection:
        connection.execute("UPDATE meta SET value='4' WHERE key='schema'")
    connection.close()
    with pytest.raises(StoreError, match=r"written by a newer workbench \(schema 4, this one reads 3\).*nothing was"):
        Store(tmp_path)
    with sqlite3.connect(tmp_path / "store.sqlite") as connection:
        assert connection.execute("SELECT count(*) FROM records").fetchone() == (1,)
    connection.close()


def test_a_damaged_database(tmp_path: Path) -> None:
    (tmp_path / "store.sqlite").write_bytes(b"this is no database, " * 500)
    with pytest.raises(StoreError, match=r"damaged database \(file is not a database\): move .*store\.sqlite away"):
        Store(tmp_path)
    assert (tmp_path / "store.sqlite").exists()


def test_a_damaged_page_is_told_when_it_is_read(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.add_records([record(1e-3, trial, machine="m" * 1000) for trial in range(100)])
    path = tmp_path / "store.sqlite"
    data = bytearray(path.read_bytes())
    data[4096 * 10 : 4096 * 60] = b"\xff" * (4096 * 50)
    path.write_bytes(bytes(data))
    with pytest.raises(StoreError, match="damaged database"), Store(tmp_path) as store:
        store.records(*key(record()))


def test_a_database_of_something_else(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "store.sqlite") as connection:
        connection.execute("CREATE TABLE songs (title)")
    connection.close()
    with pytest.raises(StoreError, match="no workbench store"):
        Store(tmp_path)


def test_odd_characters_in_the_path(tmp_path: Path) -> None:
    with Store(tmp_path / "a b?c#d%20é") as store:
        store.add_record(record())
    assert (tmp_path / "a b?c#d%20é" / "store.sqlite").exists()


def test_records_do_not_need_sqlalchemy() -> None:
    program = "import sys, workbench.store.record; print('sqlalchemy' in sys.modules)"
    output, _ = start(program).communicate(timeout=60)
    assert output.strip() == "False"
