"""Why a node or an edge of a plan is where it is: every rule's word, what became of it, and what stopped it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ..errors import IllegalGroup, PlanError
from .categories import FUSED, INSIDE, LEGALITY, NO_RULE, OUTBID, PINNED
from .constraints import refused_wish
from .document import decision_json, plain
from .legality import Reachability, check, check_candidate, check_partition
from .plan import Decision, Factors, FusionPlan, Group
from .profit import factors
from .rules import Candidate, Refusal, Rule, propose

Word = Literal["proposed", "refused", "off", "nothing of its pattern here"]


@dataclass(frozen=True)
class Proposal:
    """A set of nodes that was considered, and what became of it. ``factors`` are None where it is illegal."""

    nodes: tuple[str, ...]
    category: str
    reason: str
    decision: Decision | None
    factors: Factors | None


@dataclass(frozen=True)
class RuleWord:
    """What one rule says of the subject."""

    rule: str
    word: Word
    proposals: tuple[Proposal, ...] = ()
    refusals: tuple[Refusal, ...] = ()


@dataclass(frozen=True)
class EdgeOutcome:
    """Whether an edge is inside a group; if not, the category of what stopped it.

    ``factors``: those of both groups as one kernel, where that would be legal and the plan knows its target.
    """

    edge: str  # "lv3->lv4"
    group: str | None  # the group that holds both ends
    category: str
    reason: str
    decision: Decision | None = None  # the plan's own about this edge
    factors: Factors | None = None


@dataclass(frozen=True)
class Explanation:
    """All that is known about a node or an edge. ``others``: decisions about sets that no rule given here proposes.

    ``groups`` hold the subject: one for a node and a fused edge, two for another edge. ``edges`` are the edge itself,
    or those of the node.
    """

    subject: str
    groups: tuple[Group, ...]
    rules: tuple[RuleWord, ...]
    others: tuple[Proposal, ...]
    edges: tuple[EdgeOutcome, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data; times in microseconds."""
        return {
            "subject": self.subject,
            "groups": [plain(asdict(group)) for group in self.groups],
            "rules": [
                {
                    "rule": one.rule,
                    "word": one.word,
                    "proposals": [_proposal_json(proposal) for proposal in one.proposals],
                    "refusals": [plain(asdict(refusal)) for refusal in one.refusals],
                }
                for one in self.rules
            ],
            "others": [_proposal_json(proposal) for proposal in self.others],
            "edges": [_edge_json(edge) for edge in self.edges],
        }


def _proposal_json(proposal: Proposal) -> dict[str, Any]:
    return {
        "nodes": list(proposal.nodes),
        "category": proposal.category,
        "reason": proposal.reason,
        "decision": None if proposal.decision is None else plain(decision_json(proposal.decision)),
        "factors": None if proposal.factors is None else plain(asdict(proposal.factors)),
    }


def _edge_json(edge: EdgeOutcome) -> dict[str, Any]:
    return {
        "edge": edge.edge,
        "group": edge.group,
        "category": edge.category,
        "reason": edge.reason,
        "decision": None if edge.decision is None else plain(decision_json(edge.decision)),
        "factors": None if edge.factors is None else plain(asdict(edge.factors)),
    }


def explain(plan: FusionPlan, rules: Sequence[Rule], subject: str) -> Explanation:
    """Everything about ``subject``: a node ("lv3") or an edge ("lv3->lv4").

    ``rules`` are asked again, all but those that the plan has off; the same rules give the same words as when the plan
    was made. Raises PlanError for a node or an edge that the graph does not have, RuleError for a rule that fails.
    """
    ends = _ends(plan, subject)
    words = tuple(_word(plan, rule, ends) for rule in rules)
    seen = {frozenset(proposal.nodes) for word in words for proposal in word.proposals}
    known = Reachability.of(plan.graph).index.keys()
    others = tuple(
        _judged(plan, decision.nodes, decision)
        for decision in plan.decisions
        if ends <= set(decision.nodes) <= known and frozenset(decision.nodes) not in seen
    )
    groups = dict.fromkeys(plan.group_of(end) for end in plan.graph.order(ends))
    edges = _edges_of(plan, next(iter(ends))) if len(ends) == 1 else [tuple(plan.graph.order(ends))]
    return Explanation(
        subject, tuple(groups), words, others, tuple(edge_outcome(plan, first, second) for first, second in edges)
    )


def _ends(plan: FusionPlan, subject: str) -> frozenset[str]:
    names = [name.strip() for name in subject.split("->")]
    ends = [plan.graph.node(name).id for name in names]
    if len(ends) == 1:
        return frozenset(ends)
    readers = [user.id for user in plan.graph.successors(ends[0])]
    if len(ends) > 2 or ends[1] not in readers:
        known = ", ".join(f"{ends[0]}->{reader}" for reader in readers[:6]) or f"none leaves {ends[0]}"
        raise PlanError(f"'{subject}' is no edge of {plan.graph.name}; give a node or one of its edges: {known}")
    return frozenset(ends)


