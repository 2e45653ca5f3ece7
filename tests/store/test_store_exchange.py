"""Records as files: written, read, damaged, repeated, foreign and of a newer version."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from store_samples import key, record

from workbench.errors import StoreError
from workbench.store import Record, Store


@pytest.fixture
def store(tmp_path: Path):
    with Store(tmp_path / "from") as made:
        yield made


@pytest.fixture
def other(tmp_path: Path):
    with Store(tmp_path / "to") as made:
        yield made


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz"])
def test_a_round_trip_loses_nothing(store: Store, other: Store, tmp_path: Path, name: str) -> None:
    given = [record(1e-3, 0), record(2e-3, 1), record(None, 2), record(workload="v")]
    store.add_records(given)
    path = tmp_path / name
    assert store.export_records(path) == 4
    report = other.import_records(path)
    assert (report.added, report.duplicates, report.rejected) == (4, 0, ())
    assert report.rejected_path is None
    assert report.describe() == "4 records added, 0 already there"
    assert report.to_json()["added"] == 4
    assert other.records(*key(record())) == store.records(*key(record()))
    again = other.import_records(path)
    assert (again.added, again.duplicates) == (0, 4)
    assert other.count() == 4


def test_equal_records_make_equal_files(store: Store, tmp_path: Path) -> None:
    store.add_records([record(1e-3, 0), record(2e-3, 1)])
    paths = [tmp_path / "a.gz", tmp_path / "b.gz"]
    for path in paths:
        store.export_records(path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_only_the_best_of_each_workload(store: Store, tmp_path: Path) -> None:
    store.add_records([record(3e-3, 0), record(1e-3, 1), record(None, 2), record(5e-3, 3, workload="v")])
    path = tmp_path / "best.jsonl"
    assert store.export_records(path, per_workload=1) == 2
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines[0] == {"format": "workbench-records", "records": 2, "schema": 1}
    assert sorted(line["trial"] for line in lines[1:]) == [1, 3]
    assert store.export_records(path, workloads=["v"]) == 1
    assert store.export_records(path, target="none") == 0


def test_bad_lines_are_set_aside_with_their_reasons_while_the_others_load(
    store: Store, other: Store, tmp_path: Path
) -> None:
    store.add_records([record(1e-3 * (i + 1), i) for i in range(4)])
    path = tmp_path / "log.jsonl"
    store.export_records(path)
    lines = path.read_text().splitlines()
    lines[2] = lines[2][: len(lines[2]) // 2]  # a write that was cut off
    unreadable = json.loads(lines[3])
    unreadable["schedule"]["data"] = None  # a trace that cannot be read back
    lines[3] = json.dumps(unreadable)
    path.write_text("\n".join([*lines, "[1, 2]", ""]))
    report = other.import_records(path)
    assert report.added == 2
    assert [one.line for one in report.rejected] == [3, 4, 6]
    assert report.rejected_path == tmp_path / "log.jsonl.rejected"
    assert report.to_json()["rejected"][0]["line"] == 3
    kept = [json.loads(line) for line in report.rejected_path.read_text().splitlines()]
    assert [one["line"] for one in kept] == [3, 4, 6]
    assert "trace" in kept[1]["reason"]
    assert kept[0]["text"] == lines[2]
    assert "3 lines rejected (line 3:" in report.describe()
    assert [one.trial for one in other.records(*key(record()))] == [0, 3]


def test_the_caller_may_reject_records_that_only_it_can_judge(store: Store, other: Store, tmp_path: Path) -> None:
    store.add_records([record(1e-3, 0), record(2e-3, 1)])
    path = tmp_path / "log.jsonl"
    store.export_records(path)

    def check(one: Record) -> str | None:
        return "the trace does not replay:\nno block" if one.trial == 1 else None

    report = other.import_records(path, check)
    assert report.added == 1
    assert report.rejected[0].reason == "the trace does not replay: no block"


def test_a_truncated_archive_gives_what_can_be_read(store: Store, other: Store, tmp_path: Path) -> None:
    store.add_records([record(1e-3 * (i + 1), i, machine=f"{i * 7919:x}" * 50) for i in range(200)])
    path = tmp_path / "log.jsonl.gz"
    store.export_records(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    report = other.import_records(path)
    assert 0 < report.added < 200
    assert any("archive is damaged" in one.reason for one in report.rejected)


def test_a_file_that_is_no_archive_loads_nothing_and_says_so(other: Store, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(b"no archive at all")
    report = other.import_records(path)
    assert report.added == 0
    assert "archive is damaged" in report.rejected[0].reason


def test_a_damaged_header_costs_its_line_only(store: Store, other: Store, tmp_path: Path) -> None:
    store.add_record(record())
    path = tmp_path / "log.jsonl"
    store.export_records(path)
    path.write_text("{" + path.read_text())
    report = other.import_records(path)
    assert report.added == 1
    assert report.rejected[0].line == 1


def test_bytes_that_are_no_text_are_rejected(store: Store, other: Store, tmp_path: Path) -> None:
    store.add_record(record())
    path = tmp_path / "log.jsonl"
    store.export_records(path)
    path.write_bytes(path.read_bytes() + b"\xff\xfe\x00\n")
    report = other.import_records(path)
    assert report.added == 1
    assert len(report.rejected) == 1


def test_a_newer_file_is_refused_whole(store: Store, other: Store, tmp_path: Path) -> None:
    store.add_record(record())
    path = tmp_path / "log.jsonl.gz"
    store.export_records(path)
    text = gzip.decompress(path.read_bytes()).decode().replace('"schema":1', '"schema":2', 1)
    path.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(StoreError, match="schema 2, and this workbench reads up to 1"):
        other.import_records(path)
    assert other.count() == 0


def test_a_missing_file_is_one_clear_line(other: Store, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"records cannot be read from .*nowhere\.jsonl"):
        other.import_records(tmp_path / "nowhere.jsonl")


def test_foreign_records_are_kept_and_never_given_out(store: Store, other: Store, tmp_path: Path) -> None:
    foreign = record(1e-9, target="llvm/Other CPU/haswell/avx2/c64t64/llvm22/vector")
    store.add_records([foreign, record(1e-9, 1, tvm="0.26.0")])
    path = tmp_path / "log.jsonl"
    store.export_records(path)
    mine = record(1e-3)
    other.add_record(mine)
    assert other.import_records(path).added == 2
    assert other.best(*key(mine)) == mine
    assert other.best(*key(foreign)) == foreign


def test_rejected_lines_go_to_the_store_where_the_files_folder_cannot_be_written(other: Store, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("not json\n")
    (tmp_path / "log.jsonl.rejected").mkdir()  # a folder in the way stands for a folder without permission
    report = other.import_records(path)
    assert report.rejected_path == other.path / "log.jsonl.rejected"
    assert report.rejected_path.is_file()
