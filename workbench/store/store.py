"""The store: every measured trial, compiled kernel and run, in one folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import platformdirs
import sqlalchemy as sa

from ..errors import StoreError
from . import _groups, _kernels, _records, exchange
from ._faults import store_faults
from ._schema import groups, kernels, machines, now, open_engine, prepare, records, runs
from .exchange import ImportReport
from .kernel import Kernel
from .record import Record, ScheduleSpec
from .serialise import canonical
from .summary import Removed, StoreSummary, file_size, summarise


@dataclass(frozen=True)
class RunSummary:
    """A line of the list of runs; the whole document comes from :meth:`Store.run`."""

    id: str
    created: str
    model: str
    target: str
    complete: bool


class Store:
    """``path``: a folder, made when it is not there; default: the user's cache folder.

    Every write is committed before the method returns, and several processes may use one store at once. Every lookup
    names workload, target and TVM version: what another machine or version measured is kept, and never given out
    for this one. Methods raise StoreError when the folder is read-only or full, the database damaged, or the store
    written by a newer version.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        folder = path if path is not None else platformdirs.user_cache_dir("tvm-workbench")
        self.path = Path(folder).expanduser().absolute()
        self._database = self.path / "store.sqlite"
        with store_faults(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._engine = open_engine(self._database)
            prepare(self._engine, self._database)

    def __reduce__(self) -> tuple[type[Store], tuple[Path]]:
        return Store, (self.path,)

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the database; a later use opens it again."""
        self._engine.dispose()

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        with store_faults(self.path), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        with (
            store_faults(self.path),
            self._engine.connect().execution_options(writes=True) as connection,
            connection.begin(),
        ):
            yield connection

    # Records

    def add_record(self, record: Record) -> bool:
        """Commits a trial; False when this very record was there already."""
        return self.add_records([record]) == 1

    def add_records(self, new: Sequence[Record]) -> int:
        """Commits trials in one transaction; returns how many were new."""
        try:
            with self._writing() as connection:
                return _records.insert(connection, new)
        except ValueError as error:
            raise StoreError(f"a record cannot be stored: {error}") from error

    def records(self, workload: str, target: str, tvm: str) -> list[Record]:
        """Trials of a workload on a target with a TVM version, in the order of their measurement."""
        with self._reading() as connection:
            return _records.select(connection, workload, target, tvm)

    def best(self, workload: str, target: str, tvm: str) -> Record | None:
        """The fastest successful trial, or None."""
        with self._reading() as connection:
            return _records.best(connection, workload, target, tvm)

    def count(self, workload: str | None = None, target: str | None = None, tvm: str | None = None) -> int:
        """Number of records, of those that match what is given."""
        with self._reading() as connection:
            return _records.count(connection, workload, target, tvm)

    def export_records(
        self,
        path: Path,
        *,
        target: str | None = None,
        workloads: Sequence[str] | None = None,
        per_workload: int | None = None,
    ) -> int:
        """Writes records as JSON lines (compressed when the name ends in ``.gz``), and the groups of their workloads;
        returns how many records.

        ``per_workload``: only so many of the best of each workload, target and TVM version.
        """
        with self._reading() as connection:
            documents = _records.documents(connection, target, workloads, per_workload)
            return exchange.write_records(Path(path), documents, _groups.documents(connection, target, workloads))

    def import_records(self, path: Path, check: Callable[[Record], str | None] | None = None) -> ImportReport:
        """Adds the records and groups of a file, each once. A line that cannot be read, or for which ``check`` gives a
        reason, goes to ``NAME.rejected`` with that reason while the others load."""
        path = Path(path)
        try:
            good, found, rejected = exchange.read_records(path, check)
        except OSError as error:
            raise StoreError(
                f"records cannot be read from {path} ({error.strerror or error}); check the name"
            ) from error
        added = self.add_records(good)
        new = self.add_groups(found)
        kept = None
        if rejected:
            with store_faults(self.path):
                kept = exchange.write_rejected(path, rejected, self.path)
        return ImportReport(path, added, len(good) - added, tuple(rejected), kept, new)

    # Groups

    def add_groups(self, new: Mapping[str, Mapping[str, Any]]) -> int:
        """Commits what workloads compute: workload key -> the group's graph as JSON; returns how many were new."""
        if not new:
            return 0
        try:
            with self._writing() as connection:
                return _groups.insert(connection, new)
        except (ValueError, TypeError) as error:
            raise StoreError(f"a group cannot be stored: {error}") from error

    def groups(self, workloads: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
        """Workload key -> its group's document, of all workloads or of those that are given."""
        with self._reading() as connection:
            return _groups.select(connection, workloads)

    def best_records(self, target: str, tvm: str) -> list[Record]:
        """The fastest successful trial of each workload whose group is known, in order of workload key."""
        with self._reading() as connection:
            return _groups.best_records(connection, target, tvm)

    def measured_groups(self, target: str, tvm: str) -> int:
        """How many records :meth:`best_records` gives."""
        with self._reading() as connection:
            return _groups.count_measured(connection, target, tvm)

    def model(self, name: str) -> bytes | None:
        """A trained model that was kept under this name, or None; whoever removes the file has it trained again."""
        with store_faults(self.path):
            path = self.path / "models" / name
            return path.read_bytes() if path.is_file() else None

    def write_model(self, name: str, data: bytes) -> None:
        """Keeps a trained model under a name, whole or not at all."""
        with store_faults(self.path):
            _kernels.write_file(self.path / "models" / name, data)

    # Kernels

    def get(self, workload: str, target: str, tvm: str, schedule: ScheduleSpec) -> Kernel | None:
        """The compiled kernel of a schedule; None when it is not there, or when its file does not check."""
        condition = _kernels.matching(workload, target, tvm, schedule)
        with self._reading() as connection:
            row = connection.execute(sa.select(kernels).where(condition)).first()
        if row is None:
            return None
        with store_faults(self.path):
            kernel = _kernels.load(row, self.path)
        if kernel is None:
            with self._writing() as connection:
                _kernels.forget_file(connection, self.path, row.sha256)
        return kernel

    def put(self, kernel: Kernel) -> None:
        """Keeps a kernel, in place of an earlier one of the same schedule."""
        with self._writing() as connection:
            _kernels.put(connection, self.path, kernel)

    # Machines, runs, references

    def peaks(self, target: str) -> tuple[float, float] | None:
        """Measured peaks of a target (GFLOP/s, GB/s), or None when nothing was measured yet."""
        with self._reading() as connection:
            row = connection.execute(
                sa.select(machines.c.gflops, machines.c.gbps).where(machines.c.target == target)
            ).first()
        return None if row is None else (row.gflops, row.gbps)

    def set_peaks(self, target: str, gflops: float, gbps: float) -> None:
        """Keeps measured peaks (GFLOP/s, GB/s) of a target."""
        row = {"target": target, "gflops": gflops, "gbps": gbps, "measured": now()}
        with self._writing() as connection:
            connection.execute(sa.insert(machines).prefix_with("OR REPLACE"), row)

    def add_run(self, run_id: str, document: Mapping[str, Any]) -> None:
        """Keeps a run's document (``run.json``), in place of an earlier one of the same id."""
        row = {
            "id": run_id,
            "created": str(document.get("created") or now()),
            "model": str(document.get("model", {}).get("name", "")),
            "target": str(document.get("target", {}).get("device", "")),
            "complete": bool(document.get("complete", False)),
            "document": canonical(document),
        }
        with self._writing() as connection:
            connection.execute(sa.insert(runs).prefix_with("OR REPLACE"), row)

    def runs(self) -> list[RunSummary]:
        """All runs, newest first."""
        columns = (runs.c.id, runs.c.created, runs.c.model, runs.c.target, runs.c.complete)
        with self._reading() as connection:
            rows = connection.execute(sa.select(*columns).order_by(runs.c.created.desc(), runs.c.id)).all()
        return [RunSummary(*row) for row in rows]

    def run(self, run_id: str) -> dict[str, Any] | None:
        """A run's document, or None."""
        with self._reading() as connection:
            text = connection.scalar(sa.select(runs.c.document).where(runs.c.id == run_id))
        return None if text is None else json.loads(text)

    def reference_path(self, fingerprint: str, seed: int) -> Path:
        """Where the reference outputs of a model for seeded inputs are kept (NumPy ``.npz``)."""
        return self.path / "references" / f"{fingerprint}-{seed}.npz"

    def write_reference(self, path: Path, data: bytes) -> None:
        """Writes a file of :meth:`reference_path`, whole or not at all."""
        with store_faults(self.path):
            _kernels.write_file(path, data)

    # Upkeep

    def summary(self) -> StoreSummary:
        """Counts and bytes, in all and by target."""
        with self._reading() as connection:
            return summarise(connection, self.path)

    def clear(
        self, *, kernels: bool = True, records: bool = True, references: bool = True, runs: bool = False
    ) -> Removed:
        """Removes everything of the kinds that are asked for; runs only when they are named."""
        tables = {"kernels": kernels, "records": records, "runs": runs}
        counts: dict[str, int] = {}
        freed = 0
        with self._writing() as connection:
            for name, wanted in tables.items():
                if wanted:
                    counts[name] = connection.execute(sa.delete(_TABLES[name])).rowcount
            if records:
                connection.execute(sa.delete(groups))
            if kernels:
                freed = _kernels.sweep(connection, self.path)
            if references:
                counts["references"], size = _remove_files(self.path / "references")
                freed += size
        return Removed(bytes=freed, **counts)

    def prune(self, *, keep_tvm: str | None = None, kernel_bytes: int | None = None) -> Removed:
        """Removes kernels of other TVM versions than ``keep_tvm``, then the oldest until the files take at most
        ``kernel_bytes``, and files that nothing refers to. Records stay: they can be compiled again."""
        removed = 0
        with self._writing() as connection:
            if keep_tvm is not None:
                removed += _kernels.drop(connection, kernels.c.tvm != keep_tvm)
            if kernel_bytes is not None:
                oldest = _kernels.oldest_beyond(connection, kernel_bytes)
                removed += _kernels.drop(connection, kernels.c.sha256.in_(oldest))
            freed = _kernels.sweep(connection, self.path)
        return Removed(kernels=removed, bytes=freed)


_TABLES = {"kernels": kernels, "records": records, "runs": runs}


def _remove_files(folder: Path) -> tuple[int, int]:
    """Number and bytes of the references removed; what another run is just writing has another name."""
    files = list(folder.glob("*.npz"))
    size = sum(file_size(path) for path in files)
    for path in files:
        path.unlink(missing_ok=True)
    return len(files), size
