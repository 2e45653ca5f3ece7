"""What workloads compute: kept once, carried by exports, and there for a store that older versions began."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from store_samples import key, record

from workbench.errors import StoreError
from workbench.store import ScheduleSpec, Store

GROUP = {"schema": 1, "values": [], "nodes": [], "inputs": [], "outputs": []}


@pytest.fixture
def store(tmp_path: Path):
    with Store(tmp_path / "from") as made:
        yield made


def test_a_group_is_kept_once(store: Store) -> None:
    assert store.add_groups({"w" * 64: GROUP, "v": GROUP}) == 2
    assert store.add_groups({"v": {"other": 1}}) == 0
    assert store.add_groups({}) == 0
    assert store.groups() == {"v": GROUP, "w" * 64: GROUP}
    assert store.groups(["v", "absent"]) == {"v": GROUP}


def test_what_is_no_json_is_refused(store: Store) -> None:
    with pytest.raises(StoreError, match="a group cannot be stored"):
        store.add_groups({"w": {"number": float("nan")}})
    with pytest.raises(StoreError, match="a group cannot be stored"):
        store.add_groups({"w": {"object": object()}})


def test_the_best_record_of_each_workload_whose_group_is_known(store: Store) -> None:
    fast = record(1e-3, 1)
    store.add_records([record(2e-3, 0), fast, record(None, 2)])
    store.add_records([record(workload="no group"), record(1e-6, 3, target="another"), record(None, 4, workload="v")])
    assert store.best_records(*key(fast)[1:]) == []
    store.add_groups({fast.workload: GROUP, "v": GROUP})
    assert store.best_records(*key(fast)[1:]) == [fast]
    assert store.measured_groups(*key(fast)[1:]) == 1
    assert store.measured_groups("nowhere", fast.tvm) == 0


def test_an_export_carries_the_groups_of_its_records(store: Store, tmp_path: Path) -> None:
    store.add_records([record(), record(workload="v", target="another")])
    store.add_groups({record().workload: GROUP, "v": GROUP, "never measured": GROUP})
    path = tmp_path / "log.jsonl"
    assert store.export_records(path, target=record().target) == 1
    header, _, group = [json.loads(line) for line in path.read_text().splitlines()]
    assert header == {"format": "workbench-records", "schema": 1, "records": 1, "groups": 1}
    assert group == {"workload": record().workload, "group": GROUP}
    store.export_records(path)
    with Store(tmp_path / "to") as other:
        report = other.import_records(path)
        assert (report.added, report.groups, report.rejected) == (2, 2, ())
        assert other.groups().keys() == {record().workload, "v"}
        assert other.import_records(path).groups == 0


@pytest.mark.parametrize("line", ['{"group":{},"workload":""}', '{"group":[1],"workload":"w"}', '{"group":{}}'])
def test_a_broken_group_line_is_rejected_and_the_rest_loads(store: Store, tmp_path: Path, line: str) -> None:
    store.add_record(record())
    path = tmp_path / "log.jsonl"
    store.export_records(path)
    path.write_text(path.read_text() + line + "\n")
    with Store(tmp_path / "to") as other:
        report = other.import_records(path)
        assert report.added == 1
        assert "workload" in report.rejected[0].reason
        assert other.groups() == {}


def test_clearing_records_clears_groups(store: Store) -> None:
    store.add_groups({"w": GROUP})
    store.clear(records=False)
    assert store.groups() == {"w": GROUP}
    store.clear()
    assert store.groups() == {}


def test_a_trained_model_is_kept_by_name(store: Store) -> None:
    assert store.model("cost.json") is None
    store.write_model("cost.json", b"{}")
    assert store.model("cost.json") == b"{}"


def test_a_store_of_schema_2_is_brought_up(tmp_path: Path) -> None:
    """It knew neither stages nor digests of schedules: a finalist that fails must still find its trial."""
    other = replace(record(2e-3, 1), schedule=ScheduleSpec("library", "attention", {"rows": 4}))
    with Store(tmp_path) as store:
        store.add_records([record(), other])
    with sqlite3.connect(tmp_path / "store.sqlite") as connection:
        connection.execute("ALTER TABLE records DROP COLUMN stage")
        connection.execute("ALTER TABLE records DROP COLUMN schedule")
        connection.execute("UPDATE meta SET value='2' WHERE key='schema'")
    connection.close()
    with Store(tmp_path) as store:
        assert store.best(*key(record())) == record()
        store.add_record(replace(record(None, 2), stage="final"))
        assert store.best(*key(record())) == other
        assert store.records(*key(record()))[:2] == [record(), other]


def test_a_store_of_schema_1_is_brought_up(tmp_path: Path) -> None:
    """As schema 1 was made: all tables of today but ``groups``."""
    with Store(tmp_path) as store:
        store.add_record(record())
    with sqlite3.connect(tmp_path / "store.sqlite") as connection:
        connection.execute("DROP TABLE groups")
        connection.execute("UPDATE meta SET value='1' WHERE key='schema'")
    connection.close()
    with Store(tmp_path) as store:
        assert store.records(*key(record())) == [record()]
        assert store.add_groups({record().workload: GROUP}) == 1
        assert len(store.best_records(*key(record())[1:])) == 1
    with sqlite3.connect(tmp_path / "store.sqlite") as connection:
        assert connection.execute("SELECT value FROM meta WHERE key='schema'").fetchone() == ("3",)
    connection.close()
