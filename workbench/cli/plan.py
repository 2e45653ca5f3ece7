"""``workbench plan``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._options import (
    Batch,
    CostModelName,
    Debug,
    Json,
    MaxNodes,
    Minutes,
    ModelArgument,
    ObjectiveName,
    PlannerName,
    PlanPath,
    RulesOff,
    RulesPath,
    StorePath,
    TargetName,
    Threads,
    TrialsPerTask,
    print_json,
    show,
)


def _print_schema(value: bool) -> None:
    if value:
        from ..fusion.schema import json_schema

        print_json(json_schema())
        raise typer.Exit


def plan(
    model: ModelArgument,
    batch: Batch = None,
    target: TargetName = "llvm",
    threads: Threads = None,
    rules: RulesPath = None,
    planner: PlannerName = "predict",
    objective: ObjectiveName = "latency",
    cost_model: CostModelName = "auto",
    max_nodes: MaxNodes = None,
    rules_off: RulesOff = None,
    trials_per_task: TrialsPerTask = 16,
    minutes: Minutes = None,
    plan_file: PlanPath = None,
    explain: Annotated[
        str | None,
        typer.Option(
            "--explain", metavar="NODE", help="Say all about a node (lv3) or an edge (lv3->lv4).", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write the plan as JSON to this file.", show_default=False)
    ] = None,
    store: StorePath = None,
    schema: Annotated[
        bool,
        typer.Option(
            "--schema", callback=_print_schema, is_eager=True, help="Print the JSON Schema of plans and exit."
        ),
    ] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show which operators would be fused, and why. Only --planner measure makes trials.

    Example: workbench plan encoder -o plan.json
    """
    from .. import api
    from ..fusion import builtin_rules, load_rules
    from ..fusion.explain import explain as explain_subject
    from ..report.plan_tables import explanation_tables, plan_tables
    from ..targets import resolve

    loaded = api.load(model, batch=batch)
    made = api.plan(
        loaded,
        resolve(target, threads=threads),
        rules=rules,
        planner=planner,
        objective=objective,
        cost_model=cost_model,
        max_nodes=max_nodes,
        rules_off=rules_off or (),
        plan=plan_file,
        minutes=minutes,
        trials_per_task=trials_per_task,
        store=store,
    )
    if out is not None:
        made.save(out)
    if explain is not None:
        asked = (*(() if rules is None else load_rules(rules)), *builtin_rules())
        explanation = explain_subject(made, asked, explain)
        if as_json:
            print_json(explanation.to_json())
        else:
            show(*explanation_tables(explanation))
    elif as_json:
        print_json(made.to_json())
    else:
        show(*plan_tables(made))
