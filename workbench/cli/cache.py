"""``workbench cache``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._options import Debug, Json, StorePath, print_json, show


def cache(
    store: StorePath = None,
    import_logs: Annotated[
        Path | None,
        typer.Option("--import", help="Import tuning records from this .jsonl or .jsonl.gz file.", show_default=False),
    ] = None,
    export_logs: Annotated[
        Path | None, typer.Option("--export", help="Write all tuning records to this file.", show_default=False)
    ] = None,
    import_builtin: Annotated[
        bool, typer.Option("--import-builtin", help="Import the committed logs of the built-in models.")
    ] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Delete all records and kernels (runs are kept).")] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what the store holds; import, export or clear tuning records and kernels.

    Example: workbench cache --import-builtin
    """
    from tuning_logs import paths

    from ..errors import InputError
    from ..report.terminal import store_table
    from ..store import Store

    reports, lines = [], []
    with Store(store) as opened:
        if clear:
            removed = opened.clear()
            lines.append(f"removed {removed.records} records and {removed.kernels} kernels")
        if import_builtin and not paths():
            raise InputError("--import-builtin: this version comes with no committed logs; use --import FILE")
        for path in [*([import_logs] if import_logs else []), *(paths() if import_builtin else [])]:
            reports.append((path, opened.import_records(path)))
        if export_logs is not None:
            lines.append(f"{export_logs}: {opened.export_records(export_logs)} records written")
        summary = opened.summary()
    if as_json:
        print_json({**summary.to_json(), "imported": [report.to_json() for _, report in reports]})
    else:
        for path, report in reports:
            show(f"{path.name}: {report.describe()}")
        show(*lines)
        show(store_table(summary))
    unread = [str(path) for path, report in reports if report.rejected and not report.added + report.duplicates]
    if unread:
        raise InputError(f"{', '.join(unread)}: no line holds a record that can be read; see the .rejected file")
