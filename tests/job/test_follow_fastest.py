"""A plan that loses as a whole gives way to the variant that won, and only beyond the interval."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from workbench.fusion import plan
from workbench.graph import from_model
from workbench.job import Settings, Tuned
from workbench.job._bench import follow_fastest
from workbench.kernels import lower, lower_greedy
from workbench.measure import Correctness, GroupTime, Interval, VariantMeasurement
from workbench.models import zoo
from workbench.store import Store
from workbench.targets import resolve
from workbench.tuning import TuneResult

RIGHT = Correctness(True, 1e-7, 1e-7, 0.1, "numpy float64")


@pytest.fixture(scope="module")
def tuned() -> Tuned:
    model, target = zoo.build("residual_layernorm", rows=4, cols=8), resolve("llvm")
    graph = from_model(model)
    unfused = lower(model, plan(graph, target, rules=(), planner="unfused"), "unfused")
    made = plan(graph, target)
    variants = {"unfused": unfused, "greedy": lower_greedy(model), "planned": lower(model, made, "planned")}
    return Tuned(made, variants, TuneResult((), 1.0, 1, True))


def _measured(name: str, tuned: Tuned, us: float) -> VariantMeasurement:
    samples = tuple(us * 1e-6 * (1 + 0.01 * (i % 3)) for i in range(9))
    groups = tuple(
        GroupTime(call.group, us * 1e-6, 1.0, 1.0, 1.0, 1.0, "memory", 0.5) for call in tuned.variants[name].calls
    )
    interval = Interval(us * 1e-6, us * 1e-6, us * 1e-6, 9)
    return VariantMeasurement(name, True, len(groups), 0, RIGHT, interval, interval, groups, samples)


def _settings(tmp_path: Path) -> Settings:
    return Settings(target=resolve("llvm"), store=Store(tmp_path))


def test_the_faster_variant_becomes_the_plan(tuned: Tuned, tmp_path: Path) -> None:
    times = {"unfused": 50, "greedy": 60, "planned": 100}
    variants = [_measured(name, tuned, us) for name, us in times.items()]
    followed, after = follow_fastest(tuned, variants, _settings(tmp_path))
    planned = next(one for one in after if one.name == "planned")
    assert planned.samples == variants[0].samples
    assert [len(group.nodes) for group in followed.plan.groups] == [1, 1]
    assert [one.group for one in planned.groups] == [group.id for group in followed.plan.groups]
    assert set(followed.variants["planned"].workloads) == set(tuned.variants["unfused"].workloads)
    assert "taken from unfused" in followed.plan.decisions[-1].reason


@pytest.mark.parametrize("planned_us", [40, 50])
def test_a_plan_that_does_not_lose_stays(tuned: Tuned, tmp_path: Path, planned_us: float) -> None:
    variants = [_measured("unfused", tuned, 50), _measured("planned", tuned, planned_us)]
    followed, after = follow_fastest(tuned, variants, _settings(tmp_path))
    assert followed is tuned
    assert after == tuple(variants)


def test_a_given_plan_and_a_wrong_rival_change_nothing(tuned: Tuned, tmp_path: Path) -> None:
    variants = [_measured("unfused", tuned, 50), _measured("planned", tuned, 100)]
    given = replace(_settings(tmp_path), plan=tuned.plan)
    assert follow_fastest(tuned, variants, given)[0] is tuned
    wrong = [replace(variants[0], status="wrong", samples=()), variants[1]]
    assert follow_fastest(tuned, wrong, _settings(tmp_path))[0] is tuned
