"""What a plan document may hold: the models that it is validated with, and a plan as its file tells it.

Comparing two plans needs no more than their documents: neither the model nor TVM. The JSON Schema that editors read
is ``workbench plan --schema``, and ``docs/plan.schema.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import PlanError
from .plan import SCHEMA, Decision

ADVICE = "write it with 'workbench plan MODEL -o FILE'"


class _Part(BaseModel):
    """Frozen, finite, and strict about names: a misspelt field of an edited plan must not pass unread."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, extra="forbid")


class ModelIdentity(_Part):
    """The model that a plan is for."""

    name: str = "?"
    fingerprint: str


class DocumentGroup(_Part):
    """A group. An edited one needs no more than ``nodes``."""

    id: str = "?"
    nodes: tuple[str, ...] = Field(description="Nodes that become one kernel, in any order.")
    ops: tuple[str, ...] = ()
    rule: str | None = Field(None, description='The rule that proposed it; "single" for one node.')
    kind: str | None = None
    reason: str = ""
    predicted_us: float | None = None
    rewrite: str | None = None
    workload: str | None = None


class PlanDocument(_Part):
    """A plan as its document tells it. Edit ``pins``, ``forbidden``, ``rules_off``, ``max_nodes`` or ``groups``."""

    version: Annotated[int, Field(alias="schema", ge=1, le=SCHEMA)]
    model: ModelIdentity
    target: str
    planner: str = ""
    objective: Literal["latency", "memory", "kernels", "compile"] = "latency"
    cost_model: str = ""
    search: str = ""
    rules: tuple[str, ...] = ()
    rules_off: tuple[str, ...] = Field((), description="Rules, by name, whose groups must not be in the plan.")
    max_nodes: int | None = Field(None, gt=0, description="The most operators in one kernel; null: no limit.")
    groups: tuple[DocumentGroup, ...]
    decisions: tuple[Decision, ...] = Field((), description="The evidence; not read for what to fuse.")
    pins: tuple[tuple[str, ...], ...] = Field((), description="Sets of nodes that must be one kernel each.")
    forbidden: tuple[tuple[str, str], ...] = Field((), description="Pairs of nodes that must not share a kernel.")
    extra: Mapping[str, Any] = {}

    @cached_property
    def group_of(self) -> Mapping[str, DocumentGroup]:
        """Node -> the group that holds it."""
        return {node: group for group in self.groups for node in group.nodes}

    @property
    def predicted_us(self) -> float:
        """Predicted microseconds of the whole: the sum over all groups."""
        return sum(group.predicted_us or 0.0 for group in self.groups)


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a plan document."""
    schema = PlanDocument.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Fusion plan"}


def read_document(path: str | Path) -> PlanDocument:
    """The document in a file. Raises PlanError that names the file, and the field where one is wrong."""
    try:
        given = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise PlanError(f"plan {path} cannot be read: {error.strerror}; give a file of 'workbench plan -o'") from error
    except ValueError as error:
        raise PlanError(f"plan {path} is no JSON: {error}; {ADVICE}") from error
    return parse_document(given, str(path))


def parse_document(given: Any, source: str = "document") -> PlanDocument:
    """The document in plain data. Raises PlanError; ``source`` is what the message calls it."""
    if not isinstance(given, Mapping):
        raise PlanError(f"plan {source} is no JSON object; {ADVICE}")
    version = given.get("schema")
    if isinstance(version, bool) or not isinstance(version, int) or version > SCHEMA:
        raise PlanError(f"plan {source} has schema {version!r}, this version reads up to {SCHEMA}; update workbench")
    try:
        return PlanDocument.model_validate(given)
    except ValidationError as error:
        raise PlanError(f"plan {source} is broken: {_first(error)}; {_advice(error)}") from error


def _first(error: ValidationError) -> str:
    """``groups[2].nodes: Field required``, and how many more there are."""
    details = error.errors(include_url=False)
    first = details[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    words = {"extra_forbidden": "there is no such field", "missing": "it is missing"}.get(first["type"], first["msg"])
    given = "" if first["type"] in ("extra_forbidden", "missing") else f", not {_short(first['input'])}"
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    return f"{place}: {words[0].lower()}{words[1:]}{given}{more}"


def _advice(error: ValidationError) -> str:
    if error.errors(include_url=False)[0]["type"] == "extra_forbidden":
        return f"fields that may be edited: pins, forbidden, rules_off, max_nodes, groups; or {ADVICE}"
    return f"'workbench plan --schema' says what a plan may hold, or {ADVICE}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:39] + "…"
