"""Records in the database: commit, look up, remove."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

import sqlalchemy as sa

from ._schema import now, records
from .record import Record
from .serialise import canonical, digest, dump_record, load_record


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
        "stage": record.stage,
        "schedule": digest(canonical(record.schedule.to_json())),
    }


def _matching(workload: str, target: str, tvm: str) -> sa.ColumnElement[bool]:
    """A record is never looked up by its workload alone: another machine's times and code mean nothing here."""
    return sa.and_(records.c.workload == workload, records.c.target == target, records.c.tvm == tvm)


def select(connection: sa.Connection, workload: str, target: str, tvm: str) -> list[Record]:
    """In the order of their measurement."""
    query = sa.select(records.c.document).where(_matching(workload, target, tvm)).order_by(records.c.id)
    return [load_record(text) for text in connection.scalars(query)]


def best(connection: sa.Connection, workload: str, target: str, tvm: str) -> Record | None:
    found = standing(_matching(workload, target, tvm))
    text = connection.scalar(sa.select(found.c.document).order_by(found.c.median_s, found.c.id).limit(1))
    return None if text is None else load_record(text)


def standing(*conditions: sa.ColumnElement[bool]) -> sa.Subquery:
    """The records that may be the best of their key: the last winner and the successful trials since, or all of these
    where there was no winner; without the schedules that failed as finalists."""
    key = (records.c.workload, records.c.target, records.c.tvm)
    won = sa.case((records.c.stage == "winner", records.c.id))
    failed = sa.case((sa.and_(records.c.stage != "search", records.c.median_s.is_(None)), 1), else_=0)
    marked = (
        sa.select(
            records,
            sa.func.max(won).over(partition_by=key).label("since"),
            sa.func.max(failed).over(partition_by=(*key, records.c.schedule)).label("refuted"),
        )
        .where(*conditions)
        .subquery()
    )
    return (
        sa.select(*(column for column in marked.c if column.name not in ("since", "refuted")))
        .where(
            marked.c.median_s.is_not(None),
            marked.c.stage != "final",
            marked.c.id >= sa.func.coalesce(marked.c.since, 0),
            marked.c.refuted == 0,
        )
        .subquery()
    )


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
    order = (records.c.median_s.is_(None), records.c.stage != "winner", records.c.median_s, records.c.id)
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
