"""What the store holds, in numbers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from ._schema import kernels, records, runs


@dataclass(frozen=True)
class TargetSummary:
    """What is there for one target and TVM version. Bytes are those of kernel files."""

    target: str
    tvm: str
    workloads: int
    records: int
    failed: int  # trials; the news that a search ended counts as a record alone
    kernels: int
    kernel_bytes: int


@dataclass(frozen=True)
class StoreSummary:
    """What is there in all. ``bytes``: database and every file."""

    path: Path
    bytes: int
    records: int
    kernels: int
    kernel_bytes: int
    runs: int
    targets: tuple[TargetSummary, ...]

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self) | {"path": str(self.path)}


@dataclass(frozen=True)
class Removed:
    """What a clean-up took away. ``bytes``: of files."""

    records: int = 0
    kernels: int = 0
    runs: int = 0
    references: int = 0
    bytes: int = 0


def file_size(path: Path) -> int:
    """Bytes; 0 for a folder, and for a file that another run has removed in the meantime."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:
        return 0


# The news that a search ended is kept as a record and is no failed trial.
_ENDED = sa.and_(
    sa.func.json_extract(records.c.document, "$.schedule.kind") == "default",
    sa.func.json_extract(records.c.document, "$.schedule.name") == "end",
)


def summarise(connection: sa.Connection, folder: Path) -> StoreSummary:
    """Counts by target and TVM version, and in all."""
    by_key: dict[tuple[str, str], dict[str, int]] = {}
    record_query = sa.select(
        records.c.target,
        records.c.tvm,
        sa.func.count(sa.distinct(records.c.workload)),
        sa.func.count(),
        sa.func.count().filter(sa.and_(records.c.status != "ok", sa.not_(_ENDED))),
    ).group_by(records.c.target, records.c.tvm)
    for target, tvm, workloads, number, failed in connection.execute(record_query):
        by_key[target, tvm] = {"workloads": workloads, "records": number, "failed": failed}
    kernel_query = sa.select(kernels.c.target, kernels.c.tvm, sa.func.count(), sa.func.sum(kernels.c.bytes)).group_by(
        kernels.c.target, kernels.c.tvm
    )
    for target, tvm, number, size in connection.execute(kernel_query):
        by_key.setdefault((target, tvm), {}).update(kernels=number, kernel_bytes=size)
    empty = {"workloads": 0, "records": 0, "failed": 0, "kernels": 0, "kernel_bytes": 0}
    targets = tuple(TargetSummary(target, tvm, **(empty | found)) for (target, tvm), found in sorted(by_key.items()))
    return StoreSummary(
        path=folder,
        bytes=sum(file_size(path) for path in folder.rglob("*")),
        records=sum(item.records for item in targets),
        kernels=sum(item.kernels for item in targets),
        kernel_bytes=sum(item.kernel_bytes for item in targets),
        runs=int(connection.scalar(sa.select(sa.func.count()).select_from(runs)) or 0),
        targets=targets,
    )
