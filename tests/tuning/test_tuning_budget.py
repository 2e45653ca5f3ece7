"""Budgets: what is refused, how trials are spread, and what is said before the start."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tuning_tasks import plain_task

from workbench.errors import BudgetError
from workbench.tuning import Budget, MemoryStore, preflight, tune_tasks
from workbench.tuning.budget import MIN_TRIALS, spread_trials, task_shares
from workbench.tuning.builders import FakeBuilder
from workbench.tuning.runners import FakeRunner
from workbench.tuning.strategies.fake import GridStrategy


@pytest.mark.parametrize("limits", [{"trials": 0}, {"trials": -3}, {"trials_per_task": 0}, {"minutes": 0}])
def test_a_budget_that_allows_nothing_is_refused(limits: dict[str, int]) -> None:
    with pytest.raises(BudgetError, match=r"--(trials|trials-per-task|minutes) -?\d+ allows no trial"):
        Budget(**limits)


def test_no_limit_at_all_is_refused() -> None:
    with pytest.raises(BudgetError, match="no budget"):
        Budget(trials=None, trials_per_task=None, minutes=None)


@given(
    st.lists(st.floats(0.01, 1.0), min_size=1, max_size=20),
    st.integers(1, 500),
    st.one_of(st.none(), st.integers(1, 64)),
)
def test_spreading_uses_the_whole_total_and_no_more(weights: list[float], total: int, cap: int | None) -> None:
    shares = [weight / sum(weights) for weight in weights]
    trials = spread_trials(shares, Budget(trials=total, trials_per_task=cap))
    most = (cap or 2048) * len(shares)
    assert sum(trials) == min(total, most)
    assert all(0 <= count <= (cap or 2048) for count in trials)
    if total >= MIN_TRIALS * len(shares):
        assert min(trials) >= min(MIN_TRIALS, cap or MIN_TRIALS)


def test_larger_tasks_get_more() -> None:
    tasks = [plain_task("a", flops=1e9), plain_task("b", flops=1e8), plain_task("c", flops=1e8, weight=20)]
    shares = task_shares(tasks)
    assert sum(shares) == pytest.approx(1)
    assert shares[2] > shares[0] > shares[1]
    trials = spread_trials(shares, Budget(trials=300, trials_per_task=None))
    assert trials[2] > trials[0] > trials[1] >= MIN_TRIALS


def test_preflight_says_what_the_budget_cannot_cover() -> None:
    tasks = [plain_task(chr(97 + index)) for index in range(5)]
    plan = preflight(tasks, Budget(trials=10), MemoryStore())
    assert [item.trials_left for item in plan.tasks] == [8, 2, 0, 0, 0]
    assert plan.message.startswith("5 tasks, 2 to 8 trials each, 10 in all")
    assert "10 trials are too few for 3 tasks" in plan.message
    short = preflight(tasks, Budget(minutes=0.1), MemoryStore())
    assert "0.1 minutes are enough for about 15 of these trials" in short.message
    assert preflight(tasks, Budget(), MemoryStore()).uncovered == ""
    one = preflight(tasks[:1], Budget(trials_per_task=1), MemoryStore())
    assert one.message == "1 task, 1 trial each, 1 in all"


def test_preflight_counts_what_is_stored() -> None:
    store = MemoryStore()
    first = [plain_task("a")]
    tune_tasks(
        first, Budget(trials_per_task=12), store=store, builder=FakeBuilder(), runner=FakeRunner(),
        chooser=lambda task: GridStrategy,
    )  # fmt: skip
    plan = preflight([*first, plain_task("b")], Budget(trials_per_task=12), store)
    assert [(item.cached, item.trials_left) for item in plan.tasks] == [(True, 0), (False, 12)]
    assert "1 in the store (hit)" in plan.message
    more = preflight(first, Budget(trials_per_task=20), store)
    assert [(item.cached, item.trials_left) for item in more.tasks] == [(False, 8)]
