"""Where a job's progress is drawn: a terminal, plain lines, or a Jupyter cell."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from .report.live import Progress, line, render

if TYPE_CHECKING:
    from rich.console import Console

    from .tuning.progress import Event


class Face(Protocol):
    """What draws a job's progress."""

    def stage(self, message: str) -> None: ...
    def event(self, event: Event) -> None: ...


class PlainFace:
    """Plain lines on a stream; batches are thinned out to one line every ``every_s`` seconds."""

    def __init__(self, stream: Any = None, every_s: float = 10.0) -> None:
        self._stream = stream or sys.stderr
        self._every_s, self._last = every_s, 0.0

    def stage(self, message: str) -> None:
        """A line for a stage of the main job."""
        print(message, file=self._stream, flush=True)

    def event(self, event: Event) -> None:
        """A line for a tuning event."""
        now = time.monotonic()
        if event.kind == "batch" and now - self._last < self._every_s:
            return
        text = line(event)
        if text:
            self._last = now
            print(text, file=self._stream, flush=True)


class SilentFace:
    """Draws nothing."""

    def stage(self, message: str) -> None:
        """Ignores the message."""

    def event(self, event: Event) -> None:
        """Ignores the event."""


class TerminalFace:
    """One table that updates in place, with stage messages above it. Use as a context manager."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        self._console = console
        self._progress = Progress()
        self._live = Live(console=console, refresh_per_second=4, transient=False, auto_refresh=False)
        self._running = False

    def stage(self, message: str) -> None:
        """A line above the table."""
        self._console.print(message, highlight=False)

    def event(self, event: Event) -> None:
        """Updates the table; the table stays on screen when the job's tuning ends."""
        if event.kind == "plan":
            self._progress = Progress()
            self._console.print(event.message, highlight=False)
        noted = len(self._progress.notes)
        self._progress.update(event)
        for note in self._progress.notes[noted:]:
            self._console.print(f"note: {note}", highlight=False)
        if not self._running and event.task is not None and event.total_planned:
            self._live.start()
            self._running = True
        if self._running:
            self._live.update(render(self._progress), refresh=True)
        if event.kind == "end":
            self.close()

    def close(self) -> None:
        """Stops drawing; safe to call twice."""
        if self._running:
            self._live.stop()
            self._running = False


class JupyterFace:
    """One output cell that updates in place."""

    def __init__(self) -> None:
        from IPython.display import display

        self._progress = Progress()
        self._stage = ""
        self._handle: Any = display(self._html(), display_id=True)

    def stage(self, message: str) -> None:
        """Shows the stage over the table."""
        self._stage = message
        self._handle.update(self._html())

    def event(self, event: Event) -> None:
        """Redraws the cell."""
        if event.kind == "plan":
            self._progress = Progress()
        self._progress.update(event)
        self._handle.update(self._html())

    def _html(self) -> Any:
        import io

        from IPython.display import HTML
        from rich.console import Console

        console = Console(file=io.StringIO(), record=True, width=100, force_jupyter=False)
        if self._stage:
            console.print(self._stage, highlight=False)
        if self._progress.rows:
            console.print(render(self._progress))
        return HTML(console.export_html(inline_styles=True, code_format="<pre>{code}</pre>"))


def in_jupyter() -> bool:
    """Whether the code runs in a notebook kernel."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    shell = get_ipython()
    return shell is not None and shell.__class__.__name__ == "ZMQInteractiveShell"


@contextmanager
def face(quiet: bool = False) -> Iterator[Face]:
    """The face that fits where the code runs: Jupyter cell, terminal table, or plain lines."""
    if quiet:
        yield SilentFace()
        return
    if in_jupyter():
        yield JupyterFace()
        return
    if not sys.stderr.isatty():
        yield PlainFace()
        return
    from rich.console import Console

    terminal = TerminalFace(Console(stderr=True))
    try:
        yield terminal
    finally:
        terminal.close()
