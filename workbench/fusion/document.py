"""A plan as a JSON document that people read, edit and compare."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import IllegalGroup, PlanError
from ..graph import Graph
from .legality import check, check_partition
from .plan import SCHEMA, Decision, FusionPlan, Group

if TYPE_CHECKING:
    from ..targets.target import Target
    from .cost_models import CostModel
    from .rules import Rule
    from .schema import DocumentGroup, PlanDocument

EDITED = "edited"  # the rule of a group that a person wrote


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
        "groups": [plain(asdict(group)) for group in plan.groups],
        "decisions": [plain(decision_json(decision)) for decision in plan.decisions],
        "pins": [list(pin) for pin in plan.pins],
        "forbidden": [list(edge) for edge in plan.forbidden],
        "extra": plain(dict(plan.extra)),
    }


def decision_json(decision: Decision) -> dict[str, Any]:
    """Field by field: the mappings inside may be read-only views, which ``asdict`` cannot copy."""
    return {
        "boundary": decision.boundary,
        "rule": decision.rule,
        "verdict": decision.verdict,
        "category": decision.category,
        "expected": decision.expected,
        "predicted_us": _finite(decision.predicted_us),
        "predicted_range_us": _ranges(decision.predicted_range_us),
        "measured_us": None if decision.measured_us is None else _finite(decision.measured_us),
        "measured_range_us": _ranges(decision.measured_range_us),
        "measured_in": decision.measured_in,
        "beside_us": _finite(decision.beside_us),
        "factors": None if decision.factors is None else asdict(decision.factors),
        "reason": decision.reason,
        "nodes": decision.nodes,
        "kind": decision.kind,
        "rewrite": decision.rewrite,
    }


def _finite(times: Mapping[str, float]) -> dict[str, float]:
    return {name: float(us) for name, us in times.items() if math.isfinite(us)}


def _ranges(given: Mapping[str, tuple[float, float]]) -> dict[str, list[float]]:
    return {name: list(bounds) for name, bounds in given.items() if all(map(math.isfinite, bounds))}


def plain(value: Any) -> Any:
    """Tuples as lists, and numbers that JSON lacks as None."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def save(plan: FusionPlan, path: str | Path) -> None:
    """Write the document. Raises PlanError when the file cannot be written."""
    try:
        Path(path).write_text(json.dumps(to_json(plan), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise PlanError(f"plan {path} cannot be written: {error.strerror}; give another path") from error


def load(
    path: str | Path,
    graph: Graph,
    target: Target | None = None,
    rules: Sequence[Rule] | None = None,
    cost_model: CostModel | None = None,
) -> FusionPlan:
    """The plan in a file, for ``graph``. Raises PlanError; see :func:`from_document`."""
    from .schema import read_document

    return from_document(read_document(path), graph, str(path), target, rules, cost_model)


def from_json(
    document: Any,
    graph: Graph,
    source: str = "document",
    target: Target | None = None,
    rules: Sequence[Rule] | None = None,
    cost_model: CostModel | None = None,
) -> FusionPlan:
    """The plan that plain data describes; see :func:`from_document`."""
    from .schema import parse_document

    return from_document(parse_document(document, source), graph, source, target, rules, cost_model)


def from_document(
    document: PlanDocument,
    graph: Graph,
    source: str = "document",
    target: Target | None = None,
    rules: Sequence[Rule] | None = None,
    cost_model: CostModel | None = None,
) -> FusionPlan:
    """The plan that a document describes; groups are put in execution order and numbered anew.

    Groups that break the document's own wishes (a pin, a forbidden pair, a rule that is off, the size limit) are
    planned again under these wishes for ``target`` by ``cost_model``, see ``replan``; without a target that raises
    IllegalGroup.

    Raises PlanError when the document is broken, of a newer schema or for another model, and IllegalGroup (with the
    reason) when a group, a pin or the partition cannot be.
    """
    from .replan import broken_wish, check_pins, replan

    identity = document.model
    if identity.fingerprint != graph.fingerprint:
        raise PlanError(
            f"plan {source} is for model '{identity.name}' ({identity.fingerprint[:12]}), not '{graph.name}' "
            f"({graph.fingerprint[:12]}); make a plan of this model"
        )
    groups = _checked(graph, [_group(group) for group in document.groups])
    check_pins(graph, document.pins, document.forbidden, document.max_nodes)
    wish = broken_wish(groups, document)
    if wish is not None and target is not None:
        return replan(document, graph, target, rules, cost_model)
    if wish is not None:
        raise wish
    return FusionPlan(
        graph=graph,
        target_key=document.target,
        planner=document.planner,
        groups=groups,
        decisions=document.decisions,
        pins=document.pins,
        forbidden=document.forbidden,
        rules=document.rules,
        rules_off=document.rules_off,
        max_nodes=document.max_nodes,
        objective=document.objective,
        cost_model=document.cost_model,
        search=document.search,
        extra=document.extra,
    )


def _checked(graph: Graph, groups: Sequence[Group]) -> tuple[Group, ...]:
    """The groups in execution order, numbered and with their operators. Raises IllegalGroup."""
    order = check_partition(graph, [group.nodes for group in groups])
    for group in groups:
        try:
            check(graph, group.nodes, "horizontal", group.rewrite)
        except IllegalGroup as error:
            raise IllegalGroup(error.category, f"group {'+'.join(group.nodes)}: {error.detail}") from None
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


def _group(given: DocumentGroup) -> Group:
    single = len(given.nodes) == 1
    return Group(
        id=given.id,
        nodes=given.nodes,
        ops=given.ops,
        rule=given.rule or ("single" if single else EDITED),
        kind=given.kind or ("single" if single else "vertical"),
        reason=given.reason,
        predicted_us=given.predicted_us or 0.0,
        rewrite=given.rewrite,
        workload=given.workload,
    )
