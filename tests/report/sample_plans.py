"""Explanations of the sample plan, and the sample plan compared with another, without a graph behind them."""

from __future__ import annotations

from dataclasses import replace

from sample_run import plan

from workbench.fusion.compare import PlanComparison, compare_documents
from workbench.fusion.explain import EdgeOutcome, Explanation, Proposal, RuleWord
from workbench.fusion.plan import FusionPlan
from workbench.fusion.rules import Refusal
from workbench.fusion.schema import parse_document


def node_explanation() -> Explanation:
    """A node that one rule got, one refused, and that is in sets which lost."""
    made = plan()
    won, lost = made.decisions[0], made.decisions[2]
    rules = (
        RuleWord("attention", "nothing of its pattern here"),
        RuleWord(
            "gelu", "proposed",
            (
                Proposal(won.nodes, won.category, won.reason, won, won.factors),
                Proposal(
                    ("lv18", "lv20"), "would form a cycle",
                    "lv19 lies on a path out of the group and back into it", None, None,
                ),
            ),
        ),
        RuleWord(
            "softmax", "refused", (),
            (Refusal("softmax", ("lv18", "lv19"), "operator does not match", "lv19 is add, not nn.softmax"),),
        ),
        RuleWord("swiglu", "off"),
    )  # fmt: skip
    edges = (
        EdgeOutcome("lv17->lv18", None, "no rule proposes it", "no rule proposes g3 and g4 as one kernel"),
        EdgeOutcome("lv18->lv19", "g4", "fused", "gelu: the inner tensors stay in cache"),
    )
    others = (Proposal(lost.nodes, lost.category, lost.reason, lost, lost.factors),)
    return Explanation("lv18", (made.groups[4],), rules, others, edges)


def edge_explanation() -> Explanation:
    """An edge between two groups."""
    made = plan()
    edge, lost = made.decisions[3], made.decisions[2]
    outcome = EdgeOutcome("lv22->lv23", None, "predicted slower", edge.reason, lost, lost.factors)
    rules = (RuleWord("attention", "nothing of its pattern here"),)
    return Explanation("lv22->lv23", (made.groups[5], made.groups[6]), rules, (), (outcome,))


def plan_comparison() -> PlanComparison:
    """The sample plan against one with a rule off, two groups fewer, and a boundary judged by measurement."""
    before = plan()
    apart, joined = before.groups[5], before.groups[6]
    both = replace(apart, nodes=apart.nodes + joined.nodes, ops=apart.ops + joined.ops, rule="residual_norm")
    groups = [one for one in before.groups if one not in (apart, joined)]
    groups[3] = replace(groups[3], rule="my_norm")
    decisions = list(before.decisions)
    decisions[2] = replace(
        decisions[2], verdict="fuse", category="fused", reason="measured 3.40 ms fused, 3.60 ms apart"
    )
    after = replace(
        before, groups=(*groups, both), decisions=tuple(decisions[1:]), rules_off=("gelu",), max_nodes=4
    )  # fmt: skip
    return compare_documents(_document(before), _document(after), "out/monday/plan.json", "out/tuesday/plan.json")


def _document(made: FusionPlan):  # type: ignore[no-untyped-def]
    return parse_document(made.to_json())
