"""Records: what goes in comes out, best first, and only for its own workload, target and TVM version."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
import sqlite3
from pathlib import Path

import pytest
from store_samples import key, record

from workbench.errors import StoreError
from workbench.store import ScheduleSpec, Store
from workbench.store.serialise import dump_record, load_record
from workbench.tuning.storage import end_mark


@pytest.fixture
def store(tmp_path: Path):
    with Store(tmp_path / "deep" / "store") as made:
        yield made


def test_what_goes_in_comes_out(store: Store) -> None:
    given = record()
    assert store.add_record(given)
    assert store.records(*key(given)) == [given]


def test_records_come_in_the_order_of_their_measurement(store: Store) -> None:
    slow, failed, fast = record(3e-3, 0), record(None, 1), record(1e-3, 2)
    assert store.add_records([slow, failed, fast]) == 3
    assert store.records(*key(slow)) == [slow, failed, fast]
    assert store.best(*key(slow)) == fast


def test_failed_trials_alone_have_no_best(store: Store) -> None:
    store.add_record(record(None))
    assert store.best(*key(record())) is None
    assert store.count() == 1


def test_one_record_is_kept_once(store: Store) -> None:
    assert store.add_record(record())
    assert not store.add_record(record())
    assert store.count() == 1


def test_a_creation_time_is_filled_in(store: Store) -> None:
    store.add_record(record(created=""))
    assert store.records(*key(record()))[0].created.endswith("+00:00")


@pytest.mark.parametrize("field", ["workload", "target", "tvm"])
def test_another_machines_record_is_never_returned(store: Store, field: str) -> None:
    mine, foreign = record(2e-3), record(1e-6, **{field: "another"})
    store.add_records([mine, foreign])
    assert store.best(*key(mine)) == mine
    assert store.records(*key(mine)) == [mine]
    assert store.count(**{field: "another"}) == 1
    assert store.count() == 2


def test_core_count_separates_records(store: Store) -> None:
    two = record(target="llvm/CPU/znver4/avx2/c2t2/llvm22/vector")
    one = record(target="llvm/CPU/znver4/avx2/c2t1/llvm22/vector")
    store.add_record(two)
    assert store.best(*key(one)) is None


def test_a_second_store_on_the_folder_sees_what_was_committed(store: Store) -> None:
    store.add_record(record())
    with Store(store.path) as other:
        assert other.count() == 1


def test_a_store_can_be_sent_to_another_process(store: Store) -> None:
    store.add_record(record())
    with pickle.loads(pickle.dumps(store)) as copy:
        assert copy.path == store.path
        assert copy.count() == 1


@pytest.mark.parametrize(
    "broken",
    [
        {"seconds": (math.nan,)},
        {"seconds": (math.inf,)},
        {"seconds": (-1.0,)},
        {"seconds": ()},
        {"status": "timeout"},
        {"schedule": ScheduleSpec("trace", "evolutionary", [])},
        {"schedule": ScheduleSpec("library", "x", {"a": object()})},
        {"workload": ""},
    ],
)
def test_what_could_not_be_read_back_is_not_written(store: Store, broken: dict[str, object]) -> None:
    with pytest.raises(StoreError, match="cannot be stored"):
        store.add_records([record(), dataclasses.replace(record(), **broken)])
    assert store.count() == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"seconds": "fast"}, "list of positive"),
        ({"seconds": [True]}, "list of positive"),
        ({"status": "fine"}, "'status' must be one of"),
        ({"schedule": {"kind": "trace"}}, "kind, name and data"),
        ({"schedule": {"kind": "magic", "name": "x", "data": 1}}, "trace, library or default"),
        ({"settings": {"repeat": "3"}}, "'repeat' must be int"),
        ({"settings": {"speed": 3}}, "unknown fields: speed"),
        ({"settings": None}, "'settings' must be an object"),
        ({"trial": "first"}, "'trial' must be int"),
        ({"extra": 1}, "unknown fields: extra"),
        ({"target": None}, "'target' must be a non-empty string"),
    ],
)
def test_a_broken_document_names_its_field(change: dict[str, object], reason: str) -> None:
    document = json.loads(dump_record(record())) | change
    with pytest.raises(ValueError, match=reason):
        load_record(json.dumps(document))


def test_optional_fields_may_be_missing() -> None:
    document = json.loads(dump_record(record()))
    for name in ("error", "strategy", "seed", "trial", "elapsed_s", "created", "machine"):
        del document[name]
    assert load_record(json.dumps(document)).seed == 0


def test_peaks_runs_and_summary(store: Store) -> None:
    assert store.peaks("t") is None
    store.set_peaks("t", 200.0, 30.0)
    store.set_peaks("t", 210.0, 31.0)
    assert store.peaks("t") == (210.0, 31.0)
    older = {"created": "2026-01-01", "model": {"name": "gelu"}, "target": {"device": "CPU"}, "complete": True}
    store.add_run("a", older)
    store.add_run("b", older | {"created": "2026-01-02", "complete": False})
    assert [one.id for one in store.runs()] == ["b", "a"]
    assert [one.complete for one in store.runs()] == [False, True]
    assert store.run("a") == older
    assert store.run("c") is None
    store.add_records([record(), record(None, 1), record(workload="v", target="other")])
    summary = store.summary()
    assert (summary.records, summary.runs, summary.kernels) == (3, 2, 0)
    assert [(one.target, one.workloads, one.records, one.failed) for one in summary.targets] == [
        (record().target, 1, 2, 1),
        ("other", 1, 1, 0),
    ]
    document = json.loads(json.dumps(summary.to_json()))
    assert document["path"] == str(store.path)
    assert document["targets"][0]["workloads"] == 1
    assert summary.bytes >= (store.path / "store.sqlite").stat().st_size


def test_the_end_of_a_search_is_no_failed_trial(store: Store) -> None:
    settings = record().settings
    mark = end_mark("w" * 64, record().target, "0.27.0", "evolutionary", "time", 20.0, settings)
    store.add_records([record(), record(None, 1), dataclasses.replace(mark, created="2026-01-02")])
    (found,) = store.summary().targets
    assert (found.records, found.failed) == (3, 1)


def test_clear_removes_what_is_named_and_nothing_else(store: Store) -> None:
    store.add_records([record(), record(None, 1)])
    store.add_run("a", {})
    path = store.reference_path("f", 0)
    store.write_reference(path, b"12345")
    assert store.clear(kernels=False, references=False).records == 2
    assert store.count() == 0
    assert len(store.runs()) == 1
    assert path.exists()
    removed = store.clear(records=False, runs=True)
    assert (removed.runs, removed.references, removed.bytes) == (1, 1, 5)
    assert not path.exists()


def test_the_whole_history_is_there_after_many_commits(store: Store) -> None:
    for trial in range(50):
        store.add_record(record(1e-3 + trial * 1e-5, trial))
    found = store.records(*key(record()))
    assert [one.trial for one in found] == list(range(50))
    assert found[0] == dataclasses.replace(record(), trial=0)


def test_database_is_plain_sqlite_with_a_schema_version(store: Store) -> None:
    with sqlite3.connect(store.path / "store.sqlite") as connection:
        assert connection.execute("SELECT value FROM meta WHERE key='schema'").fetchone() == ("3",)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
