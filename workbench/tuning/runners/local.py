"""Measures on this machine's CPU, in one warm process that owns it.

A candidate that crashes the process or hangs costs itself and two seconds for a new process. The time-out's clock
starts when the candidate starts, so a long queue times nobody out.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...kernels.workload import Workload
from ...reference.arrays import save_array
from ...store.record import MeasureSettings
from ..builders._base import BuildResult
from ..builders.local import scratch_folder
from ..messages import ArgumentFiles, RunRequest
from ..task import Task
from ..workers import Worker, WorkerDied, WorkerGone
from ._base import Runner, RunResult

if TYPE_CHECKING:
    from ...reference import KernelReference

logger = logging.getLogger(__name__)
HOPELESS_RATIO = 3.0  # a candidate this much slower than the best so far is timed by a single call
LONG_CALL_S = 0.25  # a single call of this length needs no repetition to be read off a clock


class LocalRunner(Runner):
    """One process on this machine's CPU, with a thread pool of its own."""

    def __init__(
        self,
        settings: MeasureSettings | None = None,
        timeout_s: float = 30.0,
        threads: int | None = None,
        reference: Callable[[Workload], KernelReference] | None = None,
    ) -> None:
        """``reference``: gives a workload's inputs and expected outputs; default: NumPy's (``workbench.reference``).

        ``timeout_s``: seconds that checking and timing one candidate may take together.

        ``threads``: starts the process at once with this many; else the first task's target says how many.
        """
        self.settings = settings or MeasureSettings()
        self.timeout_s = timeout_s
        self._reference = reference
        self._folder = scratch_folder()
        self._files: dict[str, ArgumentFiles] = {}
        self._best: dict[str, float] = {}
        self._threads = 0
        self._worker: Worker | None = None
        if threads is not None:
            self._start(threads)

    @property
    def pids(self) -> tuple[int, ...]:
        """Process id of the worker, if it runs."""
        return () if self._worker is None else (self._worker.pid,)

    def run(self, task: Task, builds: Sequence[BuildResult]) -> list[RunResult]:
        """See :class:`Runner`. Raises SetupError when the process cannot start, KernelError without a reference."""
        return [self._run(task, build) for build in builds]

    def close(self) -> None:
        """See :class:`Runner`."""
        self._stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, task: Task, build: BuildResult) -> RunResult:
        if build.kernel is None or build.library is None:
            return RunResult(build.status, (), build.error)
        key = f"{task.workload.key}@{task.target.key}"
        best = self._best.get(key)
        request = RunRequest(
            key,
            build.library,
            build.kernel.symbol,
            build.kernel.packed,
            self.settings,
            LONG_CALL_S if best is None else HOPELESS_RATIO * best,
            self._argument_files(key, task.workload),
        )
        result = self._ask(task.target.threads, request)
        if result.status == "ok" and result.seconds:
            fastest = float(np.median(result.seconds))
            self._best[key] = min(self._best.get(key, fastest), fastest)
        return result

    def _ask(self, threads: int, request: RunRequest) -> RunResult:
        try:
            try:
                answer = self._ready_worker(threads).ask(request, self.timeout_s)
            except WorkerGone:  # it died while it was idle: not this candidate's fault
                self._stop()
                answer = self._ready_worker(threads).ask(request, self.timeout_s)
        except TimeoutError:
            self._stop()
            return RunResult("timeout", (), f"not measured within {self.timeout_s:g} s")
        except WorkerDied as died:
            self._stop()
            return RunResult("crash", (), f"runner process: {died}")
        except BaseException:  # an interrupt: the answer still to come belongs to nobody
            self._stop()
            raise
        return RunResult(answer.status, answer.seconds, answer.error, answer.max_error)

    def _ready_worker(self, threads: int) -> Worker:
        """A waiting process with this many threads."""
        if self._worker is not None and self._threads != threads:
            self._stop()
        worker = self._worker or self._start(threads)
        worker.wait_ready()
        return worker

    def _start(self, threads: int) -> Worker:
        self._threads = threads
        self._worker = Worker("run", {"TVM_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)})
        return self._worker

    def _stop(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker = None

    def _argument_files(self, key: str, workload: Workload) -> ArgumentFiles:
        """The task's inputs and expected outputs, written once; the files of earlier tasks are removed."""
        if key not in self._files:
            reference = self._make_reference(workload)
            for old in self._files.values():
                for path in (*old.inputs, *old.reference, *old.native):
                    path.unlink(missing_ok=True)
            outputs = workload.args[len(workload.args) - workload.num_outputs :]
            self._files = {
                key: ArgumentFiles(
                    self._save("input", reference.inputs),
                    tuple((spec.shape, spec.dtype) for spec in outputs),
                    self._save("reference", reference.reference64),
                    self._save("native", reference.native),
                )
            }
        return self._files[key]

    def _make_reference(self, workload: Workload) -> KernelReference:
        if self._reference is not None:
            return self._reference(workload)
        from ...reference import kernel_reference  # SciPy and the operator table, which the fake device does without

        return kernel_reference(workload)

    def _save(self, name: str, arrays: Sequence[np.ndarray]) -> tuple[Path, ...]:
        return tuple(save_array(self._folder, f"{name}{index}", array) for index, array in enumerate(arrays))
