"""One model under several limits on the size of a kernel: planned, built anew, checked, timed interleaved."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from .. import __version__
from ..errors import CheckError, KernelError, PlanError
from ..faces import Face, SilentFace
from ..fusion import FusionPlan
from ..fusion import plan as make_plan
from ..graph import Graph, from_model
from ..kernels import Executable, LoweredModel, compile_model, lower
from ..measure import VariantMeasurement, environment, measure_variants, reference_outputs
from ..measure.import_check import check_import
from ..measure.variants import BASE, VariantInput
from ..models import Model
from ..report.parts import environment_part, model_part, target_part, variant_part
from ..report.sweep import Sweep, SweepPoint, limit_name
from ..store import ScheduleSpec
from ..tuning import TuneResult, make_tasks, tune_tasks
from ..tvm_seam import own_core
from ._planning import plan_for
from ._search import partition, schedules
from ._settings import Settings, prepare, with_model, with_peaks


@dataclass(frozen=True)
class _Variant:
    """One plan, lowered; ``limits`` that gave it, in order."""

    name: str
    plan: FusionPlan
    lowered: LoweredModel
    limits: tuple[int | None, ...]

    @property
    def largest(self) -> int:
        return max(len(group.nodes) for group in self.plan.groups)


@dataclass(frozen=True)
class _Built:
    """An executable and the seconds that its kernels took to build, or why there is none."""

    executable: Executable | None = None
    compile_s: float | None = None
    error: str = ""


def sweep(model: Model, limits: Sequence[int | None], settings: Settings, face: Face | None = None) -> Sweep:
    """Plans once a limit (most operators in one kernel; None: no limit), and measures what each plan costs and gives.

    The limit 1, which is `unfused`, is always there. Every kernel is built and run in worker processes first, so that
    one that never compiles costs its time-out and its point, and no more; with ``trials_per_task`` above 1 it is tuned
    as well. Raises PlanError for a planner that measures by itself, CheckError when no point could be timed.
    """
    if settings.planner != "predict":
        raise PlanError(f"a sweep plans with 'predict', not '{settings.planner}'; give an --objective instead")
    face = face or SilentFace()
    prepare(settings)
    host = environment()
    settings = with_model(replace(settings, target=with_peaks(settings.target, settings.store)))
    model = replace(model, check=check_import(model, seed=settings.budget.seed))
    graph = from_model(model)
    variants = _variants(model, graph, _ordered(limits), settings)
    face.stage(f"{model.name}: {len(graph.nodes)} operators, {len(variants)} different plans")
    inputs = model.example_inputs(settings.budget.seed)
    reference = reference_outputs(model, graph, inputs, store=settings.store, seed=settings.budget.seed)
    tasks = make_tasks({one.name: one.lowered for one in variants}, settings.target)
    result = tune_tasks(tasks, settings.budget, store=settings.store, on_event=face.event, jobs=settings.jobs)
    chosen, failed = schedules(result), _failures(result)
    built: dict[str, _Built] = {}
    for one in variants:
        face.stage(f"building the kernels of {one.name}, without a cache")
        built[one.name] = _build(model, one.lowered, settings, chosen, failed)
    face.stage("checking every plan against the reference, then timing them interleaved")
    with own_core():
        measured = measure_variants(
            [_input(one, built[one.name]) for one in variants],
            inputs,
            reference,
            settings.target,
            seconds=settings.measure_s,
            seed=settings.budget.seed,
        )
    if all(one.latency is None for one in measured):
        raise CheckError(f"no limit gave a program that could be timed; the first error: {measured[0].error}")
    return Sweep(
        workbench=__version__,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        command=settings.command,
        incomplete_reason=_incomplete(result, measured),
        model=model_part(model),
        target=target_part(settings.target),
        environment=environment_part(host),
        objective=settings.objective,
        trials_per_task=settings.budget.trials_per_task or 1,
        points=_points(variants, built, measured),
    )


def _incomplete(result: TuneResult, measured: Sequence[VariantMeasurement]) -> str:
    if not result.complete:
        return result.incomplete_reason or "cut short"
    return "timing was interrupted" if any(one.stopped == "interrupted" for one in measured) else ""


def _points(
    variants: Sequence[_Variant], built: Mapping[str, _Built], measured: Sequence[VariantMeasurement]
) -> tuple[SweepPoint, ...]:
    """A point a limit, from small to none."""
    points = []
    for variant, measurement in zip(variants, measured, strict=True):
        part, first = variant_part(measurement), variant.limits[0]
        points += [
            SweepPoint(
                max_nodes=limit,
                kernels=part.kernels,
                largest=variant.largest,
                compile_s=built[variant.name].compile_s,
                intermediate_bytes=part.intermediate_bytes,
                latency_us=part.latency_us,
                ratio_to_unfused=part.ratio_to_unfused,
                same_as="" if limit == first else limit_name(first),
                status=part.status,
                message=part.message,
            )
            for limit in variant.limits
        ]
    return tuple(sorted(points, key=lambda point: _rank(point.max_nodes)))


def _rank(limit: int | None) -> float:
    return float("inf") if limit is None else limit


def _ordered(limits: Sequence[int | None]) -> list[int | None]:
    """Each limit once, 1 included, from small to none."""
    return sorted({1, *limits}, key=_rank)


def _variants(model: Model, graph: Graph, limits: Sequence[int | None], settings: Settings) -> list[_Variant]:
    """One a partition: limits that lead to the same kernels share everything that is measured."""
    found: dict[object, _Variant] = {}
    for limit in limits:
        if limit == 1:
            plan, name = make_plan(graph, settings.target, rules=(), planner="unfused"), BASE
        else:
            constraints = replace(settings.constraints, max_nodes=limit)
            plan = plan_for(model, graph, replace(settings, constraints=constraints))
            name = f"limit {limit_name(limit)}"
        key = partition(plan)
        if key in found:
            found[key] = replace(found[key], limits=(*found[key].limits, limit))
        else:
            found[key] = _Variant(name, plan, lower(model, plan, name), (limit,))
    return list(found.values())


def _build(
    model: Model,
    lowered: LoweredModel,
    settings: Settings,
    chosen: Mapping[str, ScheduleSpec],
    failed: Mapping[str, str],
) -> _Built:
    """The kernels built anew. One that the workers could not build is not tried here, where nothing would stop it."""
    for key in lowered.workloads:
        if key in failed:
            return _Built(error=failed[key])
    try:
        executable, report = compile_model(lowered, model, settings.target, chosen, None)
    except KernelError as error:
        return _Built(error=str(error))
    return _Built(executable, report.build_s)


def _failures(result: TuneResult) -> Mapping[str, str]:
    """Why there is no time of a workload, by its key."""
    missing = result.incomplete_reason or "not measured"
    return {
        one.task.workload.key: f"{one.task.workload.label[:60]}: {one.first_error or one.note or missing}"
        for one in result.results
        if one.best is None and one.default_s is None
    }


def _input(variant: _Variant, built: _Built) -> VariantInput:
    return VariantInput(variant.name, True, built.executable, variant.lowered, built.error)
