"""``workbench database``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ._options import Batch, Debug, ExactMath, Json, ModelArgument, StorePath, TargetName, Threads, print_json, show

database = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Tuning records to and from MetaSchedule's JSON databases, for a model's kernels on this target.",
)
Folder = Annotated[Path, typer.Argument(help="Folder of the database's two files.", show_default=False)]


@database.command("export")
def export(
    model: ModelArgument,
    folder: Folder,
    batch: Batch = None,
    target: TargetName = "llvm",
    threads: Threads = None,
    exact_math: ExactMath = False,
    store: StorePath = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write what the store knows of the model's kernels, for TVM's MetaScheduleApplyDatabase.

    Example: workbench database export encoder out/database
    """
    from .. import api
    from ..targets import resolve

    wanted = resolve(target, threads=threads, exact_math=exact_math)
    report = api.export_database(api.load(model, batch=batch), folder, wanted, store=store)
    if as_json:
        print_json({**asdict(report), "folder": str(report.folder)})
    else:
        show(report.describe())


@database.command("import")
def import_(
    model: ModelArgument,
    folder: Folder,
    batch: Batch = None,
    target: TargetName = "llvm",
    threads: Threads = None,
    exact_math: ExactMath = False,
    store: StorePath = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Take what a MetaSchedule search has found for the model's kernels into the store, matched by structure.

    Example: workbench database import encoder out/database
    """
    from .. import api
    from ..targets import resolve

    wanted = resolve(target, threads=threads, exact_math=exact_math)
    report = api.import_database(api.load(model, batch=batch), folder, wanted, store=store)
    if as_json:
        print_json(asdict(report))
    else:
        show(report.describe())
