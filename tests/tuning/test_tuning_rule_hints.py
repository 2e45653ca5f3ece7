"""TOPI's hints at GPU schedule rules cost the CPU's search neither warnings nor trials."""

from __future__ import annotations

import pytest

from workbench.fusion import plan
from workbench.graph import from_model
from workbench.kernels import lower, schedule_workload
from workbench.models import zoo
from workbench.targets import resolve
from workbench.tuning import make_tasks
from workbench.tuning.strategies.metaschedule import MetaScheduleStrategy


def test_a_max_pool_is_searched_without_a_warning_and_its_traces_replay(capfd: pytest.CaptureFixture[str]) -> None:
    model, target = zoo.build("pool_add", channels=4, size=8), resolve("llvm")
    lowered = lower(model, plan(from_model(model), target, rules=(), planner="unfused"), "unfused")
    task = next(task for task in make_tasks({"unfused": lowered}, target) if "nn.max_pool2d" in task.workload.ops)
    assert "schedule_rule" in task.workload.module.script()
    strategy = MetaScheduleStrategy(task, 0, ())
    candidates = strategy.ask(4)
    assert candidates
    for candidate in candidates:
        schedule_workload(task.workload, target, candidate.schedule)
    strategy.close()
    assert "Unknown schedule rule" not in capfd.readouterr().err
