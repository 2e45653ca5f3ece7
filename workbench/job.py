"""The main job: a model in, a Run out. Every stage is called here, once, in the order of the data."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from .errors import CheckError, KernelError
from .faces import Face, SilentFace
from .fusion import FusionPlan, Rule, revise
from .fusion import plan as make_plan
from .graph import Graph, from_model
from .kernels import CacheReport, Executable, LoweredModel, compile_model, lower, lower_greedy
from .kernels.build import find_linker
from .measure import environment, measure_variants, probe, reference_outputs
from .measure.import_check import check_import
from .measure.variants import VariantInput
from .models import Model
from .report import Run, build_run
from .store import ScheduleSpec, Store
from .targets import Target
from .tuning import Budget, TuneResult, make_tasks, tune_tasks
from .tvm_seam import tvm_version, use_threads

DEFAULT_SCHEDULE = ScheduleSpec("default", "default", {})
UNTUNED = "unfused-untuned"
STRATEGY = "library where an entry of schedules/ serves a workload, else metaschedule"
# Rounds of "tune, look at what was measured, split what did not pay": the second settles what the first split.
REVISIONS = 3


@dataclass(frozen=True)
class Settings:
    """How the main job is to be done. ``measure_s``: seconds for timing all variants, interleaved."""

    target: Target
    store: Store
    budget: Budget = field(default_factory=Budget)
    planner: str = "roofline"
    rules: tuple[Rule, ...] | None = None
    plan: FusionPlan | None = None
    jobs: int | None = None
    measure_s: float = 10.0
    command: str = ""


@dataclass
class Timings:
    """Seconds spent in each stage of one job."""

    stages: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Adds the time of the block to the stage."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.stages[name] = self.stages.get(name, 0.0) + time.perf_counter() - begin


def with_peaks(target: Target, store: Store) -> Target:
    """The target with the peaks that the store knows for it, measured now if it knows none.

    Planning rests on stored peaks, so that the same command makes the same plan again.
    """
    known = store.peaks(target.key)
    return _probed(target, store) if known is None else target.with_peaks(*known)


def _probed(target: Target, store: Store) -> Target:
    """The target with the highest peaks ever measured on it, now included: a busy machine shows too little."""
    peaks = probe(target)
    known = store.peaks(target.key) or (0.0, 0.0)
    best = (max(known[0], peaks.gflops), max(known[1], peaks.gbps))
    if best != known:
        store.set_peaks(target.key, *best)
    return target.with_peaks(*best)


def prepare(settings: Settings) -> None:
    """What must hold before anything is built or timed. Raises SetupError: no linker, or too few threads."""
    find_linker()
    use_threads(settings.target.threads)


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
        changed = _partition(revised) != _partition(plan)
        plan = revised
        if not changed:
            break
        variants["planned"] = lower(model, plan, "planned")
        face.stage(f"plan revised on what was measured: {len(plan.groups)} groups")
        result = _merge(result, _tune(variants, settings, _rest(settings.budget, result), face))
    return Tuned(plan, variants, result)


def _tune(variants: Mapping[str, LoweredModel], settings: Settings, budget: Budget, face: Face) -> TuneResult:
    tasks = make_tasks(variants, settings.target)
    return tune_tasks(tasks, budget, store=settings.store, on_event=face.event, jobs=settings.jobs)


def _partition(plan: FusionPlan) -> frozenset[frozenset[str]]:
    return frozenset(frozenset(group.nodes) for group in plan.groups)


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


@dataclass(frozen=True)
class Outcome:
    """What the main job made: the run, and the plan that its variant `planned` follows."""

    run: Run
    plan: FusionPlan

    def write(self, folder: str | Path) -> None:
        """The run folder: run.json, plots, report.html, and plan.json, which ``--plan`` takes."""
        self.run.report(folder)
        self.plan.save(Path(folder) / "plan.json")


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
            elif len(nodes) > 1:
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


def compile_variants(
    model: Model, tuned: Tuned, settings: Settings
) -> tuple[dict[str, Executable], dict[str, str], CacheReport]:
    """One executable a variant, and `unfused-untuned`; a variant that cannot be built gives its error instead."""
    chosen = schedules(tuned.result)
    wanted = {name: (lowered, chosen) for name, lowered in tuned.variants.items()}
    if "unfused" in tuned.variants:
        wanted[UNTUNED] = (tuned.variants["unfused"], {})
    executables: dict[str, Executable] = {}
    errors: dict[str, str] = {}
    report = CacheReport()
    for name, (lowered, specs) in wanted.items():
        complete = {key: specs.get(key, DEFAULT_SCHEDULE) for key in lowered.workloads}
        try:
            executables[name], part = compile_model(lowered, model, settings.target, complete, settings.store)
        except KernelError as error:
            errors[name] = str(error)
        else:
            if name != UNTUNED:
                report = report.merge(part)
    return executables, errors, report


def main_job(model: Model, settings: Settings, face: Face | None = None) -> Outcome:
    """Plans, tunes, compiles, checks and times a model; what was measured survives any interruption in the store.

    Raises CheckError when every trial failed: then there is nothing to report.
    """
    face = face or SilentFace()
    timings = Timings()
    prepare(settings)
    host = environment()  # before the job loads the machine
    with timings.stage("probe"):
        nominal = settings.target
        known = settings.store.peaks(nominal.key)  # the plan rests on these, so that the same command plans the same
        reported_for = _probed(nominal, settings.store)
        settings = replace(settings, target=nominal.with_peaks(*known) if known else reported_for)
    with timings.stage("import_check"):
        model = replace(model, check=check_import(model, seed=settings.budget.seed))
    graph, plan = _planned(model, settings, timings)
    face.stage(_plan_line(model, graph, plan))
    with timings.stage("tune"):
        tuned = tune_plan(model, plan, settings, face)
    if tuned.result.nothing_measured and tuned.result.complete:
        raise CheckError(f"nothing was measured: all trials failed; the first error: {tuned.result.first_error}")
    face.stage("compiling the variants")
    with timings.stage("compile"):
        executables, errors, cache = compile_variants(model, tuned, settings)
    face.stage(f"kernels: {cache.summary()}")
    inputs = model.example_inputs(settings.budget.seed)
    face.stage("checking every variant against the reference")
    with timings.stage("reference"):
        reference = reference_outputs(model, graph, inputs, store=settings.store, seed=settings.budget.seed)
    face.stage("timing the variants, interleaved")
    with timings.stage("measure"):
        variants = measure_variants(
            _variant_inputs(tuned, executables, errors),
            inputs,
            reference,
            reported_for,
            seconds=settings.measure_s,
            seed=settings.budget.seed,
        )
    run = build_run(
        model=model,
        plan=tuned.plan,
        target=reported_for,
        nominal=nominal,
        tune=tuned.result,
        measurements=variants,
        lowered=tuned.variants,
        budget=settings.budget,
        environment=host,
        command=settings.command,
        timings=timings.stages,
        cache=cache,
        reference=reference.name,
        strategy=STRATEGY,
    )
    return Outcome(run, tuned.plan)


def _planned(model: Model, settings: Settings, timings: Timings) -> tuple[Graph, FusionPlan]:
    with timings.stage("plan"):
        graph = from_model(model)
        plan = settings.plan or make_plan(graph, settings.target, rules=settings.rules, planner=settings.planner)
    return graph, plan


def _plan_line(model: Model, graph: Graph, plan: FusionPlan) -> str:
    fused = sum(len(group.nodes) > 1 for group in plan.groups)
    return f"{model.name}: {len(graph.nodes)} operators planned as {len(plan.groups)} kernels, {fused} of them fused"


def _variant_inputs(
    tuned: Tuned, executables: Mapping[str, Executable], errors: Mapping[str, str]
) -> Sequence[VariantInput]:
    inputs = []
    for name in (UNTUNED, "unfused", "greedy", "planned"):
        lowered = tuned.variants.get("unfused" if name == UNTUNED else name)
        if lowered is not None:
            inputs.append(
                VariantInput(
                    name=name,
                    tuned=name != UNTUNED,
                    executable=executables.get(name),
                    lowered=lowered,
                    error=errors.get(name, ""),
                )
            )
    return inputs
