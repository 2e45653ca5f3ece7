"""``workbench plan``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._options import (
    Batch,
    Debug,
    Json,
    ModelArgument,
    PlannerName,
    RulesPath,
    StorePath,
    TargetName,
    Threads,
    print_json,
    show,
)


def plan(
    model: ModelArgument,
    batch: Batch = None,
    target: TargetName = "llvm",
    threads: Threads = None,
    rules: RulesPath = None,
    planner: PlannerName = "predict",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the plan as JSON to this file.", show_default=False)
    ] = None,
    store: StorePath = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show which operators would be fused, and why.

    Example: workbench plan encoder -o plan.json
    """
    from .. import api
    from ..report.terminal import plan_tables
    from ..targets import resolve

    loaded = api.load(model, batch=batch)
    made = api.plan(loaded, resolve(target, threads=threads), rules=rules, planner=planner, store=store)
    if out is not None:
        made.save(out)
    if as_json:
        print_json(made.to_json())
    else:
        show(*plan_tables(made))
