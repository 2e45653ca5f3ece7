"""A plan as a JSON document that people read, edit and compare."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..errors import IllegalGroup, PlanError
from ..graph import Graph
from .categories import FORBIDDEN, OVERLAP
from .legality import check, check_partition
from .plan import SCHEMA, Decision, Factors, FusionPlan, Group


def to_json(plan: FusionPlan) -> dict[str, Any]:
    """The plan with its schema number and the model's fingerprint; times in microseconds, as the names say."""
    return {
        "schema": SCHEMA,
        "model": {"name": plan.graph.name, "fingerprint": plan.graph.fingerprint},
        "target": plan.target_key,
        "planner": plan.planner,
        "objective": plan.objective,
        "cost_model": plan.cost_model,
        "search": plan.search,
        "rules": list(plan.rules),
        "rules_off": list(plan.rules_off),
        "max_nodes": plan.max_nodes,
        "groups": [_plain(asdict(group)) for group in plan.groups],
        "decisions": [_plain(_decision(decision)) for decision in plan.decisions],
        "pins": [list(pin) for pin in plan.pins],
        "forbidden": [list(edge) for edge in plan.forbidden],
        "extra": dict(plan.extra),
    }


def _decision(decision: Decision) -> dict[str, Any]:
    """Field by field: the mappings inside may be read-only views, which ``asdict`` cannot copy."""
    return {
        "boundary": decision.boundary,
        "rule": decision.rule,
        "verdict": decision.verdict,
        "category": decision.category,
        "expected": decision.expected,
        "predicted_us": dict(decision.predicted_us),
        "predicted_range_us": _ranges(decision.predicted_range_us),
        "measured_us": None if decision.measured_us is None else dict(decision.measured_us),
        "measured_range_us": _ranges(decision.measured_range_us),
        "factors": None if decision.factors is None else asdict(decision.factors),
        "reason": decision.reason,
        "nodes": decision.nodes,
        "kind": decision.kind,
        "rewrite": decision.rewrite,
    }


def _ranges(given: Mapping[str, tuple[float, float]]) -> dict[str, list[float]]:
    return {name: list(bounds) for name, bounds in given.items()}


