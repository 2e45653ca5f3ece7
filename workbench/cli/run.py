"""``workbench run``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._options import (
    Batch,
    CostModelName,
    Debug,
    ExactMath,
    Jobs,
    Json,
    MaxNodes,
    Minutes,
    ModelArgument,
    ObjectiveName,
    PlannerName,
    PlanPath,
    RulesOff,
    RulesPath,
    Seed,
    StorePath,
    StrategyName,
    TargetName,
    Threads,
    Trials,
    TrialsPerTask,
    Until,
    print_json,
    show,
)


def run(
    model: ModelArgument,
    batch: Batch = None,
    target: TargetName = "llvm",
    threads: Threads = None,
    exact_math: ExactMath = False,
    trials: Trials = None,
    trials_per_task: TrialsPerTask = 64,
    minutes: Minutes = None,
    until: Until = None,
    strategy: StrategyName = "auto",
    measure_seconds: Annotated[
        float, typer.Option("--measure-seconds", min=0.1, help="Longest time for timing the variants.")
    ] = 10.0,
    rules: RulesPath = None,
    planner: PlannerName = "measure",
    objective: ObjectiveName = "latency",
    cost_model: CostModelName = "auto",
    max_nodes: MaxNodes = None,
    rules_off: RulesOff = None,
    plan: PlanPath = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Run folder; default: out/MODEL.", show_default=False)
    ] = None,
    store: StorePath = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Plan, tune, check and time a model fused and unfused, and write a report.

    Example: workbench run encoder --minutes 5 --out out/encoder
    """
    from .. import api
    from ..errors import CheckError
    from ..report.terminal import run_tables
    from ..targets import resolve

    loaded = api.load(model, batch=batch)
    folder = out or Path("out") / loaded.name
    made = api.run(
        loaded,
        resolve(target, threads=threads, exact_math=exact_math),
        minutes=minutes,
        until=until,
        strategy=strategy,
        trials=trials,
        trials_per_task=trials_per_task,
        seed=seed,
        jobs=jobs,
        rules=rules,
        planner=planner,
        objective=objective,
        cost_model=cost_model,
        max_nodes=max_nodes,
        rules_off=rules_off or (),
        plan=plan,
        measure_seconds=measure_seconds,
        store=store,
        out=folder,
    )
    if as_json:
        print_json(made.to_json())
    else:
        show(*run_tables(made))
        show(f"report: {folder / 'report.html'}")
    wrong = [variant.name for variant in made.variants if variant.status != "ok"]
    if wrong:
        raise CheckError(f"not every variant could be used: {', '.join(wrong)} (see the report)")
