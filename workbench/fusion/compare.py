"""What differs between two plans of one model, read from their documents alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from ..errors import PlanError
from .categories import FUSED
from .plan import Decision
from .schema import DocumentGroup, PlanDocument

SINGLE = "single"


@dataclass(frozen=True)
class Setting:
    """What the plans were made with, where it differs."""

    what: str
    a: str
    b: str


@dataclass(frozen=True)
class GroupChange:
    """A group of one plan alone, or one whose rule changed (then ``rule_a`` and ``rule_b`` are both set)."""

    nodes: tuple[str, ...]
    ops: tuple[str, ...]
    rule_a: str | None
    rule_b: str | None
    a_us: float | None
    b_us: float | None


@dataclass(frozen=True)
class BoundaryChange:
    """A candidate or an edge that the plans judge differently."""

    boundary: str
    verdict_a: str
    category_a: str
    reason_a: str
    verdict_b: str
    category_b: str
    reason_b: str


@dataclass(frozen=True)
class RuleCount:
    """How many sets a rule's pattern matched, and how many groups of several nodes came of it, in each plan."""

    rule: str
    matched_a: int
    matched_b: int
    groups_a: int
    groups_b: int


@dataclass(frozen=True)
class PlanComparison:
    """Plan B against plan A. Times in microseconds.."""

    model: str
    a: str
    b: str
    predicted_a_us: float
    predicted_b_us: float
    kernels_a: int
    kernels_b: int
    settings: tuple[Setting, ...]
    only_a: tuple[GroupChange, ...]
    only_b: tuple[GroupChange, ...]
    changed: tuple[GroupChange, ...]
    boundaries: tuple[BoundaryChange, ...]
    rules: tuple[RuleCount, ...]

    @property
    def same_groups(self) -> bool:
        """Whether both plans make the same kernels by the same rules."""
        return not (self.only_a or self.only_b or self.changed)

    def summary(self) -> str:
        """One sentence."""
        if self.same_groups:
            return f"{self.model}: the same {self.kernels_a} groups in both plans"
        return (
            f"{self.model}: {len(self.only_a)} groups only in A, {len(self.only_b)} only in B, "
            f"{len(self.changed)} by another rule; {self.kernels_a} groups became {self.kernels_b}"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "same_groups": self.same_groups}


def compare_documents(a: PlanDocument, b: PlanDocument, name_a: str = "A", name_b: str = "B") -> PlanComparison:
    """What changed from plan ``a`` to plan ``b``. Raises PlanError for plans of different models."""
    if a.model.fingerprint != b.model.fingerprint:
        raise PlanError(
            f"{name_a} is a plan of '{a.model.name}' ({a.model.fingerprint[:12]}), {name_b} of '{b.model.name}' "
            f"({b.model.fingerprint[:12]}); compare plans of one model at the same sizes"
        )
    in_a = {frozenset(group.nodes): group for group in a.groups}
    in_b = {frozenset(group.nodes): group for group in b.groups}
    both = [(group, in_b[nodes]) for nodes, group in in_a.items() if nodes in in_b]
    return PlanComparison(
        model=a.model.name,
        a=name_a,
        b=name_b,
        predicted_a_us=a.predicted_us,
        predicted_b_us=b.predicted_us,
        kernels_a=len(a.groups),
        kernels_b=len(b.groups),
        settings=_settings(a, b),
        only_a=tuple(_change(group, None) for nodes, group in in_a.items() if nodes not in in_b),
        only_b=tuple(_change(None, group) for nodes, group in in_b.items() if nodes not in in_a),
        changed=tuple(_change(one, other) for one, other in both if _rule(one) != _rule(other)),
        boundaries=_boundaries(a, b),
        rules=_rules(a, b),
    )


def _rule(group: DocumentGroup) -> str:
    return group.rule or (SINGLE if len(group.nodes) == 1 else "edited")


def _change(a: DocumentGroup | None, b: DocumentGroup | None) -> GroupChange:
    known = a or b
    assert known is not None
    return GroupChange(
        known.nodes,
        known.ops,
        None if a is None else _rule(a),
        None if b is None else _rule(b),
        None if a is None else a.predicted_us,
        None if b is None else b.predicted_us,
    )


def _settings(a: PlanDocument, b: PlanDocument) -> tuple[Setting, ...]:
    def text(value: object) -> str:
        if isinstance(value, tuple):
            return ", ".join("+".join(one) if isinstance(one, tuple) else str(one) for one in value) or "none"
        return "none" if value in (None, "") else str(value)

    names = ("target", "planner", "objective", "cost_model", "search", "rules", "rules_off", "max_nodes", "pins",
             "forbidden")  # fmt: skip
    found = [(name, getattr(a, name), getattr(b, name)) for name in names]
    return tuple(Setting(name.replace("_", " "), text(one), text(other)) for name, one, other in found if one != other)


def _boundaries(a: PlanDocument, b: PlanDocument) -> tuple[BoundaryChange, ...]:
    """Boundaries that both plans judge, and edges that are between groups in one and inside a group in the other."""
    in_a, in_b = _last(a.decisions), _last(b.decisions)
    changes = []
    for boundary in dict.fromkeys((*in_a, *in_b)):
        one, other = in_a.get(boundary) or _inside(a, boundary), in_b.get(boundary) or _inside(b, boundary)
        if one is None or other is None or (one.verdict, one.category) == (other.verdict, other.category):
            continue
        changes.append(
            BoundaryChange(boundary, one.verdict, one.category, one.reason, other.verdict, other.category, other.reason)
        )
    return tuple(changes)


def _last(decisions: Iterable[Decision]) -> dict[str, Decision]:
    """The last word about each boundary: a revision adds to what was decided before it."""
    return {decision.boundary: decision for decision in decisions}


def _inside(plan: PlanDocument, boundary: str) -> Decision | None:
    """What a plan says of an edge inside one of its groups."""
    ends = boundary.split("->")
    if len(ends) != 2:
        return None
    owners = [plan.group_of.get(end) for end in ends]
    if owners[0] is None or any(one is not other for one, other in pairwise(owners)):
        return None
    return Decision(boundary, _rule(owners[0]), "fuse", {}, None, None, f"inside {owners[0].id}", category=FUSED)


def _rules(a: PlanDocument, b: PlanDocument) -> tuple[RuleCount, ...]:
    """Rules whose counts differ, in the order in which they were asked."""
    matched_a, matched_b = _matched(a), _matched(b)
    groups_a, groups_b = _grouped(a.groups), _grouped(b.groups)
    names = dict.fromkeys((*a.rules, *b.rules, *groups_a, *groups_b, *matched_a, *matched_b))
    counts = [
        RuleCount(name, matched_a[name], matched_b[name], groups_a[name], groups_b[name]) for name in names if name
    ]
    return tuple(
        one for one in counts if (one.matched_a, one.groups_a) != (one.matched_b, one.groups_b) and one.rule != SINGLE
    )


def _matched(plan: PlanDocument) -> Counter[str]:
    return Counter(decision.rule for decision in plan.decisions if decision.nodes)


def _grouped(groups: Sequence[DocumentGroup]) -> Counter[str]:
    return Counter(_rule(group) for group in groups if len(group.nodes) > 1)
