"""Tables of the store's database, and how it is opened."""

from __future__ import annotations

import json
import sqlite3
import time
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.schema import CreateIndex, CreateTable

from ..errors import StoreError
from .serialise import canonical, digest

SCHEMA = 3  # raise it with every change of a table, and add the step that brings an older store up
BUSY_S = 60.0  # another run's commit takes milliseconds; a whole import some seconds

metadata = sa.MetaData()

meta = sa.Table(
    "meta",
    metadata,
    sa.Column("key", sa.String, primary_key=True),
    sa.Column("value", sa.String, nullable=False),
)

records = sa.Table(
    "records",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("digest", sa.String, nullable=False, unique=True),  # of the whole record: one is never kept twice
    sa.Column("workload", sa.String, nullable=False),
    sa.Column("target", sa.String, nullable=False),
    sa.Column("tvm", sa.String, nullable=False),
    sa.Column("status", sa.String, nullable=False),
    sa.Column("median_s", sa.Float),  # NULL for a failed trial
    sa.Column("document", sa.String, nullable=False),  # the record as JSON
    sa.Column("stage", sa.String, nullable=False, server_default="search"),  # since schema 3, as is the next one
    sa.Column("schedule", sa.String, nullable=False, server_default=""),  # digest
    sa.Index("records_by_key", "workload", "target", "tvm", "median_s"),
)

kernels = sa.Table(
    "kernels",
    metadata,
    sa.Column("workload", sa.String, primary_key=True),
    sa.Column("target", sa.String, primary_key=True),
    sa.Column("tvm", sa.String, primary_key=True),
    sa.Column("workbench", sa.String, primary_key=True),  # code generation rules and library schedules are its own
    sa.Column("schedule_digest", sa.String, primary_key=True),
    sa.Column("schedule", sa.String, nullable=False),
    sa.Column("symbol", sa.String, nullable=False),
    sa.Column("packed", sa.String, nullable=False),
    sa.Column("sha256", sa.String, nullable=False),  # of the code, and the name of its file
    sa.Column("bytes", sa.Integer, nullable=False),
    sa.Column("created", sa.String, nullable=False),
    sa.Index("kernels_by_file", "sha256"),
)

groups = sa.Table(  # since schema 2
    "groups",
    metadata,
    sa.Column("workload", sa.String, primary_key=True),
    sa.Column("document", sa.String, nullable=False),  # the group's graph as JSON
)

runs = sa.Table(
    "runs",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("created", sa.String, nullable=False),
    sa.Column("model", sa.String, nullable=False),
    sa.Column("target", sa.String, nullable=False),
    sa.Column("complete", sa.Boolean, nullable=False),
    sa.Column("document", sa.String, nullable=False),
)

machines = sa.Table(
    "machines",
    metadata,
    sa.Column("target", sa.String, primary_key=True),
    sa.Column("gflops", sa.Float, nullable=False),
    sa.Column("gbps", sa.Float, nullable=False),
    sa.Column("measured", sa.String, nullable=False),
)


def now() -> str:
    """ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def open_engine(database: Path) -> sa.Engine:
    """An engine on the database file, which is made when it is not there."""
    engine = sa.create_engine(
        sa.URL.create("sqlite", database=str(database)), connect_args={"timeout": BUSY_S, "check_same_thread": False}
    )

    @sa.event.listens_for(engine, "connect")
    def _on_connect(connection: sqlite3.Connection, _: object) -> None:
        # The driver's own transactions begin at the first write only; ours begin where the code says so.
        connection.isolation_level = None
        _turn_on_wal(connection)
        for pragma in ("synchronous=FULL", f"busy_timeout={int(BUSY_S * 1000)}"):
            connection.execute(f"PRAGMA {pragma}").fetchall()

    @sa.event.listens_for(engine, "begin")
    def _on_begin(connection: sa.Connection) -> None:
        # A transaction that reads first and then writes fails at once, without waiting, when another run has
        # committed in between; one that takes the write lock at its start waits its turn.
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _turn_on_wal(connection: sqlite3.Connection) -> None:
    """Waits for another run that does the same: SQLite's own timeout does not hold for a change of the journal."""
    end = time.monotonic() + BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").fetchall()
            return
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not busy or time.monotonic() >= end:
                raise
        time.sleep(0.02)


def prepare(engine: sa.Engine, database: Path) -> None:
    """Makes the tables of a new store, and brings an older one up, once.

    Raises StoreError for a newer store, or for a database of something else.
    """
    with engine.connect() as connection:
        found = _schema_version(connection, database)
    if found is None or found < SCHEMA:
        with engine.connect().execution_options(writes=True) as connection, connection.begin():
            _create(connection)
    elif found > SCHEMA:
        raise StoreError(
            f"store {database.parent} was written by a newer workbench (schema {found}, this one reads {SCHEMA}); "
            "upgrade the workbench, or give another folder with --store; nothing was changed"
        )


def _schema_version(connection: sa.Connection, database: Path) -> int | None:
    """None for an empty database."""
    tables = {str(name) for name in connection.scalars(sa.text("SELECT name FROM sqlite_master WHERE type='table'"))}
    if not tables:
        return None
    value = connection.scalar(sa.select(meta.c.value).where(meta.c.key == "schema")) if "meta" in tables else None
    if value is None or not value.isdigit():
        raise StoreError(f"{database} is a database, but no workbench store; give another folder with --store")
    return int(value)


def _create(connection: sa.Connection) -> None:
    """Makes what is missing. Schema 1 had all tables but ``groups``, so this is also the step from it to 2."""
    for table in metadata.sorted_tables:
        connection.execute(CreateTable(table, if_not_exists=True))
        for index in table.indexes:
            connection.execute(CreateIndex(index, if_not_exists=True))
    _add_stages(connection)
    insert = sa.insert(meta).prefix_with("OR IGNORE")
    connection.execute(insert, [{"key": "schema", "value": str(SCHEMA)}, {"key": "created", "value": now()}])
    connection.execute(sa.update(meta).where(meta.c.key == "schema"), {"value": str(SCHEMA)})


def _add_stages(connection: sa.Connection) -> None:
    """The step from schema 2 to 3: every record is one of a search, and its schedule has a digest."""
    if "stage" in {row[1] for row in connection.exec_driver_sql("PRAGMA table_info(records)")}:
        return
    for column in (records.c.stage, records.c.schedule):
        default = column.server_default.arg  # type: ignore[union-attr]
        connection.exec_driver_sql(f"ALTER TABLE records ADD COLUMN {column.name} VARCHAR NOT NULL DEFAULT '{default}'")
    update = sa.update(records).where(records.c.id == sa.bindparam("row")).values(schedule=sa.bindparam("text"))
    for row in connection.execute(sa.select(records.c.id, records.c.document)).all():
        text = digest(canonical(json.loads(row.document)["schedule"]))
        connection.execute(update, {"row": row.id, "text": text})
