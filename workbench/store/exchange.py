"""Records as files: one a line, with a schema version in the first line; ``.gz`` when the name ends so.

The groups of the records' workloads follow them, one a line. They leave the schema as it is: an older workbench rejects
these lines one by one and reads every record.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import StoreError
from ._kernels import write_file
from .record import Record
from .serialise import canonical, load_record

FORMAT = "workbench-records"
SCHEMA = 1


@dataclass(frozen=True)
class RejectedLine:
    """A line that could not be read, and why."""

    line: int
    reason: str
    text: str


@dataclass(frozen=True)
class ImportReport:
    """What an import did. ``rejected_path`` holds the lines that could not be read, each with its reason."""

    path: Path
    added: int
    duplicates: int
    rejected: tuple[RejectedLine, ...] = ()
    rejected_path: Path | None = None
    groups: int = 0  # documents of groups that were not there

    def to_json(self) -> dict[str, Any]:
        return {
            "path": str(self.path),
            "added": self.added,
            "duplicates": self.duplicates,
            "rejected": [{"line": one.line, "reason": one.reason} for one in self.rejected],
            "groups": self.groups,
            "rejected_path": None if self.rejected_path is None else str(self.rejected_path),
        }

    def describe(self) -> str:
        """One line for people."""
        text = f"{self.added} records added, {self.duplicates} already there"
        if self.rejected:
            first = self.rejected[0]
            text += f", {len(self.rejected)} lines rejected (line {first.line}: {first.reason})"
            text += f", kept in {self.rejected_path}"
        return text


def write_records(path: Path, documents: Iterable[str], groups: Iterable[str] = ()) -> int:
    """Writes the header and one document a line, whole or not at all; returns the number of records."""
    lines, others = list(documents), list(groups)
    header: dict[str, Any] = {"format": FORMAT, "schema": SCHEMA, "records": len(lines)}
    if others:
        header["groups"] = len(others)
    data = "\n".join([canonical(header), *lines, *others, ""]).encode()
    # No time stamp in the archive: equal records make an equal file.
    write_file(path, gzip.compress(data, mtime=0) if path.name.endswith(".gz") else data)
    return len(lines)


def read_records(
    path: Path, check: Callable[[Record], str | None] | None = None
) -> tuple[list[Record], dict[str, dict[str, Any]], list[RejectedLine]]:
    """Good records, groups by workload, and rejected lines of a file.

    ``check`` may reject a record by giving a reason.

    Raises StoreError when the file is of a newer schema, and OSError when it cannot be read.
    """
    good: list[Record] = []
    groups: dict[str, dict[str, Any]] = {}
    rejected: list[RejectedLine] = []
    for number, text in enumerate(_lines(path, rejected), start=1):
        if not text.strip() or (number == 1 and _is_header(path, text)):
            continue
        try:
            reason = _read_line(text, good, groups, check)
        except ValueError as error:
            reason = str(error)
        if reason:
            rejected.append(RejectedLine(number, " ".join(reason.split()), text))
    return good, groups, rejected


def _read_line(
    text: str, good: list[Record], groups: dict[str, dict[str, Any]], check: Callable[[Record], str | None] | None
) -> str | None:
    """Adds what the line holds to ``good`` or ``groups``; gives the reason, or raises ValueError, where it does not."""
    if '"group"' in text and isinstance(document := json.loads(text), dict) and "group" in document:
        workload, group = document.get("workload"), document["group"]
        if not isinstance(workload, str) or not workload or not isinstance(group, dict):
            return "a group's line must have 'workload', a non-empty string, and 'group', an object"
        groups[workload] = group
        return None
    record = load_record(text)
    reason = check(record) if check is not None else None
    if not reason:
        good.append(record)
    return reason


def _lines(path: Path, rejected: list[RejectedLine]) -> Iterator[str]:
    """Lines up to the end, or up to where a damaged archive can be read; the damage is one more rejected line."""
    number = 0
    with path.open("rb") as raw:
        file = gzip.GzipFile(fileobj=raw) if path.name.endswith(".gz") else raw
        try:
            for line in file:
                number += 1
                yield line.decode("utf-8", errors="replace").rstrip("\r\n")
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            rejected.append(RejectedLine(number + 1, f"the archive is damaged from here on: {error}", ""))


def _is_header(path: Path, text: str) -> bool:
    """Whether the line is the header; a damaged header is rejected like any line, and the rest still loads."""
    try:
        document = json.loads(text)
    except ValueError:
        return False
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        return False
    schema = document.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        raise StoreError(
            f"{path} has schema {schema}, and this workbench reads up to {SCHEMA}; upgrade the workbench, "
            "or export the records again with this version"
        )
    return True


def write_rejected(path: Path, lines: Iterable[RejectedLine], fallback: Path) -> Path:
    """Keeps rejected lines beside the file, or in ``fallback`` where that folder cannot be written."""
    text = "".join(canonical({"line": item.line, "reason": item.reason, "text": item.text}) + "\n" for item in lines)
    beside = path.with_name(path.name + ".rejected")
    try:
        write_file(beside, text.encode("utf-8", errors="replace"))
    except OSError:
        beside = fallback / beside.name
        write_file(beside, text.encode("utf-8", errors="replace"))
    return beside
