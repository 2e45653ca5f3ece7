"""``workbench tune``."""

from __future__ import annotations

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


def tune(
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
    rules: RulesPath = None,
    planner: PlannerName = "predict",
    objective: ObjectiveName = "latency",
    cost_model: CostModelName = "auto",
    max_nodes: MaxNodes = None,
    rules_off: RulesOff = None,
    seed: Seed = 0,
    jobs: Jobs = None,
    store: StorePath = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Search schedules for the planned groups; everything measured is kept in the store.

    Example: workbench tune encoder --minutes 5
    """
    from .. import api
    from ..errors import CheckError
    from ..report.assemble import task_part
    from ..report.terminal import tune_table
    from ..targets import resolve

    loaded = api.load(model, batch=batch)
    made = api.plan(
        loaded,
        resolve(target, threads=threads, exact_math=exact_math),
        rules=rules,
        planner=planner,
        objective=objective,
        cost_model=cost_model,
        max_nodes=max_nodes,
        rules_off=rules_off or (),
        store=store,
    )
    result = api.tune(
        made,
        minutes=minutes,
        until=until,
        strategy=strategy,
        trials=trials,
        trials_per_task=trials_per_task,
        seed=seed,
        jobs=jobs,
        store=store,
    )
    if as_json:
        print_json(
            {
                "complete": result.complete,
                "trials": result.trials,
                "seconds": result.seconds,
                "tasks": [task_part(one).model_dump(mode="json") for one in result.results],
            }
        )
    else:
        show(tune_table(result))
    if result.nothing_measured:
        raise CheckError(f"nothing was measured: all trials failed; the first error: {result.first_error}")
