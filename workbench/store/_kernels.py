"""The kernel cache: rows in the database, code in files that are named by their content."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from pathlib import Path

import sqlalchemy as sa

from .. import __version__
from ._schema import kernels, now
from .kernel import Kernel, PackedArgument
from .record import ScheduleSpec
from .serialise import canonical, digest

log = logging.getLogger(__name__)


def write_file(path: Path, data: bytes) -> None:
    """Whole or not at all, also when the process is killed in between."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def code_path(folder: Path, sha256: str) -> Path:
    return folder / "kernels" / f"{sha256}.o"


def put(connection: sa.Connection, folder: Path, kernel: Kernel) -> None:
    """Writes the code first: a row without its file would be a miss, a file without a row only costs space."""
    sha256 = hashlib.sha256(kernel.code).hexdigest()
    path = code_path(folder, sha256)
    if not path.exists() or path.read_bytes() != kernel.code:
        write_file(path, kernel.code)
    schedule = canonical(kernel.schedule.to_json())
    row = {
        "workload": kernel.workload,
        "target": kernel.target,
        "tvm": kernel.tvm,
        "workbench": __version__,
        "schedule_digest": digest(schedule),
        "schedule": schedule,
        "symbol": kernel.symbol,
        "packed": canonical([argument.to_json() for argument in kernel.packed]),
        "sha256": sha256,
        "bytes": len(kernel.code),
        "created": now(),
    }
    connection.execute(sa.insert(kernels).prefix_with("OR REPLACE"), row)


def matching(workload: str, target: str, tvm: str, schedule: ScheduleSpec) -> sa.ColumnElement[bool]:
    return sa.and_(
        kernels.c.workload == workload,
        kernels.c.target == target,
        kernels.c.tvm == tvm,
        kernels.c.workbench == __version__,
        kernels.c.schedule_digest == digest(canonical(schedule.to_json())),
    )


def load(row: sa.Row, folder: Path) -> Kernel | None:
    """The kernel of a row; None, with a warning, when its file is gone or is not what was written."""
    path = code_path(folder, row.sha256)
    try:
        code = path.read_bytes()
    except FileNotFoundError:
        log.warning("kernel file %s is gone from the store; the kernel is built again", path)
        return None
    if hashlib.sha256(code).hexdigest() != row.sha256:
        log.warning("kernel file %s is damaged; it is removed and the kernel is built again", path)
        return None
    return Kernel(
        symbol=row.symbol,
        workload=row.workload,
        target=row.target,
        tvm=row.tvm,
        schedule=ScheduleSpec.from_json(json.loads(row.schedule)),
        packed=tuple(PackedArgument.from_json(item) for item in json.loads(row.packed)),
        code=code,
    )


def forget_file(connection: sa.Connection, folder: Path, sha256: str) -> None:
    """Removes a file and every row that stands on it."""
    connection.execute(sa.delete(kernels).where(kernels.c.sha256 == sha256))
    code_path(folder, sha256).unlink(missing_ok=True)


def sweep(connection: sa.Connection, folder: Path) -> int:
    """Removes files that no row names (left by a killed run); returns their bytes."""
    named = {f"{sha256}.o" for sha256 in connection.scalars(sa.select(kernels.c.sha256).distinct())}
    freed = 0
    for path in (folder / "kernels").glob("*"):
        if path.name not in named:
            freed += path.stat().st_size
            path.unlink(missing_ok=True)
    return freed


def drop(connection: sa.Connection, condition: sa.ColumnElement[bool]) -> int:
    """Forgets the rows that match; their files go with the next :func:`sweep`."""
    return connection.execute(sa.delete(kernels).where(condition)).rowcount


def oldest_beyond(connection: sa.Connection, most_bytes: int) -> list[str]:
    """Files, oldest first, whose removal brings the cache down to ``most_bytes``."""
    query = sa.select(kernels.c.sha256, sa.func.max(kernels.c.bytes), sa.func.max(kernels.c.created).label("made"))
    rows = connection.execute(query.group_by(kernels.c.sha256).order_by("made")).all()
    excess = sum(size for _, size, _ in rows) - most_bytes
    chosen: list[str] = []
    for sha256, size, _ in rows:
        if excess <= 0:
            break
        chosen.append(sha256)
        excess -= size
    return chosen