def _edges_of(plan: FusionPlan, node: str) -> list[tuple[str, ...]]:
    graph = plan.graph
    before = [(producer.id, node) for producer in graph.predecessors(node)]
    return [*before, *((node, user.id) for user in graph.successors(node))]


def _word(plan: FusionPlan, rule: Rule, ends: frozenset[str]) -> RuleWord:
    if rule.name in plan.rules_off:
        return RuleWord(rule.name, "off")
    candidates, refusals = propose(rule, plan.graph)
    proposals = tuple(_proposal(plan, one) for one in candidates if ends.issubset(one.nodes))
    refused = tuple(dict.fromkeys(one for one in refusals if ends.issubset(one.nodes)))
    word: Word = "proposed" if proposals else "refused" if refused else "nothing of its pattern here"
    return RuleWord(rule.name, word, proposals, refused)


def _proposal(plan: FusionPlan, candidate: Candidate) -> Proposal:
    """What became of a rule's candidate. Several rules may propose one set; the planner decides it once."""
    try:
        check_candidate(plan.graph, candidate)
    except IllegalGroup as error:
        return Proposal(candidate.nodes, error.category, error.detail, None, None)
    nodes = plan.graph.order(candidate.nodes)
    same = [one for one in plan.decisions if len(one.nodes) == len(nodes) and set(one.nodes) == set(nodes)]
    same.sort(key=lambda decision: decision.rule != candidate.rule)
    return _judged(plan, nodes, same[0] if same else None)


def _judged(plan: FusionPlan, nodes: tuple[str, ...], decision: Decision | None) -> Proposal:
    category, reason = _fate(plan, nodes)
    if decision is not None:
        category, reason = decision.category or category, decision.reason
    found = decision.factors if decision is not None else None
    if found is None and plan.target is not None:
        found = factors(plan.graph, nodes, plan.target)
    return Proposal(nodes, category, reason, decision, found)


def _fate(plan: FusionPlan, nodes: tuple[str, ...]) -> tuple[str, str]:
    """What the groups themselves say of a set."""
    inside = frozenset(nodes)
    holders = list(dict.fromkeys(plan.group_of(node) for node in nodes))
    if len(holders) == 1:
        whole = len(inside) == len(holders[0].nodes)
        return (FUSED, f"it is {holders[0].id}") if whole else (INSIDE, f"it lies inside {holders[0].id}")
    wish = _wish(plan, inside)
    return wish or (OUTBID, f"its nodes are in {', '.join(group.id for group in holders)}")


def _wish(plan: FusionPlan, inside: frozenset[str]) -> tuple[str, str] | None:
    """What a person asked for that rules a set out."""
    refused = refused_wish(inside, plan.forbidden, plan.max_nodes)
    if refused is not None:
        return refused.category, refused.detail
    for pin in plan.pins:
        if inside & set(pin) and not inside <= set(pin):
            return PINNED, f"{'+'.join(pin)} is pinned"
    return None


def edge_outcome(plan: FusionPlan, first: str, second: str) -> EdgeOutcome:
    """Where an edge ended. There is always a category: an edge that no decision names is judged by its groups."""
    edge, group, other = f"{first}->{second}", plan.group_of(first), plan.group_of(second)
    if group is other:
        return EdgeOutcome(edge, group.id, FUSED, group.reason)
    named = [one for one in plan.decisions if one.edge == (first, second) and one.category]
    decision = named[-1] if named else None
    category, reason = _between(plan, group, other) if decision is None else (decision.category, decision.reason)
    found = None
    if category not in LEGALITY and plan.target is not None:
        found = factors(plan.graph, (*group.nodes, *other.nodes), plan.target)
    return EdgeOutcome(edge, None, category, reason, decision, found)


def _between(plan: FusionPlan, group: Group, other: Group) -> tuple[str, str]:
    """What stops two groups from being one: wishes, legality, a decision about them, or that nobody asked."""
    graph, both = plan.graph, plan.graph.order((*group.nodes, *other.nodes))
    wish = _wish(plan, frozenset(both))
    if wish is not None:
        return wish
    try:
        check(graph, both, "horizontal", group.rewrite or other.rewrite)
        rest = [one.nodes for one in plan.groups if one is not group and one is not other]
        check_partition(graph, [*rest, both])
    except IllegalGroup as error:
        return error.category, error.detail
    decided = [one for one in plan.decisions if one.verdict != "fuse" and one.category and set(one.nodes) == set(both)]
    if decided:
        return decided[-1].category, decided[-1].reason
    if not plan.decisions:
        return NO_RULE, f"the {plan.planner} planner asks no rule about {group.id} and {other.id}"
    return NO_RULE, f"no rule proposes {group.id} and {other.id} as one kernel"
