"""Ctrl-C, or a request to end, that is not lost inside TVM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def held_back() -> Iterator[None]:
    """Lets a first Ctrl-C or SIGTERM wait for the end of the block; a second one goes through at once.

    For calls into TVM's search: an exception that a signal raises inside one of its callbacks can cross C++ that lets
    none through, and then ends the process without a word. Does nothing outside of the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers: dict[int, Any] = {number: signal.getsignal(number) for number in SIGNALS}
    previous = {number: handler for number, handler in handlers.items() if callable(handler)}
    waiting: list[int] = []

    def wait(number: int, frame: FrameType | None) -> None:
        if waiting:
            previous[number](number, frame)
        waiting.append(number)

    for number in previous:
        signal.signal(number, wait)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        for number in waiting[:1]:
            previous[number](number, None)


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
