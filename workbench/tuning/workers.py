"""Warm worker processes: each imports TVM once, answers one request at a time, and may die without harm.

A worker is ``python -m workbench.tuning.workers ROLE FD`` rather than a ``multiprocessing`` child, so that a caller's
script needs no ``if __name__ == "__main__"`` guard. It runs in its own session, which keeps a terminal's Ctrl-C to the
parent alone, and dies with the parent (``PR_SET_PDEATHSIG``, and end of file on its socket).
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil

from ..errors import SetupError

ROLES = {"build": "workbench.tuning.builders.worker", "run": "workbench.tuning.runners.worker"}
START_TIMEOUT_S = 180.0  # importing TVM takes two seconds; a machine that is busy may need many times that
RECYCLE_ANSWERS = 2000  # requests after which a worker is replaced
RECYCLE_BYTES = 768 << 20  # and the resident memory
LEAST_ANSWERS = 64  # before that none is replaced
_PR_SET_PDEATHSIG = 1
_READY, _TAKEN = "ready", "taken"


class WorkerDied(Exception):
    """The worker ended, crashed or was killed while it had a request."""


class WorkerGone(WorkerDied):
    """The worker was dead before it took the request, which is as good as new."""


class Worker:
    """One worker process and the socket to it."""

    def __init__(self, role: str, environment: Mapping[str, str]) -> None:
        """Starts the process; :meth:`wait_ready` waits until it has imported what it needs."""
        self._role, self._environment = role, environment
        self._launch()

    def _launch(self) -> None:
        ours, theirs = socket.socketpair()
        # TemporaryFile has no name: nothing is left behind whatever happens to either process.
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH", "")) if p)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "workbench.tuning.workers", self._role, str(theirs.fileno()), str(os.getpid())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._stderr,
            env={**os.environ, "PYTHONPATH": path, **self._environment},
            start_new_session=True,
        )
        theirs.close()
        self.connection = Connection(ours.detach())
        self.started = time.monotonic()
        self._ready = False
        self.known: set[str] = set()  # what has been sent before and need not be sent again
        self.answered = 0

    @property
    def pid(self) -> int:
        """Process id."""
        return self.process.pid

    def wait_ready(self) -> None:
        """Waits for the imports; a process that somebody killed meanwhile, such as the system for memory, gets one
        successor. Raises SetupError when the imports fail, with the worker's last line."""
        if not self._ready and not self._imported():
            words = self.last_words()
            if self.process.returncode == -signal.SIGKILL:
                self.kill()
                self._launch()
                if self._imported():
                    return
                words = self.last_words()
            raise SetupError(f"a worker process ended while it started: {words}")

    def _imported(self) -> bool:
        """Waits for the first word; False when the process ended without one."""
        left = START_TIMEOUT_S - (time.monotonic() - self.started)
        try:
            if not self.connection.poll(max(0.0, left)):
                raise SetupError(
                    f"a worker process did not start within {START_TIMEOUT_S:.0f} s; is the machine stuck?"
                )
            self.connection.recv()
        except (EOFError, OSError):
            return False
        self._ready = True
        return True

    def send(self, message: object) -> None:
        """Hands over a request and waits until the worker has it. Raises WorkerGone when nobody takes it."""
        try:
            self.connection.send(message)
            if not self.connection.poll(START_TIMEOUT_S):
                raise WorkerGone(f"took no request within {START_TIMEOUT_S:.0f} s")
            self.connection.recv()
        except (EOFError, OSError):
            raise WorkerGone(self.last_words()) from None

    def receive(self) -> Any:
        """The answer, waited for without limit. Raises WorkerDied."""
        try:
            answer = self.connection.recv()
            self.answered += 1
            return answer
        except (EOFError, OSError):
            raise WorkerDied(self.last_words()) from None

    @property
    def worn(self) -> bool:
        """Whether another process should take its place: TVM and LLVM keep some memory of every module, and a library
        that was loaded stays loaded."""
        if self.answered < LEAST_ANSWERS:  # large arguments are no leak
            return False
        return self.answered >= RECYCLE_ANSWERS or self.memory > RECYCLE_BYTES

    @property
    def memory(self) -> int:
        """Resident bytes; 0 for a process that is gone."""
        try:
            return int(psutil.Process(self.pid).memory_info().rss)
        except psutil.Error:
            return 0

    def ask(self, message: object, timeout: float) -> Any:
        """Sends a request and returns its answer. Raises TimeoutError after ``timeout`` seconds, or WorkerDied.

        The clock starts when the worker has the request.
        """
        self.send(message)
        try:
            answered = self.connection.poll(timeout)
        except OSError:
            raise WorkerDied(self.last_words()) from None
        if not answered:
            raise TimeoutError
        return self.receive()

    def last_words(self) -> str:
        """How the process ended, and the last line that it wrote to standard error."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=5.0)
        code = self.process.returncode
        if code is None:
            end = "lost contact"
        elif code < 0:
            end = f"killed by {_signal_name(-code)}"
        else:
            end = f"exit code {code}"
        self._stderr.seek(0)
        lines = [line.strip() for line in self._stderr.read().decode(errors="replace").splitlines() if line.strip()]
        return f"{end}: {lines[-1]}" if lines else end

    def kill(self) -> None:
        """Ends the process and what it started, such as a linker, at once; frees the socket."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.connection.close()
        self._stderr.close()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _die_with_parent(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the call above
        os._exit(1)


def main(role: str, fd: int, parent: int) -> None:
    """Body of a worker: imports, says that it is ready, then answers requests until the parent hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with_parent(parent)
    connection = Connection(fd)
    handle: Callable[[Any], Any] = importlib.import_module(ROLES[role]).handle
    connection.send(_READY)
    while True:
        try:
            message = connection.recv()
        except EOFError:
            return
        connection.send(_TAKEN)
        connection.send(handle(message))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
