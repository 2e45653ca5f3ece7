"""Variants: wrong ones are never timed, failing ones cost themselves only, right ones get ratios and group times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from workbench.kernels.workload import KernelCall, LoweredModel, Workload
from workbench.measure import ReferenceOutputs, VariantInput, VariantMeasurement, measure_variants
from workbench.measure.roofline import group_time
from workbench.models.model import TensorSpec
from workbench.targets import Caches, Target

TARGET = Target("llvm", "CPU", "znver4", ("avx2",), 256, 2, 2, Caches(1 << 15, 1 << 20, 1 << 25), "22", 200.0, 20.0)
X = np.arange(12, dtype=np.float32)
REFERENCE = ReferenceOutputs((X.astype(np.float64) * 2,), (X * 2,), "numpy float64")


class Doubler:
    """A hand-made executable of two kernel calls: doubles its input, and takes its time about it."""

    now = 0.0  # of the made-up clock that only running executables move

    def __init__(self, seconds: float, result: np.ndarray | None = None, fails: str = "") -> None:
        self.calls = (call("g0", "w0"), call("g1", "w1"))
        self.timed = 0
        self._seconds, self._result, self._fails = seconds, X * 2 if result is None else result, fails

    def __call__(self, *arrays: np.ndarray) -> Any:
        if self._fails == "check":
            raise RuntimeError("segment\nviolated")
        return self._result

    def prepare(self, arrays: Sequence[np.ndarray]) -> Callable[[], None]:
        def run() -> None:
            self.timed += 1
            if self._fails == "timing":
                raise RuntimeError("out of threads")
            Doubler.now += self._seconds

        return run

    def profile(self, arrays: Sequence[np.ndarray], repeats: int) -> list[list[float]]:
        if self._fails == "profile":
            raise RuntimeError("no clock")
        return [[3e-3] * repeats, [1e-3] * repeats]


def call(group: str, workload: str) -> KernelCall:
    return KernelCall(group, f"f_{group}", workload, ("add",), ("lv",))


def workload(key: str, flops: float, nbytes: int) -> Workload:
    return Workload(key, None, (TensorSpec("x", (12,), "float32"),), 1, (), ("add",), flops, nbytes)  # type: ignore[arg-type]


LOWERED = LoweredModel(
    "any",
    None,  # type: ignore[arg-type]
    {"w0": workload("w0", 3e8, 3_000_000), "w1": workload("w1", 1e6, 10_000_000)},
    (call("g0", "w0"), call("g1", "w1")),
    4096,
)


def variant(name: str, executable: Doubler | None, tuned: bool = True, error: str = "") -> VariantInput:
    return VariantInput(name, tuned, executable, LOWERED, error)


def measure(*variants: VariantInput, **options: Any) -> dict[str, VariantMeasurement]:
    options = {"seconds": 0.5, "clock": lambda: Doubler.now} | options
    return {one.name: one for one in measure_variants(variants, [X], REFERENCE, TARGET, **options)}


def test_right_variants_get_latency_ratio_and_groups() -> None:
    found = measure(variant("unfused", Doubler(0.02)), variant("planned", Doubler(0.01)))
    unfused, planned = found["unfused"], found["planned"]
    assert (planned.status, planned.error, planned.correctness.correct) == ("ok", "", True)
    assert planned.latency is not None
    assert [planned.latency.low, planned.latency.median, planned.latency.high] == pytest.approx([0.01] * 3)
    assert planned.latency.n == len(planned.samples) >= 5
    assert planned.ratio_to_unfused is not None
    assert planned.ratio_to_unfused.median == pytest.approx(2.0)
    assert unfused.ratio_to_unfused is not None
    base = unfused.ratio_to_unfused
    assert base.median == base.low == base.high == 1
    assert (planned.kernels, planned.intermediate_bytes) == (2, 4096)
    assert [one.group for one in planned.groups] == ["g0", "g1"]
    assert [one.share for one in planned.groups] == pytest.approx([0.75, 0.25])
    assert [one.bound for one in planned.groups] == ["compute", "memory"]


def test_a_wrong_variant_is_never_timed() -> None:
    bad = Doubler(0.01, result=X * np.float32(2.001))
    found = measure(variant("unfused", Doubler(0.01)), variant("greedy", bad))
    wrong = found["greedy"]
    assert bad.timed == 0
    assert wrong.status == "wrong"
    assert not wrong.correctness.correct
    assert wrong.error.startswith("wrong result: ")
    assert (wrong.latency, wrong.ratio_to_unfused, wrong.groups, wrong.samples) == (None, None, (), ())
    assert found["unfused"].status == "ok"


@pytest.mark.parametrize(
    "result", [X.astype(np.float64) * 2, X[:6] * 2, np.where(X == 3, np.float32(np.nan), X * 2), [X * 2, X]]
)
def test_dtype_shape_nan_and_number_of_outputs_count(result: Any) -> None:
    bad = Doubler(0.01, result=result)
    assert measure(variant("planned", bad))["planned"].status == "wrong"
    assert bad.timed == 0


def test_a_variant_that_raises_costs_itself_only() -> None:
    found = measure(
        variant("unfused", Doubler(0.01)),
        variant("greedy", Doubler(0.01, fails="check")),
        variant("planned", Doubler(0.01, fails="timing")),
    )
    assert (found["greedy"].status, found["greedy"].error) == ("failed", "segment violated")
    assert (found["planned"].status, found["planned"].error) == ("failed", "out of threads")
    assert found["planned"].latency is None
    assert found["unfused"].status == "ok"


def test_a_variant_that_could_not_be_built_says_why() -> None:
    found = measure(variant("unfused", Doubler(0.01)), variant("planned", None, error="no linker"))
    assert (found["planned"].status, found["planned"].error) == ("failed", "no linker")


def test_group_times_that_cannot_be_had_cost_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    found = measure(variant("unfused", Doubler(0.01, fails="profile")))
    assert found["unfused"].status == "ok"
    assert found["unfused"].groups == ()
    assert "no clock" in caplog.text


def test_without_a_right_base_there_is_no_ratio() -> None:
    found = measure(variant("unfused", Doubler(0.01, result=X)), variant("planned", Doubler(0.01)))
    assert found["planned"].status == "ok"
    assert found["planned"].ratio_to_unfused is None


def test_untuned_variants_take_few_samples() -> None:
    found = measure(
        variant("unfused", Doubler(0.01)), variant("unfused-untuned", Doubler(0.1), tuned=False), seconds=0.3
    )
    assert found["unfused-untuned"].latency is not None
    assert found["unfused-untuned"].latency.n == 3
    assert found["unfused"].latency is not None
    assert found["unfused"].latency.n >= 5
    assert found["unfused-untuned"].groups == ()
    assert len(found["unfused"].groups) == 2


def test_an_untuned_variant_that_is_the_tuned_one_takes_its_measurement() -> None:
    same, other = Doubler(0.02), Doubler(0.01)
    found = measure(variant("unfused-untuned", same, tuned=False), variant("unfused", same), variant("planned", other))
    assert (found["unfused-untuned"].tuned, found["unfused"].tuned) == (False, True)
    assert found["unfused-untuned"].samples == found["unfused"].samples
    ratio = found["planned"].ratio_to_unfused
    assert ratio is not None
    assert ratio.median == pytest.approx(2.0)


def test_steps_are_told() -> None:
    lines: list[str] = []
    measure(variant("unfused", Doubler(0.01)), variant("greedy", None, error="no linker"), on_event=lines.append)
    assert lines[:2] == ["unfused: correct", "greedy: no linker"]
    assert lines[2].startswith("timed 1 variants in ")


def test_roofline_arithmetic() -> None:
    compute = group_time("g", 2e-3, 4e-3, 1e8, 1_000_000, TARGET)
    assert compute.gflops == pytest.approx(50)
    assert compute.gbps == pytest.approx(0.5)
    assert compute.arithmetic_intensity == 100
    assert compute.bound == "compute"  # the ridge of 200 GFLOP/s over 20 GB/s is at 10
    assert compute.peak_fraction == pytest.approx(0.25)
    memory = group_time("g", 1e-3, 4e-3, 1e6, 10_000_000, TARGET)
    assert memory.bound == "memory"
    assert memory.peak_fraction == pytest.approx(0.5)
    assert memory.peak_fraction == pytest.approx(memory.gflops / (memory.arithmetic_intensity * TARGET.peak_gbps))
    copy = group_time("g", 1e-3, 4e-3, 0.0, 10_000_000, TARGET)
    assert (copy.bound, copy.gflops) == ("memory", 0.0)
    assert copy.peak_fraction == pytest.approx(0.5)
