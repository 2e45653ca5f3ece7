"""``workbench models``."""

from __future__ import annotations

from ._options import Debug, Json, print_json, show


def models(as_json: Json = False, debug: Debug = False) -> None:
    """List the built-in models.

    Example: workbench models
    """
    from ..models import builtin_models

    rows = builtin_models()
    if as_json:
        print_json([{"name": row.name, "inputs": row.inputs, "description": row.description} for row in rows])
        return
    from rich.table import Table

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("model", "inputs", "what it is"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(row.name, row.inputs, row.description)
    show(table)
