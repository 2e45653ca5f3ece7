"""The main job as a whole: what it says when everything fails, when a kernel is wrong, and when it is asked again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import workbench as wb
from workbench.errors import CheckError
from workbench.fusion import load_plan, plan
from workbench.graph import from_model
from workbench.job import Settings, main_job
from workbench.kernels import lower, schedule_workload
from workbench.kernels.build import build_kernel
from workbench.models import Model
from workbench.report import Run
from workbench.store import ScheduleSpec, Store
from workbench.targets import resolve
from workbench.tuning import Budget, tune_tasks
from workbench.tuning.builders.fake import FakeBuilder
from workbench.tuning.runners._base import RunResult
from workbench.tuning.runners.fake import FakeRunner
from workbench.tvm_seam import relax, tvm_version

DEFAULT = ScheduleSpec("default", "default", {})


def _model(second: Callable[[Any, Any], Any] = relax.op.multiply) -> Model:
    builder = relax.BlockBuilder()
    x, y = (relax.Var(name, relax.TensorType((16, 32), "float32")) for name in "xy")
    with builder.function("main", [x, y]):
        with builder.dataflow():
            total = builder.emit(relax.op.add(x, y))
            result = builder.emit_output(builder.emit(second(total, y)))
        builder.emit_func_output(result)
    return wb.load(builder.get(), name="two")


def _settings(store: Store) -> Settings:
    return Settings(target=resolve("llvm"), store=store, budget=Budget(trials_per_task=1), measure_s=0.3)


def test_nothing_measured_is_a_failure_that_names_the_first_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = FakeRunner(fault=lambda schedule: RunResult("run_error", (), "the device is on fire"))
    faked = functools.partial(tune_tasks, builder=FakeBuilder(), runner=broken)
    monkeypatch.setattr("workbench.job._search.tune_tasks", faked)
    with Store(tmp_path) as store:
        with pytest.raises(CheckError, match="the device is on fire") as refused:
            main_job(_model(), _settings(store))
        assert store.summary().to_json()["kernels"] == 0
    assert refused.value.exit_code == 1


def test_a_wrong_kernel_makes_its_variant_wrong_and_gets_no_time(tmp_path: Path) -> None:
    """The kernel cache holds, under the key of the fused workload, code that subtracts where it should multiply."""
    model, wrong_model = _model(), _model(relax.op.subtract)
    with Store(tmp_path) as store:
        settings = _settings(store)
        # A plan that is given is not revised, so that noise cannot make `planned` another program.
        settings = replace(settings, plan=plan(from_model(model), settings.target))
        first = main_job(model, settings).run
        assert all(variant.correct for variant in first.variants)
        right, wrong = (
            next(iter(lower(one, plan(from_model(one), settings.target), "planned").workloads.values()))
            for one in (model, wrong_model)
        )
        best = store.best(right.key, settings.target.key, tvm_version())
        spec = DEFAULT if best is None else best.schedule
        store.put(build_kernel(right, settings.target, spec, schedule_workload(wrong, settings.target, DEFAULT)))
        run = main_job(model, settings).run
        report = tmp_path / "out"
        run.report(report)
    planned = run.variant("planned")
    assert planned is not None
    assert planned.status == "wrong"
    assert planned.latency_us is None
    assert not planned.samples_us
    assert run.variant("unfused").status == "ok"
    assert "wrong" in (report / "report.html").read_text()


def test_the_same_command_again_makes_no_trials_and_builds_nothing(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        first = main_job(_model(), _settings(store)).run
        again = main_job(_model(), _settings(store)).run
    assert sum(task.trials for task in first.tasks) > 0
    assert all(task.cached and task.trials == 0 for task in again.tasks)
    assert again.cache.builds == 0


def test_a_run_reads_back_as_it_was_written(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        outcome = main_job(_model(), _settings(store))
    outcome.write(tmp_path / "out")
    assert Run.from_json(tmp_path / "out") == outcome.run
    graph = outcome.plan.graph
    assert load_plan(tmp_path / "out" / "plan.json", graph).groups == outcome.plan.groups
