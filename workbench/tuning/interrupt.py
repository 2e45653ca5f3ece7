"""Ctrl-C, or a request to end, that is not lost inside TVM."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class InterruptGuard:
    """Remembers that Ctrl-C came while it was active, or SIGTERM where somebody handles it.

    A KeyboardInterrupt that is raised inside a callback of TVM's C++ arrives as a plain RuntimeError; with the guard
    the caller can tell what it was. Does nothing outside of the main thread, where signals do not arrive.
    """

    def __init__(self) -> None:
        self.interrupted = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> InterruptGuard:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                handler = signal.getsignal(number)
                if callable(handler):
                    self._previous[number] = handler
                    signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.interrupted = True
        self._previous[number](number, frame)
