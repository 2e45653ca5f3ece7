"""The local runner: its contract, wrong, crashing and hanging candidates, and prepacked weights."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tuning_tasks import TARGET, matmul_task, plain_task, te_task

from workbench.kernels.kernel import Kernel
from workbench.kernels.workload import Workload
from workbench.models.model import TensorSpec
from workbench.store.record import MeasureSettings, ScheduleSpec
from workbench.tuning import Budget, Candidate, Event, MemoryStore, Task, tune_tasks
from workbench.tuning.builders import BuildResult, FakeBuilder, LocalBuilder
from workbench.tuning.runners import FakeRunner
from workbench.tuning.runners.local import LocalRunner
from workbench.tuning.strategies import MetaScheduleStrategy
from workbench.tuning.testing import RunnerContract
from workbench.tvm_seam import tvm

SETTINGS = MeasureSettings(number=1, repeat=2, min_repeat_ms=1)
DEFAULT = Candidate(ScheduleSpec("default", "default", {}), None)
MATMUL = matmul_task()


def matmul_reference(workload: Workload) -> Any:
    """Seeded inputs and NumPy's results for relu(a @ b + c)."""
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(spec.shape).astype(spec.dtype) for spec in workload.args[:-1]]

    def compute(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> list[np.ndarray]:
        return [np.maximum(a @ b + c, 0)]

    return SimpleNamespace(
        inputs=inputs, reference64=compute(*[x.astype("float64") for x in inputs]), native=compute(*inputs)
    )


@pytest.fixture(scope="module")
def builder() -> Iterator[LocalBuilder]:
    made = LocalBuilder(jobs=1)
    yield made
    made.close()


@pytest.fixture(scope="module")
def runner() -> Iterator[LocalRunner]:
    made = LocalRunner(SETTINGS, threads=2, reference=matmul_reference)
    yield made
    made.close()


@pytest.fixture(scope="module")
def good(builder: LocalBuilder) -> BuildResult:
    result = builder.build(MATMUL, [DEFAULT])[0]
    assert result.status == "ok", result.error
    return result


def from_c(tmp_path: Path, body: str) -> BuildResult:
    """A library whose kernel is a C function in place of a compiled schedule."""
    source = tmp_path / "kernel.c"
    source.write_text(
        "#include <signal.h>\n#include <unistd.h>\n"
        "int __tvm_ffi_kernel(void* handle, const void* args, int count, void* result) {" + body + "}\n"
    )
    library = tmp_path / "kernel.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    kernel = Kernel("kernel", MATMUL.workload.key, TARGET.key, "0", DEFAULT.schedule, (), b"")
    return BuildResult(kernel, library, "ok", "", 0.0)


class TestFakeRunner(RunnerContract):
    task = plain_task()
    builds = tuple(FakeBuilder().build(plain_task(), [DEFAULT, DEFAULT]))

    def make(self) -> FakeRunner:
        return FakeRunner()


class TestLocalRunner(RunnerContract):
    task = MATMUL

    @pytest.fixture(autouse=True)
    def _builds(self, good: BuildResult) -> None:
        self.builds = (good, good)

    def make(self) -> LocalRunner:
        return LocalRunner(SETTINGS, reference=matmul_reference)


def test_a_right_candidate_is_timed_at_the_given_settings(runner: LocalRunner, good: BuildResult) -> None:
    result = runner.run(MATMUL, [good])[0]
    assert result.status == "ok"
    assert len(result.seconds) == SETTINGS.repeat
    assert runner.run(MATMUL, [good])[0].status == "ok"


# a schedule that compiles, runs and computes something else.
@pytest.mark.parametrize("name", ["row", "nan", "one"])
def test_a_wrong_candidate_is_never_timed(
    builder: LocalBuilder, runner: LocalRunner, good: BuildResult, name: str
) -> None:
    te, topi = tvm.te, tvm.topi
    a, b, c = (te.placeholder(spec.shape, name=spec.name) for spec in MATMUL.workload.args[:-1])
    right = topi.nn.relu(topi.add(topi.matmul(a, b), c))
    wrongs = {
        "row": te.compute(right.shape, lambda i, j: right[i, j] + tvm.tirx.if_then_else(i == 63, 1e-3, 0.0)),
        "nan": te.compute(right.shape, lambda i, j: tvm.tirx.if_then_else(i + j == 0, float("nan"), right[i, j])),
        "one": te.compute(right.shape, lambda i, j: tvm.tirx.if_then_else(i + j == 0, -1.0, right[i, j])),
    }
    module = tvm.IRModule({"main": te.create_prim_func([a, b, c, wrongs[name]]).with_attr("global_symbol", "main")})
    build = builder.build(MATMUL, [Candidate(ScheduleSpec("library", f"wrong-{name}", {}), module)])[0]
    assert build.status == "ok", build.error
    bad, after = runner.run(MATMUL, [build, good])
    assert (bad.status, bad.seconds) == ("wrong_output", ())
    assert bad.error
    assert after.status == "ok"


def test_a_segfault_costs_its_candidate_alone(runner: LocalRunner, good: BuildResult, tmp_path: Path) -> None:
    crash = from_c(tmp_path, "raise(SIGSEGV); return 0;")
    results = runner.run(MATMUL, [good, crash, good])
    assert [result.status for result in results] == ["ok", "crash", "ok"]
    assert "SIGSEGV" in results[1].error


def test_a_hang_costs_its_candidate_alone(good: BuildResult, tmp_path: Path) -> None:
    made = LocalRunner(SETTINGS, timeout_s=3.0, threads=2, reference=matmul_reference)
    try:
        results = made.run(MATMUL, [from_c(tmp_path, "for (;;) pause(); return 0;"), good])
    finally:
        made.close()
    assert [result.status for result in results] == ["timeout", "ok"]
    assert "3 s" in results[0].error


def test_a_candidate_that_does_nothing_is_wrong(runner: LocalRunner, tmp_path: Path) -> None:
    result = runner.run(MATMUL, [from_c(tmp_path, "return 0;")])[0]
    assert result.status == "wrong_output"


def test_an_error_inside_the_candidate_is_its_own(runner: LocalRunner, good: BuildResult, tmp_path: Path) -> None:
    assert good.kernel is not None
    nameless = dataclasses.replace(good, kernel=dataclasses.replace(good.kernel, symbol="no_such_symbol"))
    missing = dataclasses.replace(good, library=tmp_path / "gone.so")
    results = runner.run(MATMUL, [nameless, missing, good])
    assert [result.status for result in results] == ["run_error", "run_error", "ok"]
    assert all("\n" not in result.error for result in results)


def test_a_runner_killed_while_idle_is_replaced(runner: LocalRunner, good: BuildResult) -> None:
    runner.run(MATMUL, [good])
    os.kill(runner.pids[0], signal.SIGKILL)
    assert runner.run(MATMUL, [good])[0].status == "ok"


def test_a_hopeless_candidate_is_timed_once(good: BuildResult) -> None:
    made = LocalRunner(SETTINGS, reference=matmul_reference)
    try:
        made.run(MATMUL, [good])
        made._best = dict.fromkeys(made._best, 1e-09)
        result = made.run(MATMUL, [good])[0]
    finally:
        made.close()
    assert result.status == "ok"
    assert len(result.seconds) == 1


def test_a_crash_in_a_comparison_costs_its_contender_alone(good: BuildResult, tmp_path: Path) -> None:
    made = LocalRunner(SETTINGS, threads=2, reference=matmul_reference)
    crash = from_c(tmp_path, "raise(SIGSEGV); return 0;")
    try:
        results = made.compare(MATMUL, [good, crash, good], 5)
    finally:
        made.close()
    assert [(result.status, len(result.seconds)) for result in results] == [("ok", 5), ("crash", 0), ("ok", 5)]


@pytest.mark.parametrize(("expected", "status"), [(0.0, "ok"), (1.0, "wrong_output")])
def test_a_comparison_checks_on_more_inputs_than_a_run(good: BuildResult, expected: float, status: str) -> None:
    """The same kernel is right on the first inputs and, for the sake of the test, wrong on the second."""

    def zeros(workload: Workload) -> Any:
        inputs = [np.zeros(spec.shape, spec.dtype) for spec in workload.args[:-1]]
        outputs = [np.full(workload.args[-1].shape, expected)]
        return [SimpleNamespace(inputs=inputs, reference64=outputs, native=[outputs[0].astype("float32")])]

    made = LocalRunner(SETTINGS, threads=2, reference=matmul_reference, probes=zeros)
    try:
        assert made.run(MATMUL, [good])[0].status == "ok"
        assert made.compare(MATMUL, [good], 5)[0].status == status
    finally:
        made.close()


def test_a_hopeless_contender_is_timed_once(good: BuildResult, tmp_path: Path) -> None:
    te, topi = tvm.te, tvm.topi
    slow = from_c(tmp_path, "usleep(100000); return 0;")
    x = te.placeholder((4,), name="x")
    task = te_task([x, topi.nn.relu(x)], ("nn.relu",), "four")

    def reference(workload: Workload) -> Any:
        spoilt = np.full(4, np.nan, "float32")  # what both leave: neither writes anything
        return SimpleNamespace(inputs=[np.zeros(4, "float32")], reference64=[spoilt], native=[spoilt])

    (tmp_path / "other").mkdir()
    fast = from_c(tmp_path / "other", "return 0;")
    made = LocalRunner(SETTINGS, threads=2, reference=reference)
    try:
        results = made.compare(task, [slow, fast], 6)
    finally:
        made.close()
    assert [len(result.seconds) for result in results] == [1, 6], [result.error for result in results]


def weights_task() -> Task:
    """a @ w with w a constant that may be packed."""
    te, topi = tvm.te, tvm.topi
    a, w = te.placeholder((64, 64), name="a"), te.placeholder((64, 64), name="w")
    function = te.create_prim_func([a, w, topi.matmul(a, w)]).with_attr("global_symbol", "main")
    module = tvm.IRModule({"main": function.with_attr("layout_free_buffers", [1])})
    specs = tuple(TensorSpec(name, (64, 64), "float32") for name in ("a", "w", "y"))
    return Task(Workload("packed", module, specs, 1, (1,), ("matmul",), 2.0 * 64**3, 49152), TARGET)


def test_packed_weights_are_packed_once_and_give_the_right_result(builder: LocalBuilder) -> None:
    task = weights_task()

    def reference(workload: Workload) -> Any:
        random = np.random.default_rng(1)
        a, w = (random.standard_normal((64, 64)).astype("float32") for _ in range(2))
        return SimpleNamespace(inputs=[a, w], reference64=[a.astype("float64") @ w.astype("float64")], native=[a @ w])

    builds = builder.build(task, MetaScheduleStrategy(task, 0, [], population=48, generations=1).ask(8))
    assert any(build.kernel is not None and build.kernel.packed for build in builds)
    made = LocalRunner(SETTINGS, reference=reference)
    try:
        results = made.run(task, builds)
    finally:
        made.close()
    assert [result.status for result in results] == ["ok"] * len(builds), [result.error for result in results]


def test_numbers_without_axes_are_arguments_and_results(builder: LocalBuilder) -> None:
    """``where`` with a constant has one among its arguments, a sum over all axes is one."""
    te = tvm.te
    x, least, axis = te.placeholder((64,), name="x"), te.placeholder((), name="least"), te.reduce_axis((0, 64))
    clipped = te.compute((64,), lambda i: te.max(x[i], least()), name="clipped")
    total = te.compute((), lambda: te.sum(clipped[axis], axis=axis), name="total")
    task = te_task([x, least, total], ("maximum", "sum"), "numbers")

    def reference(workload: Workload) -> Any:
        inputs = [np.random.default_rng(2).standard_normal(64).astype("float32"), np.float32(0.5).reshape(())]
        return SimpleNamespace(
            inputs=inputs,
            reference64=[np.maximum(*(a.astype("float64") for a in inputs)).sum()],
            native=[np.maximum(*inputs).sum()],
        )

    made = LocalRunner(SETTINGS, reference=reference)
    try:
        [result] = made.run(task, builder.build(task, [DEFAULT]))
    finally:
        made.close()
    assert result.status == "ok", result.error


def test_a_small_real_search_beats_the_default() -> None:
    task, store = matmul_task(64), MemoryStore()
    runner = LocalRunner(SETTINGS, threads=2)
    try:
        result = tune_tasks([task], Budget(trials_per_task=16), store=store, runner=runner)
    finally:
        runner.close()
    found = result.results[0]
    assert found.failed == {}, found.first_error
    assert found.trials == 16
    assert found.best is not None
    assert found.default_s is not None
    assert found.best.median_s <= found.default_s
    assert store.kernels[next(iter(store.kernels))].schedule == found.best.schedule
    assert tune_tasks([task], Budget(trials_per_task=16), store=store).trials == 0


def test_ctrl_c_in_a_real_search_keeps_the_trials_and_leaves_no_process() -> None:
    store = MemoryStore()
    builder, runner = LocalBuilder(jobs=2), LocalRunner(SETTINGS, threads=2)
    timers: list[threading.Timer] = []

    def interrupt_soon(event: Event) -> None:
        if event.kind == "batch" and not timers:
            timers.append(threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)))
            timers[0].start()

    try:
        result = tune_tasks(
            [matmul_task(64)],
            Budget(trials_per_task=1000),
            store=store,
            builder=builder,
            runner=runner,
            on_event=interrupt_soon,
        )
        pids = [*builder.pids, *runner.pids]
    finally:
        builder.close()
        runner.close()
    assert (result.complete, result.incomplete_reason) == (False, "interrupted")
    assert 17 <= result.trials == len(store.all) < 1000
    assert result.results[0].best is not None
    assert store.kernels
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
