"""The command line: one file a verb, nothing computed here. TVM is imported only by commands that need it."""

from __future__ import annotations

import io
import os
import signal
import sys
import traceback
from types import FrameType
from typing import Annotated

import typer

from .. import __version__
from ..errors import WorkbenchError
from . import _options
from .cache import cache
from .compare import compare
from .compare_plans import compare_plans
from .compile import compile_command
from .costmodel import costmodel
from .database import database
from .models import models
from .plan import plan
from .replay import replay
from .rules import rules
from .run import run
from .sweep import sweep
from .tune import tune

INTERRUPTED = 130  # the exit code that typer, without a word, turns Ctrl-C into

app = typer.Typer(
    name="workbench",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode="rich",
    help="Which operators to fuse, how to schedule each fused kernel, and what that buys on this machine.",
    epilog="Start with: workbench run residual_layernorm --trials-per-task 16 --out out",
)
app.command("models")(models)
app.command("rules")(rules)
app.command("plan")(plan)
app.command("tune")(tune)
app.command("run")(run)
app.command("sweep")(sweep)
app.command("compile")(compile_command)
app.command("compare")(compare)
app.command("compare-plans")(compare_plans)
app.command("cache")(cache)
app.command("replay")(replay)
app.add_typer(costmodel, name="costmodel")
app.add_typer(database, name="database")


def _version(value: bool) -> None:
    if value:
        typer.echo(f"workbench {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Fuse, tune, measure and compare."""


def main() -> None:
    """Runs a command; turns errors into one line and an exit code (0 fine, 1 failed check, 2 usage or input)."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without µ gets a question mark, not an error
            stream.reconfigure(errors="replace")
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        app()
    except WorkbenchError as error:
        _fail(str(error), error.exit_code)
    except SystemExit as end:
        if end.code != INTERRUPTED:
            raise
        _fail("interrupted; what was measured is in the store", INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _fail(f"{error.strerror or error}: {error.filename}" if error.filename else str(error), 2)
    except Exception as error:  # a defect of the workbench: say so in one line, keep the traceback for --debug
        _fail(f"internal error: {type(error).__name__}: {_first_line(error)} (run again with --debug)", 1)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """What batch systems and ``timeout`` send ends a command as Ctrl-C does: the report is written first."""
    raise KeyboardInterrupt


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0]


def _fail(message: str, code: int) -> None:
    if _options.DEBUG:
        traceback.print_exc()
    typer.echo(f"error: {message}", err=True)
    sys.exit(code)
