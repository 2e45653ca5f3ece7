"""A built-in model through the real stages: lowered, compiled, checked, timed, profiled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from workbench.fusion import plan
from workbench.graph import from_model
from workbench.kernels import compile_model, lower, lower_greedy
from workbench.measure import ReferenceOutputs, VariantInput, VariantMeasurement, measure_variants, reference_outputs
from workbench.models import load
from workbench.store import ScheduleSpec, Store
from workbench.targets import resolve

DEFAULT = ScheduleSpec("default", "default", {})


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, VariantMeasurement]:
    """``bad`` is `unfused` once more, with a reference that it cannot meet: every element moved by one."""
    target, model = resolve(), load("pool_add")
    graph = from_model(model)
    lowered = {
        "unfused": lower(model, plan(graph, target, rules=(), planner="unfused"), "unfused"),
        "planned": lower_greedy(model),
    }
    folder: Path = tmp_path_factory.mktemp("store")
    inputs = model.example_inputs(0)
    with Store(folder) as store:
        variants = []
        for name, one in lowered.items():
            executable, _ = compile_model(one, model, target, dict.fromkeys(one.workloads, DEFAULT), store)
            variants.append(VariantInput(name, True, executable, one))
        reference = reference_outputs(model, graph, inputs, store=store)
    good = measure_variants(variants, inputs, reference, target, seconds=0.5)
    moved = [tuple(array + array.dtype.type(1) for array in one) for one in (reference.reference64, reference.native)]
    shifted = ReferenceOutputs(moved[0], moved[1], reference.name)
    bad = measure_variants(variants[:1], inputs, shifted, target, seconds=0.5)
    return {one.name: one for one in good} | {"bad": bad[0]}


def test_compiled_variants_are_right_and_timed(measured: dict[str, VariantMeasurement]) -> None:
    for name in ("unfused", "planned"):
        one = measured[name]
        assert (one.status, one.error) == ("ok", "")
        assert one.correctness.reference == "numpy float64"
        assert one.latency is not None
        assert 0 < one.latency.low <= one.latency.median <= one.latency.high
        assert one.ratio_to_unfused is not None
    assert measured["planned"].kernels < measured["unfused"].kernels
    assert measured["planned"].intermediate_bytes < measured["unfused"].intermediate_bytes


def test_group_times_are_those_of_the_kernels_in_order(measured: dict[str, VariantMeasurement]) -> None:
    one = measured["unfused"]
    assert len(one.groups) == one.kernels
    assert all(group.latency_s > 0 for group in one.groups)
    assert np.isclose(sum(group.share for group in one.groups), 1.0)
    assert {group.bound for group in one.groups} <= {"memory", "compute"}


def test_a_compiled_variant_with_another_result_is_wrong(measured: dict[str, VariantMeasurement]) -> None:
    assert measured["bad"].status == "wrong"
    assert measured["bad"].latency is None
    assert "are off" in measured["bad"].error
