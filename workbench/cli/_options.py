"""Options that several commands share: one name and one meaning everywhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A built-in model's name, an .onnx or .pt2 file, or file.py:function (a Relax IRModule or TE tensors).",
        show_default=False,
    ),
]
Batch = Annotated[int | None, typer.Option("--batch", min=1, help="Size for a symbolic batch.", show_default=False)]
TargetName = Annotated[str, typer.Option("--target", help="llvm (this CPU), or llvm:CPU-NAME.")]
Threads = Annotated[
    int | None, typer.Option("--threads", help="Threads of a kernel; default: all cores.", show_default=False)
]
ExactMath = Annotated[
    bool, typer.Option("--exact-math", help="The C library's exp, tanh, erf and sigmoid instead of vectorised ones.")
]
StorePath = Annotated[
    Path | None,
    typer.Option("--store", help="Folder of records and kernels; default: the user's cache.", show_default=False),
]
Trials = Annotated[
    int | None, typer.Option("--trials", help="Trials over all tasks; default: no limit.", show_default=False)
]
TrialsPerTask = Annotated[int, typer.Option("--trials-per-task", help="Trials for each task.")]
Minutes = Annotated[
    float | None, typer.Option("--minutes", help="Time for the search; default: no limit.", show_default=False)
]
Until = Annotated[
    float | None,
    typer.Option(
        "--until",
        metavar="PERCENT",
        help="Stop when a minute is expected to make the whole less than this per cent faster.",
        show_default=False,
    ),
]
StrategyName = Annotated[
    str, typer.Option("--strategy", help="auto, metaschedule, ansor, random, library or union, where it serves a task.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of inputs and search.")]
Jobs = Annotated[
    int | None, typer.Option("--jobs", min=1, help="Build processes; default: all cores.", show_default=False)
]
RulesPath = Annotated[
    Path | None, typer.Option("--rules", help="A Python file with fusion rules of your own.", show_default=False)
]
PlanPath = Annotated[
    Path | None, typer.Option("--plan", help="Use this plan instead of making one.", show_default=False)
]
PlannerName = Annotated[str, typer.Option("--planner", help="measure, predict, greedy (TVM's FuseOps), or unfused.")]
ObjectiveName = Annotated[
    str, typer.Option("--objective", help="What a plan makes least: latency, memory, kernels, or compile.")
]
CostModelName = Annotated[
    str, typer.Option("--cost-model", help="auto (learned, where there is one for the target), or analytic.")
]
MaxNodes = Annotated[
    int | None,
    typer.Option("--max-nodes", min=1, help="Most operators in one kernel; default: no limit.", show_default=False),
]
RulesOff = Annotated[
    list[str] | None, typer.Option("--rule-off", help="A rule that is not asked; may be repeated.", show_default=False)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def _set_debug(value: bool) -> bool:
    if value:
        DEBUG.append(True)
    return value


DEBUG: list[bool] = []
Debug = Annotated[
    bool, typer.Option("--debug", callback=_set_debug, help="Show the traceback of an error.", is_eager=True)
]


def print_json(document: Any) -> None:
    """Data on standard output, nothing else."""
    json.dump(document, sys.stdout, indent=2)
    sys.stdout.write("\n")


def show(*renderables: Any) -> None:
    """Tables and lines on standard output."""
    from rich.console import Console

    console = Console(highlight=False)
    for renderable in renderables:
        console.print(renderable)
