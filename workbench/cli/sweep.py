"""``workbench sweep``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._options import (
    Batch,
    CostModelName,
    Debug,
    Jobs,
    Json,
    ModelArgument,
    ObjectiveName,
    RulesOff,
    RulesPath,
    Seed,
    StorePath,
    TargetName,
    Threads,
    TrialsPerTask,
    print_json,
    show,
)


def _limits(words: str) -> tuple[int | None, ...]:
    """ "1,4,none" as numbers, None for no limit."""
    limits: list[int | None] = []
    for word in words.split(","):
        name = word.strip().lower()
        if name != "none" and not (name.isdigit() and int(name) > 0):
            raise typer.BadParameter(f"'{word.strip()}' is no limit; give numbers above 0, or none, as in 1,4,16,none")
        limits.append(None if name == "none" else int(name))
    return tuple(limits)


def sweep(
    model: ModelArgument,
    max_nodes: Annotated[
        str, typer.Option("--max-nodes", metavar="N,N,...", help="Limits on the operators of a kernel; none: no limit.")
    ] = "1,2,4,8,16,32,none",
    batch: Batch = None,
    target: TargetName = "llvm",
    threads: Threads = None,
    objective: ObjectiveName = "kernels",
    trials_per_task: TrialsPerTask = 1,
    rules: RulesPath = None,
    rules_off: RulesOff = None,
    cost_model: CostModelName = "auto",
    seed: Seed = 0,
    jobs: Jobs = None,
    measure_seconds: Annotated[
        float, typer.Option("--measure-seconds", min=0.1, help="Longest time for timing all plans.")
    ] = 10.0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder; default: out/MODEL-sweep.", show_default=False)
    ] = None,
    store: StorePath = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Plan a model under several limits on kernel size; measure compile time and run time of each plan.

    Example: workbench sweep encoder --max-nodes 1,2,4,8,none
    """
    from .. import api
    from ..report.terminal import sweep_tables
    from ..targets import resolve

    limits = _limits(max_nodes)
    loaded = api.load(model, batch=batch)
    folder = out or Path("out") / f"{loaded.name}-sweep"
    made = api.sweep(
        loaded,
        limits,
        resolve(target, threads=threads),
        objective=objective,
        trials_per_task=trials_per_task,
        rules=rules,
        rules_off=rules_off or (),
        cost_model=cost_model,
        seed=seed,
        jobs=jobs,
        measure_seconds=measure_seconds,
        store=store,
        out=folder,
    )
    if as_json:
        print_json(made.to_json())
    else:
        show(*sweep_tables(made))
        show(f"plot: {folder / 'sweep.png'}")
