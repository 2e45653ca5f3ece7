"""Builds on this machine in warm worker processes of our own.

TVM's own builder imports half a minute's worth of intrinsics in every new worker, inside the candidate's time-out;
here a worker imports once and its clock starts when it takes a candidate.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path

from ...errors import StoreError
from ...tvm_seam import structural_json
from ..messages import BuildAnswer, BuildRequest, TaskMessage, portable
from ..task import Candidate, Task
from ..workers import Worker, WorkerDied
from ._base import Builder, BuildResult

logger = logging.getLogger(__name__)
_NEEDED_BYTES = 64 << 20
_STALE_S = 3600.0


@dataclass
class _Job:
    index: int
    library: Path
    started: float = 0.0
    retries: int = 0


@dataclass
class _Batch:
    """The state of one call of :meth:`LocalBuilder.build`."""

    task: Task
    candidates: Sequence[Candidate]
    waiting: list[_Job]
    running: dict[Worker, _Job] = field(default_factory=dict)
    results: dict[int, BuildResult] = field(default_factory=dict)

    def finish(self, job: _Job, answer: BuildAnswer) -> None:
        library = job.library if answer.kernel is not None else None
        seconds = time.monotonic() - job.started
        self.results[job.index] = BuildResult(answer.kernel, library, answer.status, answer.error, seconds)


class LocalBuilder(Builder):
    """``jobs`` warm workers; artefacts live in one fresh folder, in memory where the system has such a place."""

    def __init__(self, jobs: int | None = None, timeout_s: float = 30.0) -> None:
        """``jobs``: workers, by default one a core. ``timeout_s``: seconds that one build may take.

        Workers start here but are first waited for by :meth:`build`. Raises StoreError when there is no room.
        """
        self.jobs = max(1, jobs if jobs is not None else _cores())
        self.timeout_s = timeout_s
        self._folder = scratch_folder()
        self._count = 0
        self._workers: list[Worker] = []
        try:
            self._workers = [self._start() for _ in range(self.jobs)]
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the workers."""
        return tuple(worker.pid for worker in self._workers)

    def build(self, task: Task, candidates: Sequence[Candidate]) -> list[BuildResult]:
        """See :class:`Builder`. Raises SetupError when workers cannot start, StoreError when the disk is full."""
        _check_room(self._folder)
        batch = _Batch(task, candidates, [_Job(i, self._next_library()) for i in range(len(candidates))])
        try:
            while len(batch.results) < len(candidates):
                self._dispatch(batch)
                self._collect(batch)
        except BaseException:  # their answers would be taken for those of the next batch
            for worker in batch.running:
                self._retire(worker, "batch abandoned")
            raise
        return [batch.results[index] for index in range(len(candidates))]

    def discard(self, result: BuildResult) -> None:
        """Removes a library that is no longer needed."""
        if result.library is not None:
            result.library.unlink(missing_ok=True)

    def close(self) -> None:
        """See :class:`Builder`."""
        for worker in self._workers:
            worker.kill()
        self._workers = []
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> Worker:
        # TMPDIR: what a killed worker or its linker leaves goes with the folder.
        return Worker("build", {"TVM_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "TMPDIR": str(self._folder)})

    def _next_library(self) -> Path:
        self._count += 1
        return self._folder / f"{self._count}.so"

    def _dispatch(self, batch: _Batch) -> None:
        self._workers += [self._start() for _ in range(self.jobs - len(self._workers))]
        for worker in list(self._workers):
            if not batch.waiting:
                return
            if worker in batch.running:
                continue
            worker.wait_ready()
            job = batch.waiting.pop(0)
            candidate = batch.candidates[job.index]
            module = None if candidate.module is None else structural_json(candidate.module)
            try:
                self._introduce(worker, batch.task)
                worker.send(BuildRequest(_key(batch.task), candidate.schedule, module, job.library))
                job.started = time.monotonic()
                batch.running[worker] = job
            except WorkerDied as died:  # it died while idle: not this candidate's fault
                self._retire(worker, str(died))
                job.retries += 1
                if job.retries > 2:
                    batch.finish(job, BuildAnswer(None, "crash", f"build worker: {died}"))
                else:
                    batch.waiting.insert(0, job)

    def _introduce(self, worker: Worker, task: Task) -> None:
        key = _key(task)
        if key not in worker.known:
            module = structural_json(task.workload.module)
            try:
                worker.ask(TaskMessage(key, portable(task.workload), module, task.target), self.timeout_s)
            except TimeoutError:
                raise WorkerDied(f"did not take the task within {self.timeout_s:g} s") from None
            worker.known = {key}

    def _collect(self, batch: _Batch) -> None:
        """Waits for the first answer, death or time-out among the running builds."""
        if not batch.running:
            return
        earliest = min(job.started for job in batch.running.values()) + self.timeout_s
        by_connection = {worker.connection: worker for worker in batch.running}
        for connection in wait(list(by_connection), max(0.0, earliest - time.monotonic())):
            worker = by_connection[connection]  # type: ignore[index]
            job = batch.running.pop(worker)
            try:
                batch.finish(job, worker.receive())
                if worker.worn:
                    self._retire(worker, f"{worker.answered} builds, {worker.memory >> 20} MiB")
            except WorkerDied as died:
                batch.finish(job, BuildAnswer(None, "crash", f"build worker: {died}"))
                self._retire(worker, str(died))
        for worker, job in list(batch.running.items()):
            if time.monotonic() - job.started >= self.timeout_s and not worker.connection.poll():
                del batch.running[worker]
                batch.finish(job, BuildAnswer(None, "timeout", f"not built within {self.timeout_s:g} s"))
                self._retire(worker, "time-out")

    def _retire(self, worker: Worker, reason: str) -> None:
        """Ends a worker; the next dispatch starts another in its place."""
        logger.info("build worker %d replaced: %s", worker.pid, reason)
        worker.kill()
        self._workers.remove(worker)


def scratch_folder() -> Path:
    """A fresh folder for artefacts, in memory (``/dev/shm``) where there is room, else in the temporary folder.

    Raises StoreError when neither has any.
    """
    shared = Path("/dev/shm")
    places = [str(shared)] if os.access(shared, os.W_OK) and _free(shared) >= 4 * _NEEDED_BYTES else []
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"workbench-{os.getpid()}-", dir=places[0] if places else None))
    except OSError as error:
        raise StoreError(f"no folder for build artefacts: {error}; free some space or set TMPDIR") from error
    _remove_stale(folder.parent)
    _check_room(folder)
    return folder


def _remove_stale(parent: Path) -> None:
    """Removes what processes left that were killed; an hour's grace, since process ids may be another container's."""
    for folder in parent.glob("workbench-*-*"):
        owner = folder.name.split("-")[1]
        try:
            old = time.time() - folder.stat().st_mtime > _STALE_S
        except OSError:  # its owner removed it just now
            continue
        if old and owner.isdigit() and not Path("/proc", owner).exists():
            shutil.rmtree(folder, ignore_errors=True)


def _check_room(folder: Path) -> None:
    if _free(folder) < _NEEDED_BYTES:
        raise StoreError(
            f"{folder}: {os.strerror(errno.ENOSPC)}, build artefacts need {_NEEDED_BYTES >> 20} MiB; "
            "free some space or set TMPDIR to a folder on another disk"
        )


def _free(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _key(task: Task) -> str:
    return f"{task.workload.key}@{task.target.key}"
