"""From the stages' results to a run: a pure function."""

from __future__ import annotations

import datetime
import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .. import __version__
from .document import (
    BudgetPart,
    CachePart,
    DecisionPart,
    FactorsPart,
    GroupMeasured,
    GroupPart,
    PlanPart,
    PredictionsPart,
    TaskPart,
    TrialPart,
)
from .parts import US, environment_part, finite, is_usable, model_part, target_part, variant_part
from .run import Run

if TYPE_CHECKING:  # types alone: reading and comparing stored runs must not pay for TVM
    from ..fusion.plan import Decision, Factors, FusionPlan
    from ..kernels import CacheReport
    from ..kernels.workload import LoweredModel
    from ..measure.measurement import GroupTime, VariantMeasurement
    from ..models import Model
    from ..store.record import Record, ScheduleSpec
    from ..targets import Target
    from ..tuning.task import Budget, TaskResult, TuneResult


def build_run(
    *,
    model: Model,
    plan: FusionPlan,
    target: Target,
    tune: TuneResult | None,
    measurements: Iterable[VariantMeasurement],
    lowered: Mapping[str, LoweredModel] | Iterable[LoweredModel],
    budget: Budget,
    environment: Mapping[str, Any],
    command: str,
    timings: Mapping[str, float],
    reference: str,
    cache: CacheReport | None = None,
    strategy: str = "",
    nominal: Target | None = None,
    complete: bool = True,
    incomplete_reason: str = "",
    notes: Iterable[str] = (),
    plan_path: str | None = "plan.json",
    plan_svg: str | None = None,
    predictions: PredictionsPart | None = None,
    created: str | None = None,
) -> Run:
    """The run that these results make.

    ``target`` carries the measured peaks, ``nominal`` the same target before they were measured. ``lowered`` holds
    the partitioned models that the variants were built from ("unfused", "greedy", "planned"; a name like
    "unfused-untuned" belongs to "unfused"). ``timings``: seconds of each stage. ``plan_svg``: the drawn plan, default
    drawn here. ``predictions``: how good the plan's cost model was. ``created``: ISO 8601 in UTC, default now. A run
    that tuning or timing left incomplete is incomplete, whatever ``complete`` says.
    """
    measured = tuple(measurements)
    greedy = next((one for one in measured if one.name == "greedy" and is_usable(one)), None)
    models = dict(lowered) if isinstance(lowered, Mapping) else {one.name: one for one in lowered}
    if tune is not None and not tune.complete and complete:
        complete, incomplete_reason = False, tune.incomplete_reason
    if complete and any(one.stopped == "interrupted" for one in measured):
        complete, incomplete_reason = False, "timing was interrupted"
    return Run(
        workbench=__version__,
        created=created or datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        command=command,
        complete=complete,
        incomplete_reason=incomplete_reason,
        model=model_part(model),
        target=target_part(target, nominal),
        environment=environment_part(environment),
        budget=BudgetPart(
            trials=budget.trials,
            trials_per_task=budget.trials_per_task,
            minutes=budget.nominal_minutes,
            until=budget.until,
            seed=budget.seed,
            strategy=strategy,
        ),
        plan=_plan(plan, models.get("planned"), plan_path).model_copy(update={"predictions": predictions}),
        tasks=tuple(task_part(result) for result in tune.results) if tune is not None else (),
        variants=tuple(variant_part(one, greedy) for one in measured),
        groups_measured=tuple(_group_time(one.name, group, models) for one in measured for group in one.groups),
        reference=reference,
        cache=CachePart() if cache is None else CachePart(hits=cache.hits, builds=cache.builds),
        timings_s={stage: float(seconds) for stage, seconds in timings.items()},
        notes=tuple(notes),
        plan_svg=plan_svg if plan_svg is not None else _drawn(plan),
    )


def _drawn(plan: FusionPlan) -> str:
    from ..fusion.drawing import draw_svg

    return draw_svg(plan)


def _plan(plan: FusionPlan, planned: LoweredModel | None, path: str | None) -> PlanPart:
    workloads = {call.group: call.workload for call in planned.calls} if planned is not None else {}
    return PlanPart(
        path=path,
        planner=plan.planner,
        objective=plan.objective,
        cost_model=plan.cost_model,
        search=plan.search,
        rules=plan.rules,
        groups=tuple(
            GroupPart(
                id=group.id,
                nodes=group.nodes,
                ops=group.ops,
                rule=group.rule,
                kind=group.kind,
                reason=group.reason,
                predicted_us=finite(group.predicted_us),
                workload=group.workload or workloads.get(group.id),
                rewrite=group.rewrite,
            )
            for group in plan.groups
        ),
        decisions=tuple(_decision(decision) for decision in plan.decisions),
    )


