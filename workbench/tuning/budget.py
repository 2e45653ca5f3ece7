"""How a budget is spread over tasks, and what is known of that before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..store.record import Record
from ..tvm_seam import tvm_version
from .finals import needed
from .storage import TuningStore, best_of, is_mark, trials_of
from .task import Budget, Task

MIN_TRIALS = 8  # fewer tell nothing about a space
MAX_TRIALS = 2048  # of one task, where the budget names no number
SECONDS_PER_TRIAL = 0.4  # search, build, check and measurement on two cores; only for estimates before the start


@dataclass(frozen=True)
class PlannedTask:
    """What one task gets. ``share`` is its part of the whole, ``seconds`` that part of the job's minutes."""

    task: Task
    share: float
    trials: int  # all that its search may hold, those in the store included
    stored: int  # trials that the store has already; 0 where all of them failed, since the cause may be gone
    seconds: float | None
    cached: bool  # nothing needs to be tried
    finals: bool = False  # the store has trials that no finals have looked at
    most: int = 0  # trials that the task may have where all share one budget, those in the store included

    @property
    def most_left(self) -> int:
        """Trials that it may still get where all share one budget."""
        return 0 if self.cached else max(0, self.most - self.stored)

    @property
    def trials_left(self) -> int:
        """Trials still to be made."""
        return 0 if self.cached else max(0, self.trials - self.stored)


@dataclass(frozen=True)
class Preflight:
    """What a budget will and will not do, said before the first trial."""

    tasks: tuple[PlannedTask, ...]
    uncovered: str  # what the budget cannot cover; "" when it covers everything
    pool: int | None = None  # trials that all tasks together may still make, where there is such a limit

    @property
    def trials(self) -> int:
        """Trials to be made, over all tasks."""
        left = sum(planned.trials_left for planned in self.tasks)
        return left if self.pool is None else min(left, self.pool)

    @property
    def work(self) -> bool:
        """Whether a device is needed."""
        return any(planned.trials_left or planned.finals for planned in self.tasks)

    @property
    def message(self) -> str:
        """One line for people."""
        todo = [planned.trials_left for planned in self.tasks if planned.trials_left]
        hits = sum(planned.cached for planned in self.tasks)
        tasks = f"{len(self.tasks)} task{'s' * (len(self.tasks) != 1)}"
        if not todo:
            return f"{tasks}, no trials: every one is in the store (hit)" + self._end
        each = f"{min(todo)}" if min(todo) == max(todo) else f"{min(todo)} to {max(todo)}"
        stored = f", {hits} in the store (hit)" if hits else ""
        shared = (
            " or more where they gain more"
            if self.pool is not None and len(todo) > 1 and min(todo) >= MIN_TRIALS
            else ""
        )
        return f"{tasks}, {each} trial{'s' * (each != '1')} each{shared}, {self.trials} in all{stored}{self._end}"

    @property
    def _end(self) -> str:
        return f"; {self.uncovered}" if self.uncovered else ""


def preflight(
    tasks: Sequence[Task], budget: Budget, store: TuningStore, searchable: Sequence[bool] | None = None
) -> Preflight:
    """Spreads a budget and looks up what the store has; changes nothing.

    ``searchable``: which tasks have a space; the others get one trial, for the default schedule. Default: all have.
    """
    flags = [True] * len(tasks) if searchable is None else list(searchable)
    shares, limits = task_shares(tasks), [None if flag else 1 for flag in flags]
    trials = spread_trials(shares, budget, limits)
    most = spread_trials(shares, replace(budget, trials=None, minutes=budget.minutes or 1.0), limits)
    planned = []
    for task, share, count, cap in zip(tasks, shares, trials, most, strict=True):
        nominal = None if budget.nominal_minutes is None else budget.nominal_minutes * 60 * share
        records = store.records(task.workload.key, task.target.key, tvm_version())
        stored = len(trials_of(records)) if best_of(records) is not None else 0
        # What others leave of a common number may be this task's, so that only the end of its space covers it.
        enough = count if budget.trials is None else cap
        covered = is_covered(records, enough, nominal, budget.until)
        planned.append(PlannedTask(task, share, count, stored, nominal, covered, needed(records), cap))
    return _shared(planned, budget)


