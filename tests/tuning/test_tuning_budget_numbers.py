"""Numbers that are no budget."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from workbench.errors import BudgetError
from workbench.job import Settings
from workbench.store import Store
from workbench.targets import resolve
from workbench.tuning import Budget


@pytest.mark.parametrize("minutes", [math.inf, math.nan, -1.0])
def test_minutes_must_be_a_finite_time(minutes: float) -> None:
    with pytest.raises(BudgetError, match="--minutes"):
        Budget(minutes=minutes)


@pytest.mark.parametrize("seed", [-1, 2**31, 2**80])
def test_a_seed_that_the_generators_do_not_take_is_refused(seed: int) -> None:
    with pytest.raises(BudgetError, match="--seed"):
        Budget(seed=seed)


@pytest.mark.parametrize("seconds", [math.inf, math.nan, 0.0, -3.0])
def test_measuring_takes_a_finite_time(seconds: float, tmp_path: Path) -> None:
    with Store(tmp_path) as store, pytest.raises(BudgetError, match="--measure-seconds"):
        Settings(target=resolve("llvm"), store=store, measure_s=seconds)
