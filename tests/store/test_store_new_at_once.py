"""Two runs that make one new store at the same moment."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

from workbench.store._schema import open_engine


def test_a_new_database_that_another_run_is_making_is_waited_for(tmp_path: Path) -> None:
    database = tmp_path / "records.sqlite"
    other = sqlite3.connect(database, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    other.execute("CREATE TABLE t (x)")
    release = threading.Timer(0.5, lambda: other.execute("COMMIT"))
    release.start()
    engine = open_engine(database)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    release.join()
    engine.dispose()
    other.close()
