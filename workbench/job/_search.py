"""Tuning a plan: its own groups, and those of the variants that it is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..faces import Face
from ..fusion import Evidence, FusionPlan
from ..fusion import plan as make_plan
from ..kernels import LoweredModel, lower, lower_greedy
from ..models import Model
from ..store import ScheduleSpec, Store
from ..targets import Target
from ..tuning import Budget, TuneResult, make_tasks, tune_tasks
from ..tuning.strategies import chooser
from ..tvm_seam import tvm_version
from ._planning import NO_EVIDENCE, alternatives, evidence_of, only_failures, plan_for
from ._settings import DEFAULT_SCHEDULE, Settings

# Rounds of "tune, look at what was measured, split what did not pay": the second settles what the first split.
REVISIONS = 3


@dataclass(frozen=True)
class Tuned:
    """The plan as it was after tuning, the variants lowered, and what the search found.

    ``alternatives`` were tuned to settle close decisions; they are no variants.
    """

    plan: FusionPlan
    variants: Mapping[str, LoweredModel]
    result: TuneResult
    alternatives: Mapping[str, LoweredModel] = field(default_factory=dict)

    @property
    def evidence(self) -> Evidence:
        """All that is known of single kernels."""
        return evidence_of({**self.variants, **self.alternatives}, self.result)


def tune_plan(model: Model, plan: FusionPlan, settings: Settings, face: Face, extremes: bool = True) -> Tuned:
    """Tunes a plan's groups, and those of `unfused` and `greedy`; plans again on what was measured of single kernels.

    Groups that nothing schedules are given up by every planner. With the planner "measure", groups whose predictions
    leave the decision open are tuned as well, and measured times count instead of predicted ones. With
    ``extremes=False`` only the plan's own groups are tuned.
    """
    variants: dict[str, LoweredModel] = {}
    if extremes:
        unfused = make_plan(plan.graph, settings.target, rules=(), planner="unfused")
        variants = {"unfused": lower(model, unfused, "unfused"), "greedy": lower_greedy(model)}
    variants["planned"] = lower(model, plan, "planned")
    others: dict[str, LoweredModel] = {}
    if extremes:
        tasks = len({key for lowered in variants.values() for key in lowered.workloads})
        others = alternatives(model, plan.graph, settings, NO_EVIDENCE, tasks)
    result = _tune({**variants, **others}, settings, settings.budget, face)
    tuned = Tuned(plan, variants, result, others)
    for _ in range(REVISIONS):
        if settings.plan is not None or not tuned.result.complete:
            break
        known = tuned.evidence
        if settings.planner != "measure":
            known = only_failures(known)
        revised = plan_for(model, plan.graph, settings, known)
        if partition(revised) == partition(tuned.plan):
            tuned = replace(tuned, plan=revised)
            break
        face.stage(f"plan revised on what was measured: {len(revised.groups)} groups")
        tuned = retune(model, revised, tuned, settings, face)
    return tuned


def retune(model: Model, plan: FusionPlan, tuned: Tuned, settings: Settings, face: Face) -> Tuned:
    """The same variants with another plan; only groups that no variant had before cost trials."""
    variants = {**tuned.variants, "planned": lower(model, plan, "planned")}
    others = {**tuned.alternatives, **_outdated(tuned)}
    result = _tune({**variants, **others}, settings, _rest(settings.budget, tuned.result), face)
    return Tuned(plan, variants, _merge(tuned.result, result), others)


def _outdated(tuned: Tuned) -> dict[str, LoweredModel]:
    """The plan that was given up: its kernels are measured, and stay evidence."""
    earlier = sum(name.startswith("earlier plan") for name in tuned.alternatives)
    return {f"earlier plan {earlier + 1}": tuned.variants["planned"]}


def _tune(variants: Mapping[str, LoweredModel], settings: Settings, budget: Budget, face: Face) -> TuneResult:
    tasks = make_tasks(variants, settings.target)
    return tune_tasks(
        tasks,
        budget,
        store=settings.store,
        on_event=face.event,
        jobs=settings.jobs,
        chooser=chooser(settings.strategy),
    )


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
