"""Records as JSON and back, with every field checked on the way in."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, get_args

from .record import MeasureSettings, Record, ScheduleSpec, Stage, Status

STATUSES: tuple[str, ...] = get_args(Status)
STAGES: tuple[str, ...] = get_args(Stage)
_TEXTS = ("workload", "target", "tvm")
_OPTIONAL: dict[str, type] = {
    "error": str,
    "strategy": str,
    "seed": int,
    "trial": int,
    "elapsed_s": float,
    "created": str,
    "machine": str,
    "stage": str,
    "space": str,
}
# Left out where they hold this, so that a record of before has the digest that it had.
_LATER = {"space": "", "stage": "search"}

_NOTHING = object()


def canonical(document: Any) -> str:
    """JSON with sorted keys, no spaces, and neither NaN nor infinity; equal documents give equal text.

    Raises ValueError or TypeError for what JSON cannot hold.
    """
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def digest(text: str) -> str:
    """sha256, hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


def record_to_json(record: Record) -> dict[str, Any]:
    """Every field under its own name; seconds as a list. Fields of ``_LATER`` where they say something."""
    document = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    document = {name: value for name, value in document.items() if value != _LATER.get(name, _NOTHING)}
    document["schedule"] = record.schedule.to_json()
    document["settings"] = dataclasses.asdict(record.settings)
    document["seconds"] = list(record.seconds)
    return document


def dump_record(record: Record) -> str:
    """The record as canonical JSON, after reading it back: what is written can be read again.

    Raises ValueError when it cannot.
    """
    try:
        text = canonical(record_to_json(record))
    except TypeError as error:
        raise ValueError(f"schedule data is no JSON: {error}") from error
    if canonical(record_to_json(load_record(text))) != text:
        raise ValueError("the record reads back differently from what was written")
    return text


def load_record(text: str) -> Record:
    """A record from its JSON. Raises ValueError naming the field that is wrong."""
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError(f"a record is a JSON object, not {type(document).__name__}")
    for name in _TEXTS:
        if not isinstance(document.get(name), str) or not document[name]:
            raise ValueError(f"field '{name}' must be a non-empty string, not {document.get(name)!r}")
    status = document.get("status")
    if status not in STATUSES:
        raise ValueError(f"field 'status' must be one of {', '.join(STATUSES)}, not {status!r}")
    return Record(
        workload=document["workload"],
        target=document["target"],
        tvm=document["tvm"],
        schedule=_schedule(document.get("schedule")),
        status=status,
        seconds=_seconds(document.get("seconds"), status),
        settings=_settings(document.get("settings")),
        **_optional(document),
    )


def _schedule(document: object) -> ScheduleSpec:
    if not isinstance(document, Mapping) or not {"kind", "name", "data"} <= document.keys():
        raise ValueError("field 'schedule' must have kind, name and data")
    if document["kind"] not in ("trace", "library", "default"):
        raise ValueError(f"schedule kind must be trace, library or default, not {document['kind']!r}")
    if not isinstance(document["name"], str):
        raise ValueError(f"schedule name must be a string, not {document['name']!r}")
    if document["kind"] == "trace" and not (isinstance(document["data"], list | str | dict) and document["data"]):
        raise ValueError(f"a trace's data must be the JSON of a trace, not {document['data']!r}")
    return ScheduleSpec.from_json(document)


def _seconds(values: object, status: str) -> tuple[float, ...]:
    if not isinstance(values, list) or not all(_is_time(value) for value in values):
        raise ValueError("field 'seconds' must be a list of positive, finite numbers")
    if bool(values) != (status == "ok"):
        raise ValueError(f"a record with status '{status}' and {len(values)} times contradicts itself")
    return tuple(float(value) for value in values)


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def _settings(document: object) -> MeasureSettings:
    if not isinstance(document, Mapping):
        raise ValueError("field 'settings' must be an object")
    known = {field.name: field.default for field in dataclasses.fields(MeasureSettings)}
    if unknown := document.keys() - known.keys():
        raise ValueError(f"settings have unknown fields: {', '.join(sorted(unknown))}")
    for name, value in document.items():
        if type(value) is not type(known[name]):
            raise ValueError(f"settings field '{name}' must be {type(known[name]).__name__}, not {value!r}")
    return MeasureSettings(**document)


def _optional(document: Mapping[str, Any]) -> dict[str, Any]:
    known = {field.name for field in dataclasses.fields(Record)}
    if unknown := document.keys() - known:
        raise ValueError(f"unknown fields: {', '.join(sorted(unknown))}")
    values = {name: document[name] for name in _OPTIONAL if name in document}
    for name, value in values.items():
        wanted: Any = int | float if _OPTIONAL[name] is float else _OPTIONAL[name]
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise ValueError(f"field '{name}' must be {_OPTIONAL[name].__name__}, not {value!r}")
        values[name] = _OPTIONAL[name](value)
    if values.get("stage", "search") not in STAGES:
        raise ValueError(f"field 'stage' must be one of {', '.join(STAGES)}, not {values['stage']!r}")
    return values
