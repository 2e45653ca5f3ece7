"""Predict, measure, greedy, unfused: who decides, and on what. The device is a fake one with known times."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import workbench as wb
from workbench.errors import PlanError
from workbench.faces import SilentFace
from workbench.fusion import Constraints
from workbench.fusion.cost_models import CostModel, Prediction
from workbench.fusion.handover import CALL_SECONDS
from workbench.graph import from_model
from workbench.job import Settings, Tuned, plan_for, tune_plan
from workbench.job._predictions import predictions_of
from workbench.kernels import lower_greedy
from workbench.models import zoo
from workbench.store import Store
from workbench.targets import resolve
from workbench.tuning import Budget, Task, tune_tasks
from workbench.tuning.builders.fake import FakeBuilder
from workbench.tuning.runners._base import BuildResult, RunResult
from workbench.tuning.runners.fake import FakeRunner

US = 1e-6


class Device(FakeRunner):
    """Takes as long for a kernel as the table says for its number of operators."""

    def __init__(self, microseconds: Mapping[int, float]) -> None:
        super().__init__()
        self.microseconds = microseconds
        self.kernels: list[int] = []

    def run(self, task: Task, builds: Sequence[BuildResult]) -> list[RunResult]:
        size = len(task.workload.ops)
        self.kernels.append(size)
        return [RunResult("ok", (self.microseconds[size] * US,) * 3, "", 0.0) for _ in builds]


class Guess(CostModel):
    """Predicts by the number of operators, and is off by a factor of two at most."""

    name = "guess"

    def __init__(self, microseconds: Mapping[int, float]) -> None:
        self.microseconds = microseconds

    def predict(self, graph, kernels, target):
        found = [self.microseconds[len(tuple(nodes))] * US for nodes in kernels]
        return [Prediction(seconds, seconds / 2, seconds * 2) for seconds in found]


Tune = Callable[..., tuple[Tuned, Device, Settings]]


@pytest.fixture
def tune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tune:
    """Tunes ``sigmoid(x + y) * y`` with these predictions, on a device with these times."""

    def run(guess: Mapping[int, float], truth: Mapping[int, float], **wishes: object) -> tuple[Tuned, Device, Settings]:
        device = Device(truth)
        faked = functools.partial(tune_tasks, builder=FakeBuilder(), runner=device)
        monkeypatch.setattr("workbench.job._search.tune_tasks", faked)
        monkeypatch.setattr("workbench.fusion.planners._pool.beside", lambda graph, nodes, target: CALL_SECONDS)
        model = zoo.build("elementwise_chain", rows=8, cols=8)
        graph, store = from_model(model), Store(tmp_path)
        settings = Settings(target=resolve("llvm"), store=store, budget=Budget(trials_per_task=1), model=Guess(guess))
        settings = replace(settings, **wishes)  # type: ignore[arg-type]
        made = plan_for(model, graph, settings)
        return tune_plan(model, made, settings, SilentFace()), device, settings

    return run


def sizes(tuned: Tuned) -> list[int]:
    return [len(group.nodes) for group in tuned.plan.groups]


OPEN = {1: 8, 2: 20, 3: 30}  # apart 24, fused 30: within a factor of two of each other


def test_what_the_prediction_leaves_open_is_tuned_and_the_measurement_decides(tune: Tune) -> None:
    tuned, _, settings = tune(OPEN, {1: 8, 2: 20, 3: 10})
    assert sizes(tuned) == [3]
    decision = next(d for d in tuned.plan.decisions if len(d.nodes) == 3)
    assert (decision.verdict, decision.category, decision.expected) == ("fuse", "fused", "split")
    assert decision.measured_us == pytest.approx({"fused": 10, "unfused": 24})
    assert decision.measured_in == "kernel"
    scores = predictions_of(tuned.plan.graph, tuned.evidence, settings)
    assert scores is not None
    assert scores.here is not None
    assert scores.here.kernels >= 5
    assert scores.model == "guess"


def test_a_fusion_that_was_predicted_and_does_not_pay_is_given_up(tune: Tune) -> None:
    tuned, _, _ = tune({1: 8, 2: 9, 3: 9}, {1: 8, 2: 30, 3: 40})
    assert sizes(tuned) == [1, 1, 1]
    decision = next(d for d in tuned.plan.decisions if len(d.nodes) == 3)
    assert (decision.verdict, decision.category, decision.expected) == ("split", "measured slower", "fuse")


def test_prediction_alone_measures_nothing_but_its_own_plan_and_the_variants(tune: Tune) -> None:
    tuned, device, _ = tune(OPEN, {1: 8, 2: 20, 3: 10}, planner="predict")
    assert sizes(tuned) == [1, 1, 1]  # though fused is faster
    assert not tuned.alternatives
    assert 2 not in device.kernels


def test_what_cannot_win_is_not_tuned(tune: Tune) -> None:
    tuned, device, _ = tune({1: 8, 2: 100, 3: 200}, {1: 8, 2: 20, 3: 10})
    assert 2 not in device.kernels
    assert sizes(tuned) == [3]  # FuseOps has this group, so it was measured all the same


def test_where_time_is_short_the_variants_have_all_of_it(tune: Tune) -> None:
    _, device, _ = tune(OPEN, {1: 8, 2: 20, 3: 10}, budget=Budget(trials_per_task=1, minutes=0.5))
    assert 2 not in device.kernels
    _, device, _ = tune(OPEN, {1: 8, 2: 20, 3: 10}, budget=Budget(trials_per_task=2, minutes=20))
    assert 2 in device.kernels


def test_measuring_keeps_what_a_person_wants(tune: Tune) -> None:
    tuned, device, _ = tune(OPEN, {1: 8, 2: 20, 3: 10}, constraints=Constraints(max_nodes=1))
    assert sizes(tuned) == [1, 1, 1]
    assert 2 not in device.kernels


def test_greedy_is_tvms_partition(tmp_path: Path) -> None:
    model = zoo.build("pool_add", channels=2, size=8)
    made = wb.plan(model, planner="greedy", store=tmp_path)
    wanted = [frozenset(call.nodes) for call in lower_greedy(model).calls]
    assert {frozenset(group.nodes) for group in made.groups} == set(wanted)
    assert {group.rule for group in made.groups if len(group.nodes) > 1} == {"FuseOps"}
    assert made.planner == "greedy"


def test_an_unknown_planner_or_cost_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="planner 'magic' is not known; give one of measure, predict, greedy, unfused"):
        wb.plan("gelu", planner="magic", store=tmp_path)
    with pytest.raises(PlanError, match="cost model 'oracle' is not known; give one of auto, analytic"):
        wb.plan("gelu", cost_model="oracle", store=tmp_path)


def test_a_measured_plan_comes_from_real_trials(tmp_path: Path) -> None:
    model = zoo.build("elementwise_chain", rows=64, cols=64)
    made = wb.plan(model, planner="measure", trials_per_task=1, store=tmp_path, quiet=True)
    decision = next(d for d in made.decisions if len(d.nodes) == 3)
    assert decision.measured_us is not None
    assert decision.measured_us["fused"] > 0
