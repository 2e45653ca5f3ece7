"""Variants that are one program are one executable, timed once and reported under both names."""

from __future__ import annotations

from pathlib import Path

import workbench as wb
from workbench.job import Settings, main_job
from workbench.models import zoo
from workbench.store import Store
from workbench.targets import resolve
from workbench.tuning import Budget


def test_planned_and_greedy_as_one_program(tmp_path: Path) -> None:
    """Both fuse the chain into one kernel; unfused is another program."""
    model = zoo.build("elementwise_chain", rows=16, cols=32)
    with Store(tmp_path) as store:
        settings = Settings(target=resolve("llvm"), store=store, budget=Budget(trials_per_task=1), measure_s=0.5)
        run = main_job(model, settings).run
    assert isinstance(run, wb.Run)
    planned, greedy, unfused = (run.variant(name) for name in ("planned", "greedy", "unfused"))
    assert planned.samples_us == greedy.samples_us
    assert planned.ratio_to_greedy.median == planned.ratio_to_greedy.low == planned.ratio_to_greedy.high == 1
    assert planned.samples_us != unfused.samples_us
    groups = {item.id for item in run.groups_measured if item.variant == "planned"}
    assert groups == {group.id for group in run.plan.groups}
