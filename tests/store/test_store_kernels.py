"""The kernel cache: content-addressed, checked at every use, and never trusted across versions."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

import pytest
from store_samples import kernel

from workbench.store import Kernel, ScheduleSpec, Store, _kernels


@pytest.fixture
def store(tmp_path: Path):
    with Store(tmp_path) as made:
        yield made


def look_up(store: Store, one: Kernel) -> Kernel | None:
    return store.get(one.workload, one.target, one.tvm, one.schedule)


def file_of(store: Store, one: Kernel) -> Path:
    return store.path / "kernels" / f"{hashlib.sha256(one.code).hexdigest()}.o"


def test_a_kernel_comes_back_whole(store: Store) -> None:
    assert look_up(store, kernel()) is None
    store.put(kernel())
    assert look_up(store, kernel()) == kernel()
    assert file_of(store, kernel()).read_bytes() == kernel().code


@pytest.mark.parametrize(
    "change",
    [
        {"workload": "v"},
        {"target": "llvm/CPU/haswell"},
        {"tvm": "0.28.0"},
        {"schedule": ScheduleSpec("library", "attention", {"rows": 8})},
        {"schedule": ScheduleSpec("default", "attention", {"rows": 4})},
    ],
)
def test_every_part_of_the_key_counts(store: Store, change: dict[str, object]) -> None:
    store.put(kernel())
    assert look_up(store, kernel(**change)) is None


def test_a_kernel_of_another_workbench_is_a_miss(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put(kernel())
    monkeypatch.setattr(_kernels, "__version__", "99.0")
    assert look_up(store, kernel()) is None


def test_order_of_parameters_does_not_count(store: Store) -> None:
    store.put(kernel(schedule=ScheduleSpec("library", "x", {"a": 1, "b": 2})))
    assert look_up(store, kernel(schedule=ScheduleSpec("library", "x", {"b": 2, "a": 1}))) is not None


@pytest.mark.parametrize("damage", [b"", b"\x7fELF cOde", b"\x7fELF code and more"])
def test_a_damaged_file_is_a_miss_and_is_removed(store: Store, damage: bytes, caplog: pytest.LogCaptureFixture) -> None:
    store.put(kernel())
    file_of(store, kernel()).write_bytes(damage)
    with caplog.at_level(logging.WARNING):
        assert look_up(store, kernel()) is None
    assert "is damaged" in caplog.text
    assert not file_of(store, kernel()).exists()
    assert store.summary().kernels == 0
    store.put(kernel())
    assert look_up(store, kernel()) == kernel()


def test_a_missing_file_is_a_miss(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    store.put(kernel())
    file_of(store, kernel()).unlink()
    assert look_up(store, kernel()) is None
    assert "is gone" in caplog.text
    assert store.summary().kernels == 0


def test_putting_again_mends_a_damaged_file(store: Store) -> None:
    store.put(kernel())
    file_of(store, kernel()).write_bytes(b"\x7fELF cOde")  # of the right length
    store.put(kernel())
    assert look_up(store, kernel()) == kernel()


def test_equal_code_is_one_file(store: Store) -> None:
    store.put(kernel())
    store.put(kernel(workload="v"))
    assert len(list((store.path / "kernels").iterdir())) == 1
    assert store.summary().kernels == 2


def test_a_newer_kernel_takes_the_place_of_the_older(store: Store) -> None:
    store.put(kernel(b"old"))
    store.put(kernel(b"new"))
    found = look_up(store, kernel())
    assert found is not None
    assert found.code == b"new"
    assert store.prune().bytes == len(b"old")
    assert [path.read_bytes() for path in (store.path / "kernels").iterdir()] == [b"new"]


def test_prune_keeps_the_newest_within_the_limit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for index in range(4):
        monkeypatch.setattr(_kernels, "now", lambda index=index: f"2026-01-0{index + 1}")
        store.put(kernel(bytes([index]) * 100, workload=f"w{index}"))
    removed = store.prune(kernel_bytes=250)
    assert (removed.kernels, removed.bytes) == (2, 200)
    assert [look_up(store, kernel(workload=f"w{index}")) is not None for index in range(4)] == [False] * 2 + [True] * 2


def test_prune_drops_other_versions_and_leftovers(store: Store) -> None:
    store.put(kernel(b"old", tvm="0.26.0"))
    store.put(kernel(b"new"))
    (store.path / "kernels" / ".new-left-by-a-killed-run").write_bytes(b"12345")
    removed = store.prune(keep_tvm="0.27.0")
    assert (removed.kernels, removed.bytes) == (1, 3 + 5)
    assert len(list((store.path / "kernels").iterdir())) == 1


def test_clear_kernels_removes_their_files(store: Store) -> None:
    store.put(kernel())
    removed = store.clear(records=False)
    assert (removed.kernels, removed.bytes) == (1, len(kernel().code))
    assert list((store.path / "kernels").iterdir()) == []