def _times(times: Mapping[str, float]) -> dict[str, float]:
    return {name: float(us) for name, us in times.items() if finite(us) is not None}


def _ranges(ranges: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    return {name: (float(low), float(high)) for name, (low, high) in ranges.items() if math.isfinite(low + high)}


def _decision(decision: Decision) -> DecisionPart:
    return DecisionPart(
        boundary=decision.boundary,
        rule=decision.rule,
        verdict=decision.verdict,
        predicted_us=_times(decision.predicted_us),
        measured_us=None if decision.measured_us is None else _times(decision.measured_us),
        factors=None if decision.factors is None else _factors(decision.factors),
        reason=decision.reason,
        nodes=decision.nodes,
        category=decision.category,
        predicted_range_us=_ranges(decision.predicted_range_us),
        measured_range_us=_ranges(decision.measured_range_us),
        expected=decision.expected,
        measured_in=decision.measured_in,
        beside_us=_times(decision.beside_us),
    )


def _factors(factors: Factors) -> FactorsPart:
    return FactorsPart(
        bytes_saved=factors.bytes_saved,
        launches_saved=factors.launches_saved,
        intensity_before=finite(factors.intensity_before),
        intensity_after=finite(factors.intensity_after),
        recompute=finite(factors.recompute),
        parallelism=factors.parallelism,
        pressure=finite(factors.pressure),
        recomputed_flops=finite(factors.recomputed_flops),
        level=factors.level,
        bound_before=factors.bound_before,
        bound_after=factors.bound_after,
        compile_s=finite(factors.compile_s),
        arguments=factors.arguments,
    )


def schedule_source(schedule: ScheduleSpec | None) -> str:
    """Where a schedule comes from, in words: "search: NAME", "library: NAME" or "default"."""
    if schedule is None or schedule.kind == "default":
        return "default"
    kind = "search" if schedule.kind == "trace" else schedule.kind
    return f"{kind}: {schedule.name}" if schedule.name else kind


def schedule_id(schedule: ScheduleSpec | None) -> str:
    """Twelve hexadecimal digits that two equal schedules share."""
    if schedule is None:
        return "default"
    text = json.dumps(schedule.to_json(), sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _trial(record: Record) -> TrialPart:
    return TrialPart(
        trial=record.trial,
        elapsed_s=record.elapsed_s,
        status=record.status,
        median_us=finite(record.median_s * US),
    )


def task_part(result: TaskResult) -> TaskPart:
    """A task as the run keeps it."""
    workload, best = result.task.workload, result.best
    seconds = best.seconds if best is not None else ()
    median = finite(best.median_s) if best is not None else None
    return TaskPart(
        workload=workload.key,
        ops=workload.ops,
        shapes=workload.shapes,
        weight=result.task.weight,
        variants=result.task.variants,
        trials=result.trials,
        failed=dict(result.failed),
        best_us=None if median is None else median * US,
        low_us=min(seconds) * US if seconds else None,
        high_us=max(seconds) * US if seconds else None,
        default_us=None if finite(result.default_s) is None else float(result.default_s or 0.0) * US,
        gflops=workload.flops / median / 1e9 if median else None,
        schedule_source=schedule_source(best.schedule if best is not None else None),
        schedule_id=schedule_id(best.schedule if best is not None else None),
        cached=result.cached,
        model_rank_correlation=finite(result.rank_correlation),
        note=result.note,
        history=tuple(_trial(record) for record in result.records),
    )


def _group_time(variant: str, group: GroupTime, models: Mapping[str, LoweredModel]) -> GroupMeasured:
    model = models.get(variant) or models.get(variant.removesuffix("-untuned"))
    calls = model.calls if model is not None else ()
    call = next((one for one in calls if group.group in (one.group, one.function)), None)
    return GroupMeasured(
        variant=variant,
        id=group.group,
        latency_us=group.latency_s * US,
        share=group.share,
        gflops=finite(group.gflops),
        gbps=finite(group.gbps),
        arithmetic_intensity=finite(group.arithmetic_intensity),
        bound=group.bound,
        peak_fraction=finite(group.peak_fraction),
        ops=call.ops if call is not None else (),
        workload=call.workload if call is not None else None,
    )
