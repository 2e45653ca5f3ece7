"""``workbench replay``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ._options import Debug, Json, print_json, show

AFTER = (8, 16, 32, 64, 128, 256)


def replay(
    logs: Annotated[
        list[Path], typer.Argument(help="Files of records: .jsonl or .jsonl.gz, as cache --export writes them.")
    ],
    strategy: Annotated[
        str, typer.Option("--strategy", metavar="NAME,...", help="Some of recorded, random, model.")
    ] = "recorded,random,model",
    trials: Annotated[int, typer.Option("--trials", min=1, help="Trials of each replayed search.")] = 64,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Searches of each strategy, with different seeds.")] = 3,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also draw the curves into this .png.", show_default=False)
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Rerun search strategies on recorded measurements: seconds on any machine, no kernel is built.

    Example: workbench replay records.jsonl.gz --strategy random,model
    """
    from .. import api
    from ..report.replay import replay_plot, replay_table

    made = api.replay(logs, tuple(name.strip() for name in strategy.split(",")), trials=trials, seeds=seeds)
    shown = [count for count in AFTER if count <= trials] or [trials]
    if as_json:
        print_json(
            {
                "workloads": made.workloads,
                "left_out": made.left_out,
                "ratios": {name: {str(n): made.mean_ratio(name, n) for n in shown} for name in made.strategies},
            }
        )
    else:
        show(*replay_table(made, shown))
    if out is not None:
        from ..report.write import png, write_file

        write_file(out, png(replay_plot(made)))
