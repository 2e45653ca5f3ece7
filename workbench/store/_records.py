"""Records in the database: commit, look up, remove."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from ._schema import now, records
from .record import Record
from .serialise import digest, dump_record, load_record


def insert(connection: sa.Connection, new: Sequence[Record]) -> int:
    """Adds the records that are not there yet; returns how many those were. Raises ValueError for a broken record."""
    rows = [_row(record if record.created else dataclasses.replace(record, created=now())) for record in new]
    statement = sa.insert(records).prefix_with("OR IGNORE")
    # One statement a row: the driver tells no row count of a batch.
    return sum(connection.execute(statement, row).rowcount for row in rows)


def _row(record: Record) -> dict[str, object]:
    text = dump_record(record)
    return {
        "digest": digest(text),
        "workload": record.workload,
        "target": record.target,
        "tvm": record.tvm,
        "status": record.status,
        "median_s": record.median_s if math.isfinite(record.median_s) else None,
        "document": text,
    }


def _matching(workload: str, target: str, tvm: str) -> sa.ColumnElement[bool]:
    """A record is never looked up by its workload alone: another machine's times and code mean nothing here."""
    return sa.and_(records.c.workload == workload, records.c.target == target, records.c.tvm == tvm)


def select(
    connection: sa.Connection, workload: str, target: str, tvm: str, *, limit: int | None = None
) -> list[Record]:
    """Best first, then the failed ones in the order of their measurement."""
    query = sa.select(records.c.document).where(_matching(workload, target, tvm))
    query = query.order_by(records.c.median_s.is_(None), records.c.median_s, records.c.id).limit(limit)
    return [load_record(text) for text in connection.scalars(query)]


def best(connection: sa.Connection, workload: str, target: str, tvm: str) -> Record | None:
    found = select(connection, workload, target, tvm, limit=1)
    return found[0] if found and found[0].status == "ok" else None


def count(connection: sa.Connection, workload: str | None, target: str | None, tvm: str | None) -> int:
    query = sa.select(sa.func.count()).select_from(records)
    for column, value in ((records.c.workload, workload), (records.c.target, target), (records.c.tvm, tvm)):
        if value is not None:
            query = query.where(column == value)
    return int(connection.scalar(query) or 0)


def documents(
    connection: sa.Connection, target: str | None, workloads: Sequence[str] | None, per_workload: int | None
) -> Iterator[str]:
    """JSON of records for an export, best first within a workload; only successful ones with ``per_workload``."""
    key = (records.c.workload, records.c.target, records.c.tvm)
    order = (records.c.median_s.is_(None), records.c.median_s, records.c.id)
    rank = sa.func.row_number().over(partition_by=key, order_by=order).label("rank")
    query = sa.select(records.c.document, records.c.median_s, *key, rank)
    if target is not None:
        query = query.where(records.c.target == target)
    if workloads is not None:
        query = query.where(records.c.workload.in_(list(workloads)))
    ranked = query.subquery()
    chosen = sa.select(ranked.c.document).order_by(ranked.c.target, ranked.c.tvm, ranked.c.workload, ranked.c.rank)
    if per_workload is not None:
        chosen = chosen.where(ranked.c.rank <= per_workload, ranked.c.median_s.is_not(None))
    yield from connection.scalars(chosen)
