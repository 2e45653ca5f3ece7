"""Limits on kernel size: every plan keeps its limit, is right, and is measured once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import workbench as wb
from workbench import job
from workbench.errors import CheckError, PlanError
from workbench.models import load
from workbench.store import Store
from workbench.targets import resolve
from workbench.tuning import Budget, Candidate, Task
from workbench.tuning.builders._base import BuildResult
from workbench.tuning.builders.fake import FakeBuilder
from workbench.tuning.runners.fake import FakeRunner

TREES = '''
"""Decision trees walked by table lookups (microsoft/hummingbird issue 232), small."""
import numpy as np
from tvm import relax
from tvm.relax import op


def trees():
    builder = relax.BlockBuilder()
    value = relax.Var("value", relax.TensorType((200, 1), "float32"))
    start = relax.Var("index", relax.TensorType((200,), "int64"))
    random = np.random.default_rng(0)
    with builder.function("main", [value, start]):
        with builder.dataflow():
            index = start
            for level in range(4):
                table = relax.const(random.standard_normal(8 << level).astype("float32"))
                threshold = builder.emit(op.reshape(builder.emit(op.take(table, index, axis=0, mode="clip")), (200, 1)))
                right = builder.emit(op.astype(builder.emit(op.greater_equal(value, threshold)), "int64"))
                doubled = builder.emit(op.multiply(index, relax.const(2, "int64")))
                index = builder.emit(op.add(doubled, builder.emit(op.reshape(right, (200,)))))
            out = builder.emit_output(index)
        builder.emit_func_output(out)
    return builder.get()
'''


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> wb.Sweep:
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "trees.py").write_text(TREES)
    return wb.sweep(
        f"{folder / 'trees.py'}:trees", (1, 4, 8, None), measure_seconds=1, store=folder / "store", quiet=True
    )


def test_no_kernel_is_larger_than_its_limit(trees: wb.Sweep) -> None:
    assert [point.max_nodes for point in trees.points] == [1, 4, 8, None]
    assert all(point.largest <= (point.max_nodes or 1000) for point in trees.points)
    kernels = [point.kernels for point in trees.points]
    assert kernels == sorted(kernels, reverse=True)
    assert kernels[-1] < kernels[0]


def test_every_plan_is_right_and_has_a_compile_time_and_a_run_time(trees: wb.Sweep) -> None:
    assert all(point.status == "ok" for point in trees.points)
    assert all(point.compile_s and point.latency_us for point in trees.points)
    assert trees.points[0].ratio_to_unfused is not None
    assert trees.points[0].ratio_to_unfused.median == 1


class Stubborn(FakeBuilder):
    """Never builds a kernel of more than ``most`` operators."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def _build(self, task: Task, candidate: Candidate) -> BuildResult:
        if len(task.workload.ops) <= self.most:
            return super()._build(task, candidate)
        return BuildResult(None, None, "timeout", "not built within 30 s", 30.0)


class Interrupted(FakeBuilder):
    """Ctrl-C comes once so many kernels are built."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after

    def build(self, task: Task, candidates: Sequence[Candidate]) -> list[BuildResult]:
        if self.built == self.after:
            raise KeyboardInterrupt
        return super().build(task, candidates)


def _swept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, builder: FakeBuilder, *limits: int | None) -> wb.Sweep:
    from workbench.job import _sweep

    tune = _sweep.tune_tasks
    monkeypatch.setattr(
        _sweep, "tune_tasks", lambda *args, **more: tune(*args, **more, builder=builder, runner=FakeRunner())
    )
    with Store(tmp_path) as store:
        settings = job.Settings(
            target=resolve("llvm"),
            store=store,
            budget=Budget(trials_per_task=1),
            planner="predict",
            objective="kernels",
            measure_s=0.5,
        )
        return job.sweep(load("gelu"), limits, settings)


def test_a_kernel_that_no_worker_could_build_costs_its_point_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = _swept(monkeypatch, tmp_path, Stubborn(1), None)
    unfused, whole = made.points
    assert unfused.status == "ok"
    assert whole.status == "failed"
    assert "not built within 30 s" in whole.message
    assert whole.compile_s is None
    assert whole.latency_us is None


def test_an_interrupted_sweep_keeps_the_plans_that_are_complete(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    complete = FakeBuilder()
    assert _swept(monkeypatch, tmp_path / "a", complete, None).incomplete_reason == ""
    monkeypatch.undo()
    made = _swept(monkeypatch, tmp_path / "b", Interrupted(complete.built - 1), None)
    assert made.incomplete_reason == "interrupted"
    assert sorted(point.status for point in made.points) == ["failed", "ok"]
    assert "interrupted" in next(point.message for point in made.points if point.status == "failed")


def test_limits_that_give_the_same_kernels_are_measured_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = _swept(monkeypatch, tmp_path, FakeBuilder(), 64, 128, None)
    assert [point.same_as for point in made.points] == ["", "", "64", "64"]
    assert made.points[1].latency_us == made.points[3].latency_us


def test_planners_that_measure_by_themselves_are_refused(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        settings = job.Settings(target=resolve("llvm"), store=store, budget=Budget(trials_per_task=1))
        with pytest.raises(PlanError, match="a sweep plans with 'predict', not 'measure'"):
            job.sweep(load("gelu"), (None,), settings)


def test_nothing_that_could_be_timed_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(CheckError, match="no limit gave a program that could be timed"):
        _swept(monkeypatch, tmp_path, Stubborn(0), None)
