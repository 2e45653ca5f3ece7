"""What is said about nodes and edges: every rule's word, every candidate's fate, and a category for every edge."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from fusion_graphs import TARGET, Net
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_fusion_random_graphs import graphs, reckless

from workbench.errors import PlanError, RuleError
from workbench.fusion import CATEGORIES, Candidate, Constraints, FusionPlan, builtin_rules, from_json, plan, rule
from workbench.fusion.explain import Explanation, RuleWord, edge_outcome, explain
from workbench.fusion.profit import factors
from workbench.fusion.rules import Refusal
from workbench.graph import Graph


def _graph() -> Graph:
    """A thin producer that a wide add would repeat 4096 times; a matmul with its epilogue; a view; a diamond."""
    net = Net("net")
    thin = net.op("exp", net.input("v", 4096, 1), name="thin")
    wide = net.op("add", thin, net.input("w", 4096, 4096), name="wide")
    m = net.op("matmul", net.input("x", 256, 256), net.const(256, 256), name="m")
    c = net.op("nn.relu", net.op("add", m, net.const(256), name="b"), name="c")
    sort = net.op("sort", c, name="sort")
    return net.graph(wide, net.op("add", sort, c, name="d"))


@rule(name="window", kind="vertical", summary="m with the sum after a detour")
def window(graph: Graph):
    """One illegal set, one refusal, and one that a larger group holds."""
    yield {"c", "d"}
    yield {"m", "c"}
    yield {"m", "b"}
    yield Refusal("window", ("m", "b", "sort"), "operator does not match", "sort is no activation")


RULES = (window, *builtin_rules())


def _explained(subject: str, made: FusionPlan | None = None) -> Explanation:
    return explain(made or plan(_graph(), TARGET, rules=RULES), RULES, subject)


def _word(explanation: Explanation, name: str) -> RuleWord:
    return next(word for word in explanation.rules if word.rule == name)


def test_every_rule_has_its_word():
    found = _explained("b")
    assert [word.rule for word in found.rules] == [one.name for one in RULES]
    assert _word(found, "window").word == "proposed"
    assert _word(found, "softmax").word == "nothing of its pattern here"
    assert [one.category for one in _word(found, "window").refusals] == ["operator does not match"]
    assert [group.nodes for group in found.groups] == [("m", "b", "c")]


def test_a_rule_that_only_refused_says_so():
    edge = explain(plan(_graph(), TARGET, rules=RULES), (refusing,), "m->b")
    assert _word(edge, "refusing").word == "refused"
    assert _word(edge, "refusing").refusals[0].detail == "too small"


@rule(name="refusing")
def refusing(graph: Graph):
    """Looks and does not want."""
    yield Refusal("refusing", ("m", "b"), "shape does not match", "too small")


def test_what_became_of_each_candidate():
    fates = {one.nodes: one for one in _word(_explained("c"), "window").proposals}
    assert fates["c", "d"].category == "would form a cycle"
    assert "sort" in fates["c", "d"].reason
    assert fates["m", "c"].category == "would form a cycle"
    assert fates["c", "d"].factors is None
    inside = _word(_explained("m->b"), "window").proposals[0]
    assert (inside.nodes, inside.category) == (("m", "b"), "part of a larger group")
    assert inside.factors == factors(_graph(), ("m", "b"), TARGET)
    assert inside.decision is not None
    assert set(inside.decision.predicted_us) >= {"fused", "unfused"}


def test_an_edge_inside_a_group_and_one_between_two():
    inside = _explained("m->b").edges
    assert [(one.edge, one.category) for one in inside] == [("m->b", "fused")]
    assert inside[0].group == _explained("m").groups[0].id
    between = _explained("thin->wide")
    assert len(between.groups) == 2
    assert (between.edges[0].group, between.edges[0].category) == (None, "recompute factor")
    assert "recompute factor 4096" in between.edges[0].reason
    assert between.edges[0].factors is not None
    assert between.edges[0].factors.recompute == 4096.0
    opaque = _explained("c->sort").edges[0]
    assert (opaque.category, opaque.factors) == ("opaque operator", None)


def test_a_node_lists_its_edges():
    assert [one.edge for one in _explained("c").edges] == ["b->c", "c->sort", "c->d"]


def test_wishes_are_named():
    graph = _graph()
    wishes = Constraints(forbidden=(("b", "c"),), rules_off=("window",), max_nodes=2)
    made = plan(graph, TARGET, rules=RULES, constraints=wishes)
    found = explain(made, RULES, "b->c")
    assert found.edges[0].category == "forbidden edge"
    assert _word(found, "window").word == "off"
    pinned = explain(plan(graph, TARGET, constraints=Constraints(pins=(("m", "b"),))), RULES, "b->c")
    assert pinned.edges[0].category == "pinned"


def test_a_plan_without_decisions_still_has_a_category_for_every_edge():
    made = replace(plan(_graph(), TARGET, planner="unfused"), decisions=())
    graph = made.graph
    found = [edge_outcome(made, node.id, user.id) for node in graph.nodes for user in graph.successors(node.id)]
    assert {one.edge: one.category for one in found} == {
        "thin->wide": "no rule proposes it",
        "m->b": "no rule proposes it",
        "b->c": "no rule proposes it",
        "c->sort": "opaque operator",
        "sort->d": "opaque operator",
        "c->d": "would form a cycle",
    }
    assert found[0].reason == "the unfused planner asks no rule about g0 and g1"
    limited = replace(made, max_nodes=1)
    assert edge_outcome(limited, "m", "b").category == "group size limit"
    assert edge_outcome(replace(made, forbidden=(("m", "b"),)), "m", "b").category == "forbidden edge"


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        ("nowhere", "no node 'nowhere'"),
        ("m->nowhere", "no node 'nowhere'"),
        ("m->c", "'m->c' is no edge of net; give a node or one of its edges: m->b"),
        ("d->m", "none leaves d"),
        ("m->b->c", "is no edge"),
        ("", "no node ''"),
    ],
)
def test_a_subject_that_is_not_in_the_graph_is_refused(subject: str, message: str):
    with pytest.raises(PlanError, match=message):
        _explained(subject)


def test_a_rule_that_fails_is_named():
    @rule(name="broken")
    def broken(graph: Graph):
        raise ValueError("no idea")
        yield

    with pytest.raises(RuleError, match="rule 'broken' failed on net: ValueError: no idea"):
        explain(plan(_graph(), TARGET), (broken,), "m")


def test_the_explanation_is_json():
    for subject in ("c", "thin->wide", "m->b"):
        found = json.loads(json.dumps(_explained(subject).to_json(), allow_nan=False))
        assert found["subject"] == subject
        assert {row["rule"] for row in found["rules"]} == {one.name for one in RULES}
        assert all(edge["category"] in CATEGORIES for edge in found["edges"])


def test_what_was_decided_beyond_the_rules_given_is_listed():
    made = plan(_graph(), TARGET, rules=RULES)
    found = explain(made, (), "m")
    assert found.rules == ()
    assert ("m", "b") in {one.nodes for one in found.others}


MANY = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@MANY
@given(graphs(), st.sampled_from(["predict", "unfused", "reckless", "document", "limited"]))
def test_no_edge_is_ever_unknown(graph: Graph, how: str):
    rules = (reckless, *builtin_rules()) if how == "reckless" else builtin_rules()
    made = plan(
        graph, TARGET, rules, "unfused" if how == "unfused" else "predict",
        Constraints(max_nodes=2, rules_off=("elementwise_chain",)) if how == "limited" else Constraints(),
    )  # fmt: skip
    if how == "document":
        made = replace(from_json(made.to_json(), graph), decisions=())
    for node in graph.nodes:
        for user in graph.successors(node.id):
            outcome = edge_outcome(made, node.id, user.id)
            assert outcome.category in CATEGORIES
            assert outcome.reason
            assert (outcome.group is not None) == (made.group_of(node.id) is made.group_of(user.id))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graphs())
def test_every_candidate_of_every_node_has_a_fate(graph: Graph):
    rules = (reckless, *builtin_rules())
    made = plan(graph, TARGET, rules)
    for node in graph.nodes[:6]:
        found = explain(made, rules, node.id)
        for word in found.rules:
            assert all(one.category in CATEGORIES and one.reason for one in word.proposals)
            assert all(one.category in CATEGORIES for one in word.refusals)
            assert (word.word == "proposed") == bool(word.proposals)
        assert all(one.category in CATEGORIES for one in (*found.others, *found.edges))


def test_a_candidate_with_a_private_value_that_escapes_is_told_so():
    @rule(name="greedy_pair")
    def pair(graph: Graph):
        yield Candidate("greedy_pair", "vertical", ("b", "c"), "b and c", private=("c",))

    found = explain(plan(_graph(), TARGET, rules=(pair,)), (pair,), "b")
    assert _word(found, "greedy_pair").proposals[0].category == "inner value escapes"
