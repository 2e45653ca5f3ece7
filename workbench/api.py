"""What a notebook or a script types: load, plan, tune, compile, run, compare."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import job
from .errors import InputError, PlanError
from .faces import face as best_face
from .fusion import Constraints, FusionPlan, Rule, load_rules
from .fusion import load_plan as read_plan
from .graph import from_model
from .kernels import Executable, compile_model, lower
from .measure.import_check import check_import
from .models import Model
from .models import load as load_model
from .report import Comparison, Run
from .report import compare as compare_runs
from .report.sweep import Sweep
from .report.write import require_folder
from .store import Record, Store
from .targets import Target, resolve
from .tuning import Budget, Task, TuneResult

if TYPE_CHECKING:
    from .tuning.metaschedule_database import ExportedDatabase, ImportedDatabase
    from .tuning.replay import Replay

    Rules = Sequence[Rule] | str | Path | None


def load(
    source: Any, *, args: tuple[Any, ...] | None = None, batch: int | None = None, name: str | None = None
) -> Model:
    """Imports a model and checks it against the source framework where that is installed.

    ``source``: a built-in model's name, an ``.onnx`` or ``.pt2`` file, an ``nn.Module`` with example inputs in
    ``args``, ``"file.py:function"``, or a Relax IRModule. ``batch`` binds a symbolic batch.
    Raises ModelError, UnsupportedOperator, SymbolicShapeError, SetupError (framework not installed).

    >>> load("encoder").inputs[0].shape
    (1, 256, 512)
    """
    model = load_model(source, args=args, batch=batch, name=name)
    return replace(model, check=check_import(model))


def plan(
    model: Model | str,
    target: Target | str = "llvm",
    *,
    rules: Rules = None,
    planner: str = "predict",
    objective: str = "latency",
    cost_model: str = "auto",
    max_nodes: int | None = None,
    rules_off: Sequence[str] = (),
    plan: FusionPlan | str | Path | None = None,
    minutes: float | None = None,
    trials_per_task: int | None = 16,
    store: Store | str | Path | None = None,
    quiet: bool = False,
) -> FusionPlan:
    """Decides which operators become one kernel, with a reason for every boundary.

    ``rules``: a file of your own rules, used beside the built-in ones, or a sequence of Rule objects used instead of
    them. ``planner``: "predict" (by a cost model), "measure" (close decisions are settled by tuning, within
    ``trials_per_task`` and ``minutes``), "greedy" (TVM's FuseOps) or "unfused". ``objective``: "latency", "memory",
    "kernels" or "compile". ``cost_model``: "auto" or "analytic". ``max_nodes``: the most operators in one kernel.
    ``rules_off``: rules that are not asked, by name. ``plan``: a plan document to read instead of making one; one whose
    wishes were edited is planned again under them.
    Raises RuleError, TargetError, ModelError, PlanError, IllegalGroup.

    >>> [group.rule for group in plan("residual_layernorm").groups]
    ['residual_norm']
    """
    model = _model(model)
    graph = from_model(model)
    with _store(store) as opened, best_face(quiet or planner != "measure") as drawn:
        wanted = job.with_peaks(_target(target), opened)
        chosen = _rules(rules)
        given = _plan(plan, model, wanted, chosen, opened, cost_model)
        if given is not None:
            return replace(given, model=model, target=wanted)
        settings = job.Settings(
            target=wanted,
            store=opened,
            budget=Budget(trials_per_task=trials_per_task, minutes=minutes),
            planner=planner,
            rules=chosen,
            constraints=Constraints(rules_off=tuple(rules_off), max_nodes=max_nodes),
            objective=objective,
            cost_model=cost_model,
        )
        settings = job.with_model(settings)
        made = job.plan_for(model, graph, settings)
        if planner == "measure":
            job.prepare(settings)
            made = job.tune_plan(model, made, settings, drawn).plan
    return replace(made, model=model, target=wanted)


def tune(
    plan: FusionPlan,
    *,
    minutes: float | None = None,
    until: float | None = None,
    strategy: str = "auto",
    trials: int | None = None,
    trials_per_task: int | None = 64,
    seed: int = 0,
    jobs: int | None = None,
    store: Store | str | Path | None = None,
    quiet: bool = False,
) -> TuneResult:
    """Searches a schedule for every group of the plan; every trial is in the store the moment it was measured.

    With ``minutes``, ``trials`` or ``until``, trials go where they are expected to gain the whole most, at most
    ``trials_per_task`` to each. ``until``: the per cent of the whole's time that a minute has to be worth.
    ``strategy``: "metaschedule", "ansor", "random", "library" or "union" for the tasks that it serves; "auto" chooses.
    Raises BudgetError when the budget allows no trial. Ctrl-C ends the search and returns what was found.

    >>> result = tune(plan("residual_layernorm"), trials_per_task=4, quiet=True)
    >>> result.results[0].best.status
    'ok'
    """
    model, target = _origin(plan)
    budget = Budget(trials=trials, trials_per_task=trials_per_task, minutes=minutes, seed=seed, until=until)
    with _store(store) as opened, best_face(quiet) as drawn:
        settings = job.Settings(target=target, store=opened, budget=budget, jobs=jobs, plan=plan, strategy=strategy)
        job.prepare(settings)
        return job.tune_plan(model, plan, settings, drawn, extremes=False).result


def export_database(
    model: Model | str,
    folder: str | Path,
    target: Target | str = "llvm",
    *,
    store: Store | str | Path | None = None,
) -> ExportedDatabase:
    """Writes the store's traces of a model's kernels as a MetaSchedule database, for TVM's own passes.

    Raises StoreError where there is a database already.

    >>> import tempfile
    >>> result = tune(plan("residual_layernorm"), trials_per_task=4, strategy="metaschedule", quiet=True)
    >>> export_database("residual_layernorm", tempfile.mkdtemp()).workloads > 0
    True
    """
    from .tuning.metaschedule_database import export_database as write

    with _exchange(model, target, store) as (tasks, opened):
        return write(tasks, opened, Path(folder))


def import_database(
    model: Model | str,
    folder: str | Path,
    target: Target | str = "llvm",
    *,
    store: Store | str | Path | None = None,
) -> ImportedDatabase:
    """Takes the records of a MetaSchedule database for a model's kernels into the store; says what matched.

    Raises StoreError for what is no database.
    """
    from .tuning.metaschedule_database import import_database as read

    with _exchange(model, target, store) as (tasks, opened):
        return read(Path(folder), tasks, opened)


@contextmanager
def _exchange(
    model: Model | str, target: Target | str, store: Store | str | Path | None
) -> Iterator[tuple[list[Task], Store]]:
    with _store(store) as opened:
        settings = job.Settings(target=job.with_peaks(_target(target), opened), store=opened, planner="predict")
        yield job.tasks_of(_model(model), job.with_model(settings)), opened


def replay(
    logs: Sequence[str | Path],
    strategies: Sequence[str] = ("recorded", "random", "model"),
    *,
    trials: int = 64,
    seeds: int = 3,
) -> Replay:
    """Reruns search strategies on files of records, as ``workbench cache --export`` writes them; builds nothing.

    "recorded" is the search as it went, "random" takes the same schedules in random order, "model" as a regression on
    their parameters likes them. Raises InputError for a file that holds no whole search.
    """
    from .store.exchange import read_records
    from .tuning.replay import replay as rerun

    records: list[Record] = []
    labels: dict[str, str] = {}
    for path in map(Path, logs):
        try:
            good, groups, _ = read_records(path)
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
        records += good
        labels |= {key: "+".join(node["op"] for node in group.get("nodes", ())) for key, group in groups.items()}
    return rerun(records, strategies, trials=trials, seeds=seeds, labels=labels)


def compile(
    plan: FusionPlan, *, result: TuneResult | None = None, store: Store | str | Path | None = None
) -> Executable:
    """Compiles a plan with the best schedules known: those of ``result``, else the store's, else the default.

    >>> executable = compile(plan("residual_layernorm"))
    >>> executable(*executable.example_inputs()).shape
    (1024, 768)
    """
    model, target = _origin(plan)
    with _store(store) as opened:
        lowered = lower(model, plan, "planned")
        chosen = job.stored_schedules(lowered, target, opened)
        if result is not None:
            chosen.update(job.schedules(result))
        executable, _ = compile_model(lowered, model, target, chosen, opened)
    return executable


def run(
    model: Model | str,
    target: Target | str = "llvm",
    *,
    minutes: float | None = None,
    until: float | None = None,
    strategy: str = "auto",
    trials: int | None = None,
    trials_per_task: int | None = 64,
    seed: int = 0,
    jobs: int | None = None,
    rules: Rules = None,
    planner: str = "measure",
    objective: str = "latency",
    cost_model: str = "auto",
    max_nodes: int | None = None,
    rules_off: Sequence[str] = (),
    plan: FusionPlan | str | Path | None = None,
    measure_seconds: float = 10.0,
    exact_math: bool = False,
    store: Store | str | Path | None = None,
    out: str | Path | None = None,
    quiet: bool = False,
) -> Run:
    """The main job: plan, tune, compile, check and time a model fused, greedily fused and unfused.

    ``planner``, ``objective``, ``cost_model``, ``max_nodes``, ``rules_off`` and ``plan`` are those of :func:`plan`; the
    default "measure" settles close decisions by tuning, within the same budget. ``out``: folder for the report; nothing
    is written without it. Times inside are seconds, shown in microseconds.
    Raises InputError for what cannot be used and CheckError when nothing could be measured.

    >>> run("gelu", trials_per_task=4, measure_seconds=1, quiet=True).variant("planned").correct
    True
    """
    model = _model(model)
    wanted = target if isinstance(target, Target) else resolve(target, exact_math=exact_math)
    budget = Budget(trials=trials, trials_per_task=trials_per_task, minutes=minutes, seed=seed, until=until)
    chosen = _rules(rules)
    with _store(store) as opened, best_face(quiet) as drawn:
        settings = job.Settings(
            target=wanted,
            store=opened,
            budget=budget,
            planner=planner,
            rules=chosen,
            constraints=Constraints(rules_off=tuple(rules_off), max_nodes=max_nodes),
            objective=objective,
            cost_model=cost_model,
            plan=_plan(plan, model, wanted, chosen, opened, cost_model),
            jobs=jobs,
            strategy=strategy,
            measure_s=measure_seconds,
            command=_command(),
        )
        if out is not None:
            require_folder(Path(out))
        outcome = job.main_job(model, settings, drawn)
        opened.add_run(outcome.run.id, outcome.run.to_json())
        if out is not None:
            outcome.write(out)
    return outcome.run


def sweep(
    model: Model | str,
    max_nodes: Sequence[int | None] = (1, 2, 4, 8, 16, 32, None),
    target: Target | str = "llvm",
    *,
    objective: str = "kernels",
    trials_per_task: int = 1,
    rules: Rules = None,
    rules_off: Sequence[str] = (),
    cost_model: str = "auto",
    seed: int = 0,
    jobs: int | None = None,
    measure_seconds: float = 10.0,
    store: Store | str | Path | None = None,
    out: str | Path | None = None,
    quiet: bool = False,
) -> Sweep:
    """Plans a model once for each limit on the operators of a kernel, and measures compile time and run time of each.

    ``max_nodes``: the limits; None is no limit, and 1, which is unfused, is always there. The ``objective`` "kernels"
    fuses as much as a limit lets it; "latency" shows what the planner makes of the limit. With ``trials_per_task`` 1
    every kernel has its default schedule. ``out``: folder for ``sweep.json`` and ``sweep.png``.
    Raises what :func:`plan` does, and CheckError when no limit gave a program that could be timed.

    >>> [point.kernels for point in sweep("gelu", (1, None), measure_seconds=1, quiet=True).points]
    [9, 1]
    """
    model = _model(model)
    with _store(store) as opened, best_face(quiet) as drawn:
        settings = job.Settings(
            target=_target(target),
            store=opened,
            budget=Budget(trials_per_task=trials_per_task, seed=seed),
            planner="predict",
            rules=_rules(rules),
            constraints=Constraints(rules_off=tuple(rules_off)),
            objective=objective,
            cost_model=cost_model,
            jobs=jobs,
            measure_s=measure_seconds,
            command=_command(),
        )
        if out is not None:
            require_folder(Path(out))
        found = job.sweep(model, tuple(max_nodes), settings, drawn)
    if out is not None:
        found.save(out)
    return found


def compare(a: Run | str | Path, b: Run | str | Path) -> Comparison:
    """Compares two runs of one model: per variant the ratio with its interval, changed groups and schedules.

    Each is a Run, a run folder, or a ``run.json``. Raises InputError for a folder without a run.
    """
    return compare_runs(a, b)


def _model(model: Model | str) -> Model:
    return model if isinstance(model, Model) else load(model)


def _command() -> str:
    """The command line that is running; "" for a script or a notebook."""
    return shlex.join(["workbench", *sys.argv[1:]]) if sys.argv[0].endswith("workbench") else ""


def _target(target: Target | str) -> Target:
    return target if isinstance(target, Target) else resolve(target)


def _store(store: Store | str | Path | None) -> Store:
    return store if isinstance(store, Store) else Store(None if store is None else Path(store))


def _rules(rules: Rules) -> tuple[Rule, ...] | None:
    if rules is None:
        return None
    if isinstance(rules, str | Path):
        from .fusion import builtin_rules

        return (*load_rules(Path(rules)), *builtin_rules())
    return tuple(rules)


def _plan(
    plan: FusionPlan | str | Path | None,
    model: Model,
    target: Target,
    rules: tuple[Rule, ...] | None,
    store: Store,
    cost_model: str,
) -> FusionPlan | None:
    if plan is None or isinstance(plan, FusionPlan):
        return plan
    settings = job.with_model(job.Settings(target=job.with_peaks(target, store), store=store, cost_model=cost_model))
    return read_plan(Path(plan), from_model(model), settings.target, rules, settings.model)


def _origin(plan: FusionPlan) -> tuple[Model, Target]:
    if plan.model is None or plan.target is None:
        raise PlanError("this plan does not know its model; make it with workbench.plan(model)")
    return plan.model, plan.target
