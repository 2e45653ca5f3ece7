"""``workbench compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._options import Debug, Json, print_json, show


def compare(
    run_a: Annotated[Path, typer.Argument(metavar="RUN_A", help="Run folder or run.json: the baseline.")],
    run_b: Annotated[Path, typer.Argument(metavar="RUN_B", help="Run folder or run.json to judge.")],
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare two runs; exit code 1 when something got slower or wrong, 3 when nothing can be said.

    Example: workbench compare out/monday out/tuesday
    """
    from ..report import compare as compare_runs
    from ..report.terminal import comparison_tables

    comparison = compare_runs(run_a, run_b)
    if as_json:
        print_json(comparison.to_json())
    else:
        show(*comparison_tables(comparison))
    raise typer.Exit(comparison.exit_code)