def save(plan: FusionPlan, path: str | Path) -> None:
    """Write the document. Raises PlanError when the file cannot be written."""
    try:
        Path(path).write_text(json.dumps(to_json(plan), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise PlanError(f"plan {path} cannot be written: {error.strerror}; give another path") from error


def load(path: str | Path, graph: Graph) -> FusionPlan:
    """The plan in a file, for ``graph``. Raises PlanError; see :func:`from_json`."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise PlanError(f"plan {path} cannot be read: {error.strerror}; give a file of 'workbench plan -o'") from error
    except ValueError as error:
        raise PlanError(f"plan {path} is no JSON: {error}; write it with 'workbench plan MODEL -o FILE'") from error
    return from_json(document, graph, str(path))


def from_json(document: Any, graph: Graph, source: str = "document") -> FusionPlan:
    """The plan that a document describes; groups are put in execution order and numbered anew.

    Raises PlanError when the document is broken, of a newer schema or for another model, and IllegalGroup (with the
    reason) when a group, a pin or the partition cannot be.
    """
    if not isinstance(document, Mapping):
        raise PlanError(f"plan {source} is no JSON object; write it with 'workbench plan MODEL -o FILE'")
    schema = document.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        raise PlanError(f"plan {source} has schema {schema!r}, this version reads up to {SCHEMA}; update workbench")
    try:
        model, target = document["model"], str(document["target"])
        groups = [_group(item) for item in document["groups"]]
        decisions = tuple(_read_decision(item) for item in document.get("decisions", ()))
        pins = tuple(tuple(map(str, pin)) for pin in document.get("pins", ()))
        forbidden = tuple((str(first), str(second)) for first, second in document.get("forbidden", ()))
        fingerprint, name = model["fingerprint"], model.get("name", "?")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PlanError(f"plan {source} is broken: {type(error).__name__} {error}; write it again") from error
    if fingerprint != graph.fingerprint:
        raise PlanError(
            f"plan {source} is for model '{name}' ({str(fingerprint)[:12]}), not '{graph.name}' "
            f"({graph.fingerprint[:12]}); make a plan of this model"
        )
    return FusionPlan(
        graph=graph,
        target_key=target,
        planner=str(document.get("planner", "")),
        groups=_checked(graph, groups, pins, forbidden),
        decisions=decisions,
        pins=pins,
        forbidden=forbidden,
        rules=tuple(document.get("rules", ())),
        rules_off=tuple(map(str, document.get("rules_off") or ())),
        max_nodes=_limit(document.get("max_nodes"), source),
        objective=str(document.get("objective") or "latency"),
        cost_model=str(document.get("cost_model") or ""),
        search=str(document.get("search") or ""),
        extra=dict(document.get("extra") or {}),
    )


def _limit(given: Any, source: str) -> int | None:
    if given is None or (isinstance(given, int) and not isinstance(given, bool) and given > 0):
        return given
    raise PlanError(f"plan {source} is broken: max_nodes is {given!r}; give a number above 0, or null for no limit")


def _checked(
    graph: Graph, groups: Sequence[Group], pins: Sequence[Sequence[str]], forbidden: Sequence[tuple[str, str]]
) -> tuple[Group, ...]:
    order = check_partition(graph, [group.nodes for group in groups])
    for group in groups:
        check(graph, group.nodes, "horizontal", group.rewrite)
        for first, second in forbidden:
            if first in group.nodes and second in group.nodes:
                raise IllegalGroup(FORBIDDEN, f"{first}->{second} is forbidden but both are in group {group.id}")
    for pin in pins:
        check(graph, pin, "horizontal")
        if not any(set(pin) == set(group.nodes) for group in groups):
            raise IllegalGroup(OVERLAP, f"pin {'+'.join(pin)} is none of the groups; plan again with this pin")
    return tuple(
        Group(
            id=f"g{place}",
            nodes=graph.order(groups[i].nodes),
            ops=tuple(graph.node(node).op for node in graph.order(groups[i].nodes)),
            rule=groups[i].rule,
            kind=groups[i].kind,
            reason=groups[i].reason,
            predicted_us=groups[i].predicted_us,
            rewrite=groups[i].rewrite,
            workload=groups[i].workload,
        )
        for place, i in enumerate(order)
    )


def _rewrite(item: Mapping[str, Any]) -> str | None:
    found = item.get("rewrite")
    if found is not None and not isinstance(found, str):
        raise TypeError(f"'rewrite' is {found!r}, not a name")
    return found


def _group(item: Mapping[str, Any]) -> Group:
    nodes = tuple(map(str, item["nodes"]))
    kind = str(item.get("kind") or ("single" if len(nodes) == 1 else "vertical"))
    predicted = float(item.get("predicted_us") or 0.0)
    return Group(
        id=str(item.get("id", "?")),
        nodes=nodes,
        ops=tuple(item.get("ops", ())),
        rule=str(item.get("rule") or ("single" if len(nodes) == 1 else "edited")),
        kind=kind,
        reason=str(item.get("reason", "")),
        predicted_us=predicted,
        rewrite=_rewrite(item),
        workload=item.get("workload"),
    )


def _read_decision(item: Mapping[str, Any]) -> Decision:
    measured = item.get("measured_us")
    given = item.get("factors")
    return Decision(
        boundary=str(item["boundary"]),
        rule=str(item["rule"]),
        verdict=item["verdict"],
        predicted_us=dict(item["predicted_us"]),
        measured_us=None if measured is None else dict(measured),
        factors=None if given is None else Factors(**given),
        reason=str(item["reason"]),
        nodes=tuple(item.get("nodes", ())),
        kind=str(item.get("kind", "")),
        rewrite=_rewrite(item),
        category=str(item.get("category") or ""),
        predicted_range_us=_read_ranges(item.get("predicted_range_us")),
        measured_range_us=_read_ranges(item.get("measured_range_us")),
        expected=item.get("expected"),
    )


def _read_ranges(given: Mapping[str, Sequence[float]] | None) -> dict[str, tuple[float, float]]:
    return {str(name): (float(low), float(high)) for name, (low, high) in (given or {}).items()}


def _plain(value: Any) -> Any:
    """Tuples as lists, and numbers that JSON lacks as None."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
