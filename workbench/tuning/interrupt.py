"""Ctrl-C that is not lost inside TVM."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class InterruptGuard:
    """Remembers that Ctrl-C came while it was active.

    A KeyboardInterrupt that is raised inside a callback of TVM's C++ arrives as a plain RuntimeError; with the guard
    the caller can tell what it was. Does nothing outside of the main thread, where signals do not arrive.
    """

    def __init__(self) -> None:
        self.interrupted = False
        self._previous: Any = None

    def __enter__(self) -> InterruptGuard:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.getsignal(signal.SIGINT)
            if callable(self._previous):
                signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if callable(self._previous):
            signal.signal(signal.SIGINT, self._previous)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.interrupted = True
        self._previous(number, frame)
