"""``workbench compare-plans``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._options import Debug, Json, print_json, show


def compare_plans(
    plan_a: Annotated[Path, typer.Argument(metavar="PLAN_A", help="A plan of 'workbench plan -o'.")],
    plan_b: Annotated[Path, typer.Argument(metavar="PLAN_B", help="Another plan of the same model.")],
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what differs between two plans of one model; exit code 0 whether or not something does.

    Example: workbench compare-plans before.json after.json
    """
    from ..fusion.compare import compare_documents
    from ..fusion.schema import read_document
    from ..report.plan_tables import plan_comparison_tables

    comparison = compare_documents(read_document(plan_a), read_document(plan_b), str(plan_a), str(plan_b))
    if as_json:
        print_json(comparison.to_json())
    else:
        show(*plan_comparison_tables(comparison))
