"""``workbench models``."""

from __future__ import annotations

from dataclasses import asdict

from ._options import Debug, Json, print_json, show


def models(as_json: Json = False, debug: Debug = False) -> None:
    """List the built-in models.

    Example: workbench models
    """
    from ..models.zoo import BUILTINS

    entries = BUILTINS.values()
    if as_json:
        print_json(
            [
                {
                    "name": entry.name,
                    "description": entry.description,
                    "inputs": [asdict(spec) for spec in entry.inputs],
                }
                for entry in entries
            ]
        )
        return
    from rich.table import Table

    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for heading in ("model", "what it is", "inputs"):
        table.add_column(heading, overflow="fold")
    for entry in entries:
        shapes = dict.fromkeys("x".join(map(str, spec.shape)) for spec in entry.inputs)
        count = f" ({len(entry.inputs)})" if len(entry.inputs) > 1 else ""
        table.add_row(entry.name, entry.description, ", ".join(shapes) + count)
    show(table)
