"""``workbench compile``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._options import (
    Batch,
    CostModelName,
    Debug,
    ExactMath,
    MaxNodes,
    ModelArgument,
    ObjectiveName,
    PlannerName,
    PlanPath,
    RulesOff,
    RulesPath,
    StorePath,
    TargetName,
    Threads,
    show,
)


def compile_command(
    model: ModelArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="The shared library to write.", show_default=False)],
    batch: Batch = None,
    target: TargetName = "llvm",
    threads: Threads = None,
    exact_math: ExactMath = False,
    rules: RulesPath = None,
    planner: PlannerName = "predict",
    objective: ObjectiveName = "latency",
    cost_model: CostModelName = "auto",
    max_nodes: MaxNodes = None,
    rules_off: RulesOff = None,
    plan: PlanPath = None,
    store: StorePath = None,
    debug: Debug = False,
) -> None:
    """Compile a model with the best kernels of the store into one library that TVM alone can load.

    Example: workbench compile encoder -o encoder.so
    """
    from .. import api
    from ..targets import resolve

    loaded = api.load(model, batch=batch)
    wanted = resolve(target, threads=threads, exact_math=exact_math)
    made = api.plan(
        loaded,
        wanted,
        rules=rules,
        planner=planner,
        objective=objective,
        cost_model=cost_model,
        max_nodes=max_nodes,
        rules_off=rules_off or (),
        store=store,
        plan=plan,
    )
    executable = api.compile(made, store=store)
    executable.export(out)
    show(f"{out}: {len(executable.calls)} kernels, {executable.cache_report.summary()}")