def _shared(planned: Sequence[PlannedTask], budget: Budget) -> Preflight:
    """With one number of trials for all: what is left of it, and nothing to do where the tasks have that many."""
    if budget.trials is None:
        return Preflight(tuple(planned), _uncovered(planned, budget))
    new = sum(item.stored == 0 and item.trials > 0 for item in planned)
    pool = max(budget.trials - sum(item.stored for item in planned), min(MIN_TRIALS * new, budget.trials))
    if pool == 0:
        planned = [replace(item, cached=True) for item in planned]
    return Preflight(tuple(planned), _uncovered(planned, budget), pool)


def task_shares(tasks: Sequence[Task]) -> list[float]:
    """Each task's part of the whole: half of it equal, half by weight * cost.

    Cost is arithmetic plus memory traffic (10 flops a byte, a usual machine balance), so that a group that only moves
    data counts too. The equal half keeps every task from starving. Sums to 1.
    """
    costs = [task.weight * (task.workload.flops + 10.0 * task.workload.bytes) for task in tasks]
    total = sum(costs)
    equal = 1.0 / len(costs) if costs else 0.0
    return [0.5 * equal + 0.5 * (cost / total if total > 0 else equal) for cost in costs]


def spread_trials(shares: Sequence[float], budget: Budget, limits: Sequence[int | None] | None = None) -> list[int]:
    """Trials per task: at least MIN_TRIALS where the total allows it, else the largest tasks first.

    ``limits``: the most that single tasks can use. Sums to ``budget.trials``, or to what all may use if that is less.

    >>> spread_trials([0.75, 0.25], Budget(trials=40))
    [30, 10]
    >>> spread_trials([0.75, 0.25], Budget(trials=10))
    [8, 2]
    """
    each = budget.trials_per_task or MAX_TRIALS
    caps = [each if limit is None else min(each, limit) for limit in limits or [None] * len(shares)]
    if budget.trials is None:
        return caps
    left = min(budget.trials, sum(caps))
    order = sorted(range(len(shares)), key=lambda index: (-shares[index], index))
    trials = [0] * len(shares)
    for index in order:
        trials[index] = min(MIN_TRIALS, caps[index], left)
        left -= trials[index]
    total = sum(trials) + left
    for _ in range(left):  # the task that is furthest behind its share gets the next trial
        open_ = [index for index in order if trials[index] < caps[index]]
        trials[max(open_, key=lambda index: shares[index] * total - trials[index])] += 1
    return trials


def is_covered(records: Sequence[Record], trials: int, allotted_s: float | None, until: float | None = None) -> bool:
    """Whether stored records make a search of this size needless.

    They do when something worked and either the trials are there, the space was searched to its end, a search that
    was given at least as much time has ended for want of time, or one that was to go on until a minute was worth no
    more per cent than ``until`` has ended for that.
    """
    if best_of(records) is None:
        return False
    if len(trials_of(records)) >= trials:
        return True
    for mark in filter(is_mark, records):
        given = mark.schedule.data.get("allotted_s")
        if mark.schedule.data.get("reason") == "exhausted":
            return True
        worth = mark.schedule.data.get("worth")
        if worth is not None and until is not None and worth <= until:
            return True
        if given is not None and allotted_s is not None and given >= 0.999 * allotted_s:
            return True
    return False


def _uncovered(planned: Sequence[PlannedTask], budget: Budget) -> str:
    todo = [item for item in planned if not item.cached]
    lines = []
    none = [item.task.workload.label for item in todo if item.trials == 0]
    if none:
        lines.append(f"{budget.trials} trials are too few for {len(none)} tasks, which keep the default: {_some(none)}")
    if budget.minutes is not None and budget.trials_per_task is not None:
        wanted = sum(item.trials_left for item in todo)
        allowed = int(budget.minutes * 60 / SECONDS_PER_TRIAL)
        if wanted > allowed:
            lines.append(f"{budget.minutes:g} minutes are enough for about {allowed} of these trials")
    return "; ".join(lines)


def _some(names: Sequence[str], limit: int = 3) -> str:
    rest = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {rest} more" if rest > 0 else "")
