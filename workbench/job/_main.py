"""The main job: a model in, a Run out. Every stage is called here, in the order of the data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import CheckError
from ..faces import Face, SilentFace
from ..fusion import FusionPlan
from ..graph import Graph, from_model
from ..measure import environment, reference_outputs
from ..measure.import_check import check_import
from ..models import Model
from ..report import Run, build_run
from ..tuning.strategies import AUTO
from ._bench import Bench, confirmed, follow_fastest, settle
from ._planning import plan_for
from ._predictions import predictions_of
from ._search import retune, tune_plan
from ._settings import Settings, Timings, prepare, probed, with_model

STRATEGY = "library where an entry of schedules/ serves a workload, else metaschedule"


@dataclass(frozen=True)
class Outcome:
    """What the main job made: the run, and the plan that its variant `planned` follows."""

    run: Run
    plan: FusionPlan

    def write(self, folder: str | Path) -> None:
        """The run folder: run.json, plots, report.html, and plan.json, which ``--plan`` takes."""
        self.run.report(folder)
        self.plan.save(Path(folder) / "plan.json")


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
        reported_for = probed(nominal, settings.store)
        settings = with_model(replace(settings, target=nominal.with_peaks(*known) if known else reported_for))
    with timings.stage("import_check"):
        model = replace(model, check=check_import(model, seed=settings.budget.seed))
    graph, plan = _planned(model, settings, timings)
    face.stage(_plan_line(model, graph, plan))
    inputs = model.example_inputs(settings.budget.seed)
    with timings.stage("reference"):  # before anything is built: inputs that do not fit the model could end the process
        reference = reference_outputs(model, graph, inputs, store=settings.store, seed=settings.budget.seed)
    with timings.stage("tune"):
        tuned = tune_plan(model, plan, settings, face)
    if tuned.result.nothing_measured and tuned.result.complete:
        raise CheckError(f"nothing was measured: all trials failed; the first error: {tuned.result.first_error}")
    bench = Bench(model, inputs, reference, reported_for, settings, timings, face)
    variants, cache = bench.measure(tuned)
    better = settle(tuned, variants, settings)
    if better is not None:
        face.stage("plan revised on what was measured inside the whole model")
        with timings.stage("tune"):
            tuned = retune(model, better, tuned, settings, face)
        variants, cache = bench.measure(tuned)
    tuned, variants = follow_fastest(tuned, variants, settings)
    tuned = confirmed(tuned, variants)
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
        strategy=STRATEGY if settings.strategy == AUTO else settings.strategy,
        predictions=predictions_of(graph, tuned.evidence, settings),
    )
    return Outcome(run, tuned.plan)


def _planned(model: Model, settings: Settings, timings: Timings) -> tuple[Graph, FusionPlan]:
    with timings.stage("plan"):
        graph = from_model(model)
        plan = settings.plan or plan_for(model, graph, settings)
    return graph, plan


def _plan_line(model: Model, graph: Graph, plan: FusionPlan) -> str:
    fused = sum(len(group.nodes) > 1 for group in plan.groups)
    return f"{model.name}: {len(graph.nodes)} operators planned as {len(plan.groups)} groups, {fused} of them fused"
