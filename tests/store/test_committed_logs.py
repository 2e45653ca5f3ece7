"""The committed records load whole, and belong to the workloads that the built-in models have today."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import tuning_logs
from workbench.fusion import plan
from workbench.graph import from_model
from workbench.kernels import lower
from workbench.models import load
from workbench.store import Store
from workbench.targets import resolve


def test_there_are_logs_of_most_light_models() -> None:
    names = {path.name.removesuffix(".jsonl.gz") for path in tuning_logs.paths()}
    assert {"gelu", "elementwise_chain", "residual_layernorm", "encoder"} <= names


@pytest.mark.parametrize("path", tuning_logs.paths(), ids=lambda path: path.name)
def test_a_log_loads_without_a_rejected_line(path: Path, tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        report = store.import_records(path)
    assert report.added > 0
    assert report.rejected == ()


def test_the_logs_of_a_model_name_its_workloads() -> None:
    path = next(path for path in tuning_logs.paths() if path.name.startswith("residual_layernorm"))
    with gzip.open(path, "rt") as file:
        text = file.read()
    model, target = load("residual_layernorm"), resolve("llvm")
    unfused = lower(model, plan(from_model(model), target, planner="unfused"), "unfused")
    assert all(key in text for key in unfused.workloads)
    assert all(json.loads(line) for line in text.splitlines())
