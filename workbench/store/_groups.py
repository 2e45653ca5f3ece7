"""Groups in the database: what the workload of a key computes, as the graph stage writes it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from ._records import standing
from ._schema import groups, records
from .record import Record
from .serialise import canonical, load_record


def insert(connection: sa.Connection, new: Mapping[str, Mapping[str, Any]]) -> int:
    """Adds the documents of workloads that have none yet; returns how many those were.

    Raises ValueError or TypeError for a document that is no JSON.
    """
    statement = sa.insert(groups).prefix_with("OR IGNORE")
    rows = [{"workload": workload, "document": canonical(dict(document))} for workload, document in new.items()]
    return sum(connection.execute(statement, row).rowcount for row in rows)


def select(connection: sa.Connection, workloads: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
    """Workload key -> document, in order of key."""
    found = connection.execute(sa.select(groups.c.workload, groups.c.document).order_by(groups.c.workload))
    wanted = None if workloads is None else set(workloads)
    return {row.workload: json.loads(row.document) for row in found if wanted is None or row.workload in wanted}


def best_records(connection: sa.Connection, target: str, tvm: str) -> list[Record]:
    """The best successful record of each workload that has a group document, in order of workload key."""
    found = standing(records.c.target == target, records.c.tvm == tvm)
    best = sa.func.row_number().over(partition_by=found.c.workload, order_by=(found.c.median_s, found.c.id))
    ranked = (
        sa.select(found.c.workload, found.c.document, best.label("rank"))
        .join(groups, groups.c.workload == found.c.workload)
        .subquery()
    )
    query = sa.select(ranked.c.document).where(ranked.c.rank == 1).order_by(ranked.c.workload)
    return [load_record(text) for text in connection.scalars(query)]


def count_measured(connection: sa.Connection, target: str, tvm: str) -> int:
    """Number of workloads with a group document and a successful record."""
    found = standing(records.c.target == target, records.c.tvm == tvm)
    query = sa.select(sa.func.count(sa.distinct(found.c.workload))).join(groups, groups.c.workload == found.c.workload)
    return int(connection.scalar(query) or 0)


def documents(connection: sa.Connection, target: str | None, workloads: Sequence[str] | None) -> Iterator[str]:
    """Lines of an export: the groups of the workloads that have records there."""
    query = sa.select(groups.c.workload, groups.c.document).where(
        groups.c.workload.in_(
            sa.select(records.c.workload).where(records.c.target == target)
            if target is not None
            else sa.select(records.c.workload)
        )
    )
    if workloads is not None:
        query = query.where(groups.c.workload.in_(list(workloads)))
    for row in connection.execute(query.order_by(groups.c.workload)):
        yield canonical({"workload": row.workload, "group": json.loads(row.document)})
