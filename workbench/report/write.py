"""Writes a run folder: every file whole or not at all, the measurements first."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import StoreError
from .run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = "report.html"


def write_run(run: Run, folder: str | Path) -> Path:
    """Writes ``run.json``, ``plan.svg``, the plots and ``report.html`` into ``folder``; returns the page.

    ``run.json`` comes first: whatever happens later, nothing measured is lost. Raises StoreError when the folder
    cannot be written; files that were there before stay as they were.
    """
    from .html import report_page
    from .plots import draw_plots

    folder = Path(folder)
    run.save(folder)
    if run.plan_svg:
        write_file(folder / "plan.svg", run.plan_svg)
    plots = draw_plots(run)
    for name, plot in plots.items():
        write_file(folder / f"{name}.png", png(plot))
    write_file(folder / "latency.svg", svg(plots["latency"]))
    return write_file(folder / PAGE, report_page(run, plots))


def require_folder(folder: Path) -> None:
    """Makes the folder, and makes sure that a file can be written there, before hours go into what it should hold.

    Raises StoreError.
    """
    probe = write_file(folder / ".writable", "")
    with contextlib.suppress(OSError):
        probe.unlink()


def write_file(path: Path, content: str | bytes) -> Path:
    """Writes a file beside its place and moves it there. Raises StoreError (full disk, no permission, no folder)."""
    data = content.encode() if isinstance(content, str) else content
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        reason = error.strerror or str(error)
        raise StoreError(
            f"{path}: cannot be written ({reason}); free some space or choose another folder with --out"
        ) from error
    return path


def png(plot: Figure) -> bytes:
    """A figure as PNG on white."""
    from .plots._style import DPI

    buffer = io.BytesIO()
    plot.savefig(buffer, format="png", dpi=DPI, facecolor="white")
    return buffer.getvalue()


def svg(plot: Figure) -> str:
    """A figure as SVG with letters as paths, so that it looks the same everywhere; equal figures give equal text."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "workbench"}):
        plot.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return buffer.getvalue()
