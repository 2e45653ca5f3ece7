"""``workbench costmodel`` on stores with and without enough kernels."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench.fusion.cost_models import LearnedCostModel
from workbench.fusion.cost_models.choice import PRETRAINED
from workbench.fusion.cost_models.samples import read_samples
from workbench.graph.serialise import to_json
from workbench.store import MeasureSettings, Record, ScheduleSpec, Store
from workbench.targets import resolve
from workbench.tvm_seam import tvm_version


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """A store with 64 kernels of this machine: groups of the committed data, with times that no machine has."""
    (data, *_) = sorted(PRETRAINED.glob("*.data.jsonl.gz"))
    target = resolve("llvm", threads=1)
    default = ScheduleSpec("default", "default", {})
    with Store(tmp_path / "store") as store:
        for place, one in enumerate(read_samples(data)[::4][:64]):
            seconds = 1e-6 + sum(node.flops for node in one.graph.nodes) * 1e-9
            store.add_groups({f"{place:03d}": to_json(one.graph)})
            settings = MeasureSettings()
            store.add_record(Record(f"{place:03d}", target.key, tvm_version(), default, "ok", (seconds,), settings))
    return tmp_path / "store"


def test_training_on_a_store(cli: Callable, filled: Path, tmp_path: Path) -> None:
    done = cli("costmodel", "train", "--store", filled, "--threads", "1", "-o", "mine.json")
    assert done.code == 0, done.err
    assert "64 kernels of" in done.out
    assert "rank correlation" in done.out
    assert all(len(line) <= 80 for line in done.out.splitlines())
    loaded = LearnedCostModel.load(tmp_path / "mine.json")
    assert loaded.kernels == 64
    assert len(list((filled / "models").iterdir())) == 1
    assert loaded.target["threads"] == 1
    done = cli("costmodel", "show", "--store", filled, "--threads", "1", "--json")
    assert done.code == 0, done.err
    shown = json.loads(done.out)
    assert shown["evaluation"] == loaded.evaluation.to_json()
    assert shown["model"] == "learned"
    assert sum(shown["importances"].values()) == pytest.approx(1.0)
    done = cli("costmodel", "export", tmp_path / "again.json", "--store", filled, "--threads", "1")
    assert done.code == 0, done.err
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "mine.json").read_bytes()


def test_a_store_with_too_few_kernels(cli: Callable, tmp_path: Path) -> None:
    store = tmp_path / "empty"
    done = cli("costmodel", "train", "--store", store, "--threads", "1")
    assert done.code == 2
    assert len(done.error_lines) == 1
    assert "at least 40 measured kernels" in done.error_lines[0]
    assert "there are 0 of 0" in done.error_lines[0]
    done = cli("costmodel", "show", "--store", store, "--threads", "1")
    assert done.code == 0
    assert "analytic model: 0 kernels measured on this target" in done.out
    assert json.loads(cli("costmodel", "show", "--store", store, "--threads", "1", "--json").out)["model"] == "analytic"
    done = cli("costmodel", "export", tmp_path / "none.json", "--store", store, "--threads", "1")
    assert done.code == 2
    assert "no learned model to export" in done.error_lines[0]
    assert not (tmp_path / "none.json").exists()


@pytest.mark.parametrize("command", ["train", "show", "export"])
def test_help_has_an_example(cli: Callable, command: str) -> None:
    done = cli("costmodel", command, "--help")
    assert done.code == 0
    assert f"Example: workbench costmodel {command}" in done.out
    assert all(len(line) <= 80 for line in done.out.splitlines())


def test_a_file_that_cannot_be_written(cli: Callable, filled: Path, tmp_path: Path) -> None:
    done = cli("costmodel", "train", "--store", filled, "--threads", "1", "-o", tmp_path / "absent" / "m.json")
    assert done.code == 2
    assert len(done.error_lines) == 1
