"""Tuning a plan: its own groups, and those of the variants that it is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..faces import Face
from ..fusion import FusionPlan, revise
from ..fusion import plan as make_plan
from ..kernels import LoweredModel, lower, lower_greedy
from ..models import Model
from ..store import ScheduleSpec, Store
from ..targets import Target
from ..tuning import Budget, TuneResult, make_tasks, tune_tasks
from ..tvm_seam import tvm_version
from ._settings import DEFAULT_SCHEDULE, Settings

# Rounds of "tune, look at what was measured, split what did not pay": the second settles what the first split.
REVISIONS = 3


@dataclass(frozen=True)
class Tuned:
    """The plan as it was after tuning, the variants lowered, and what the search found."""

    plan: FusionPlan
    variants: Mapping[str, LoweredModel]
    result: TuneResult


def tune_plan(model: Model, plan: FusionPlan, settings: Settings, face: Face, extremes: bool = True) -> Tuned:
    """Tunes a plan's groups, and those of `unfused` and `greedy`; splits groups that cannot be scheduled or do not pay.

    With ``extremes=False`` only the plan's own groups are tuned.
    """
    variants: dict[str, LoweredModel] = {}
    if extremes:
        unfused = make_plan(plan.graph, settings.target, rules=(), planner="unfused")
        variants = {"unfused": lower(model, unfused, "unfused"), "greedy": lower_greedy(model)}
    variants["planned"] = lower(model, plan, "planned")
    result = _tune(variants, settings, settings.budget, face)
    for _ in range(REVISIONS):
        if settings.plan is not None or not result.complete:
            break
        measured, failed = evidence(variants, result)
        revised = revise(plan, settings.target, measured, failed)
        changed = partition(revised) != partition(plan)
        plan = revised
        if not changed:
            break
        face.stage(f"plan revised on what was measured: {len(plan.groups)} groups")
        tuned = retune(model, plan, Tuned(plan, variants, result), settings, face)
        variants, result = dict(tuned.variants), tuned.result
    return Tuned(plan, variants, result)


def retune(model: Model, plan: FusionPlan, tuned: Tuned, settings: Settings, face: Face) -> Tuned:
    """The same variants with another plan; only groups that no variant had before cost trials."""
    variants = {**tuned.variants, "planned": lower(model, plan, "planned")}
    result = _tune(variants, settings, _rest(settings.budget, tuned.result), face)
    return Tuned(plan, variants, _merge(tuned.result, result))


def _tune(variants: Mapping[str, LoweredModel], settings: Settings, budget: Budget, face: Face) -> TuneResult:
    tasks = make_tasks(variants, settings.target)
    return tune_tasks(tasks, budget, store=settings.store, on_event=face.event, jobs=settings.jobs)


def partition(plan: FusionPlan) -> frozenset[tuple[frozenset[str], str | None]]:
    return frozenset((frozenset(group.nodes), group.rewrite) for group in plan.groups)


def _rest(budget: Budget, used: TuneResult) -> Budget:
    """What is left of a budget; never nothing, since a new group needs at least its default schedule measured."""
    return replace(
        budget,
        trials=None if budget.trials is None else max(budget.trials - used.trials, 1),
        minutes=None if budget.minutes is None else max(budget.minutes - used.seconds / 60, 0.05),
        of_minutes=budget.nominal_minutes,
    )


def _merge(first: TuneResult, second: TuneResult) -> TuneResult:
    """Both results as one: a task that the second found in the store keeps what the first saw of its search."""
    earlier = {item.task.workload.key: item for item in first.results}
    merged = {item.task.workload.key: item for item in second.results}
    for key, item in earlier.items():
        merged[key] = replace(item, task=merged[key].task) if key in merged else item
    return replace(
        second,
        results=tuple(merged.values()),
        seconds=first.seconds + second.seconds,
        trials=first.trials + second.trials,
    )


def evidence(
    variants: Mapping[str, LoweredModel], result: TuneResult
) -> tuple[dict[frozenset[str], float], dict[frozenset[str], str]]:
    """Measured seconds of each set of nodes that is a kernel in some variant, and the sets that nothing scheduled."""
    measured: dict[frozenset[str], float] = {}
    failed: dict[frozenset[str], str] = {}
    by_key = {item.task.workload.key: item for item in result.results}
    for lowered in variants.values():
        for call in lowered.calls:
            found = by_key.get(call.workload)
            if not call.nodes or found is None:
                continue
            nodes = frozenset(call.nodes)
            if found.best is not None:
                measured[nodes] = found.best.median_s
            elif len(nodes) > 1 and found.records:  # a group that nobody tried is no evidence
                failed[nodes] = found.note or "no candidate worked"
            elif found.default_s is not None:
                measured[nodes] = found.default_s
    return measured, failed


def schedules(result: TuneResult) -> dict[str, ScheduleSpec]:
    """The schedule that each tuned workload is compiled with."""
    return {
        item.task.workload.key: item.best.schedule if item.best is not None else DEFAULT_SCHEDULE
        for item in result.results
    }


def stored_schedules(lowered: LoweredModel, target: Target, store: Store) -> dict[str, ScheduleSpec]:
    """The best schedule that the store has for each workload; the default where it has none."""
    chosen = {}
    for key in lowered.workloads:
        best = store.best(key, target.key, tvm_version())
        chosen[key] = DEFAULT_SCHEDULE if best is None else best.schedule
    return chosen
