"""How the main job plans: which planner, with what wishes and evidence, and what it would still like to measure."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import PlanError
from ..fusion import (
    Contest,
    Evidence,
    FusionPlan,
    Measured,
    Problem,
    Unit,
    alternative_plans,
    contests,
    given_partition,
    problem_of,
)
from ..fusion import plan as make_plan
from ..graph import Graph
from ..kernels import KernelCall, LoweredModel, lower, lower_greedy
from ..models import Model
from ..tuning import TuneResult
from ._settings import Settings

# What ``--planner`` takes. "measure" plans as "predict" does, and then tunes what the prediction leaves open.
MODES = ("measure", "predict", "greedy", "unfused")
NO_EVIDENCE = Evidence()
MAX_CONTESTS = 12  # distinct kernels that are tuned beside a plan's own to settle close decisions
SECONDS_PER_TASK = 10.0  # that a search needs to get anywhere
CONTEST_SHARE = 0.5  # and at most this share of the distinct kernels of the variants


def plan_for(model: Model, graph: Graph, settings: Settings, evidence: Evidence = NO_EVIDENCE) -> FusionPlan:
    """The plan that the settings ask for. Raises PlanError for an unknown planner."""
    if settings.planner not in MODES:
        raise PlanError(f"planner '{settings.planner}' is not known; give one of {', '.join(MODES)}")
    if settings.planner == "greedy":
        return greedy_plan(model, graph, settings)
    problem = problem_for(graph, settings, evidence)
    return make_plan(
        graph,
        settings.target,
        rules=problem.rules,
        planner="unfused" if settings.planner == "unfused" else "predict",
        constraints=problem.constraints,
        cost_model=problem.model,
        objective=problem.objective,
        evidence=evidence,
    )


def problem_for(graph: Graph, settings: Settings, evidence: Evidence = NO_EVIDENCE) -> Problem:
    """What the settings ask of a planner."""
    return problem_of(
        graph, settings.target, settings.rules, settings.constraints, settings.model, settings.objective, evidence
    )


def greedy_plan(model: Model, graph: Graph, settings: Settings) -> FusionPlan:
    """TVM's own partition as a plan."""
    units = [
        Unit(call.nodes, "FuseOps", "vertical", "as TVM's FuseOps groups", rewrite_of(call))
        for call in lower_greedy(model).calls
        if len(call.nodes) > 1
    ]
    return given_partition(problem_for(graph, settings), units, "greedy", "left alone by TVM's FuseOps")


def rewrite_of(call: KernelCall) -> str | None:
    """What TVM's own fusion does to a batch norm inside a group."""
    return "decompose_batchnorm" if len(call.nodes) > 1 and "nn.batch_norm" in call.ops else None


def alternatives(
    model: Model, graph: Graph, settings: Settings, evidence: Evidence, tasks: int
) -> dict[str, LoweredModel]:
    """Lowered plans that hold the groups worth measuring, the most valuable first; nothing of them is ever timed whole.

    ``tasks``: distinct kernels of the variants, which say how many more are reasonable.
    """
    if settings.planner != "measure" or settings.plan is not None:
        return {}
    room = _room(settings.budget.minutes, tasks)
    problem = problem_for(graph, settings, evidence)
    wanted: tuple[Contest, ...] = contests(problem)[:room] if room else ()
    plans = alternative_plans(problem, wanted)
    return {f"alternative {i}": lower(model, plan, f"alternative {i}") for i, plan in enumerate(plans, 1)}


def _room(minutes: float | None, tasks: int) -> int:
    """How many more kernels to tune: where time is short, the kernels of the variants need all of it."""
    most = min(MAX_CONTESTS, max(2, int(CONTEST_SHARE * tasks)))
    return most if minutes is None else max(0, min(most, int(minutes * 60 / SECONDS_PER_TASK) - tasks))


def evidence_of(variants: Mapping[str, LoweredModel], result: TuneResult) -> Evidence:
    """Measured times of each set of nodes that is a kernel in some variant, and the sets that nothing scheduled."""
    measured: dict[frozenset[str], Measured] = {}
    failed: dict[frozenset[str], str] = {}
    by_key = {item.task.workload.key: item for item in result.results}
    for lowered in variants.values():
        for call in lowered.calls:
            found = by_key.get(call.workload)
            if not call.nodes or found is None:
                continue
            nodes = frozenset(call.nodes)
            if found.best is not None:
                samples = found.best.seconds
                measured[nodes] = Measured(found.best.median_s, min(samples), max(samples))
            elif len(nodes) > 1 and found.records:  # a group that nobody tried is no evidence
                failed[nodes] = found.note or "no candidate worked"
            elif found.default_s is not None:
                measured[nodes] = Measured(found.default_s, found.default_s, found.default_s)
    return Evidence(measured, failed)


def only_failures(evidence: Evidence) -> Evidence:
    """What a plan by prediction alone still has to know: which groups cannot be built."""
    return Evidence({}, evidence.failed)
