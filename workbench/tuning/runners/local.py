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
from ..messages import ArgumentFiles, CompareAnswer, CompareRequest, Contender, RunAnswer, RunRequest
from ..task import Task
from ..workers import Worker, WorkerDied, WorkerGone
from ._base import Runner, RunResult

if TYPE_CHECKING:
    from ...reference import KernelReference

logger = logging.getLogger(__name__)
HOPELESS_RATIO = 3.0  # a candidate this much slower than the best so far is timed by a single call
_KEPT_BYTES = 512 << 20  # of inputs and outputs, so that tasks may take turns
LONG_CALL_S = 0.25  # a single call of this length needs no repetition to be read off a clock


class LocalRunner(Runner):
    """One process on this machine's CPU, with a thread pool of its own."""

    def __init__(
        self,
        settings: MeasureSettings | None = None,
        timeout_s: float = 30.0,
        threads: int | None = None,
        reference: Callable[[Workload], KernelReference] | None = None,
        probes: Callable[[Workload], Sequence[KernelReference]] | None = None,
    ) -> None:
        """``reference``: gives a workload's inputs and expected outputs; default: NumPy's (``workbench.reference``).
        ``probes``: gives further ones, on which :meth:`compare` checks too.

        ``timeout_s``: seconds that checking and timing one candidate may take together.

        ``threads``: starts the process at once with this many; else the first task's target says how many.
        """
        self.settings = settings or MeasureSettings()
        self.timeout_s = timeout_s
        self._reference, self._probes = reference, probes
        self._folder = scratch_folder()
        self._files: dict[str, ArgumentFiles] = {}
        self._probe: dict[str, tuple[ArgumentFiles, ...]] = {}
        self._count = 0
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

    def compare(self, task: Task, builds: Sequence[BuildResult], rounds: int) -> list[RunResult]:
        """See :class:`Runner`. Where a build ends the process, each is run by itself to find the one."""
        results = [RunResult(build.status, (), build.error) for build in builds]
        built = [index for index, build in enumerate(builds) if build.kernel is not None and build.library is not None]
        if not built:
            return results
        key = f"{task.workload.key}@{task.target.key}"
        files = (self._argument_files(key, task.workload), *self._probe_files(key, task.workload))
        contenders = tuple(_contender(builds[index]) for index in built)
        request = CompareRequest(key, contenders, self.settings, rounds, HOPELESS_RATIO, files)
        answer = self._ask(task.target.threads, request, self.timeout_s * len(built))
        if isinstance(answer, CompareAnswer):
            for index, one in zip(built, answer.answers, strict=True):
                results[index] = RunResult(one.status, one.seconds, one.error, one.max_error)
            return results
        if len(built) == 1:
            results[built[0]] = RunResult(answer.status, answer.seconds, answer.error, answer.max_error)
            return results
        alone = {index: self.compare(task, [builds[index]], rounds)[0] for index in built}
        good = [index for index, result in alone.items() if result.status == "ok"]
        if len(good) < len(built):  # once more without those that did it
            again = self.compare(task, [builds[index] for index in good], rounds)
            alone |= dict(zip(good, again, strict=True))
        for index, result in alone.items():
            results[index] = result
        return results

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
        answer = self._ask(task.target.threads, request, self.timeout_s)
        assert not isinstance(answer, CompareAnswer)
        result = RunResult(answer.status, answer.seconds, answer.error, answer.max_error)
        if result.status == "ok" and result.seconds:
            fastest = float(np.median(result.seconds))
            self._best[key] = min(self._best.get(key, fastest), fastest)
        return result

    def _ask(
        self, threads: int, request: RunRequest | CompareRequest, timeout_s: float
    ) -> RunAnswer | CompareAnswer | RunResult:
        try:
            try:
                answer: RunAnswer | CompareAnswer = self._ready_worker(threads).ask(request, timeout_s)
            except WorkerGone:  # it died while it was idle: not this candidate's fault
                self._stop()
                answer = self._ready_worker(threads).ask(request, timeout_s)
        except TimeoutError:
            self._stop()
            return RunResult("timeout", (), f"not measured within {timeout_s:g} s")
        except WorkerDied as died:
            self._stop()
            return RunResult("crash", (), f"runner process: {died}")
        except BaseException:  # an interrupt: the answer still to come belongs to nobody
            self._stop()
            raise
        return answer

    def _ready_worker(self, threads: int) -> Worker:
        """A waiting process with this many threads."""
        if self._worker is not None and (self._threads != threads or self._worker.worn):
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
        """The task's inputs and expected outputs, written once for as long as there is room."""
        if key not in self._files:
            reference = self._make_reference(workload)
            self._forget(sum(x.nbytes for x in (*reference.inputs, *reference.reference64, *reference.native)))
            self._count += 1
            self._files[key] = self._write(f"task{self._count}-", workload, reference)
        return self._files[key]

    def _forget(self, needed: int) -> None:
        """Removes the files of the tasks that came first, where there would be too many bytes."""
        while self._files and self._kept_bytes() + needed > _KEPT_BYTES:
            key = next(iter(self._files))
            for files in (self._files.pop(key), *self._probe.pop(key, ())):
                for path in (*files.inputs, *files.reference, *files.native):
                    path.unlink()

    def _kept_bytes(self) -> int:
        return sum(path.stat().st_size for path in self._folder.glob("*.npy"))

    def _probe_files(self, key: str, workload: Workload) -> tuple[ArgumentFiles, ...]:
        """More inputs and outputs of a task, written when they are first asked for."""
        if key not in self._probe:
            made = self._make_probes(workload)
            self._count += 1
            self._probe[key] = tuple(self._write(f"probes{self._count}-{i}-", workload, x) for i, x in enumerate(made))
        return self._probe[key]

    def _write(self, prefix: str, workload: Workload, reference: KernelReference) -> ArgumentFiles:
        outputs = workload.args[len(workload.args) - workload.num_outputs :]
        return ArgumentFiles(
            self._save(f"{prefix}input", reference.inputs),
            tuple((spec.shape, spec.dtype) for spec in outputs),
            self._save(f"{prefix}reference", reference.reference64),
            self._save(f"{prefix}native", reference.native),
        )

    def _make_probes(self, workload: Workload) -> Sequence[KernelReference]:
        if self._probes is not None:
            return self._probes(workload)
        if self._reference is not None:
            return ()
        from ...reference import probe_references

        return probe_references(workload)

    def _make_reference(self, workload: Workload) -> KernelReference:
        if self._reference is not None:
            return self._reference(workload)
        from ...reference import kernel_reference  # SciPy and the operator table, which the fake device does without

        return kernel_reference(workload)

    def _save(self, name: str, arrays: Sequence[np.ndarray]) -> tuple[Path, ...]:
        return tuple(save_array(self._folder, f"{name}{index}", array) for index, array in enumerate(arrays))


def _contender(build: BuildResult) -> Contender:
    assert build.kernel is not None
    assert build.library is not None
    return Contender(build.library, build.kernel.symbol, build.kernel.packed)
