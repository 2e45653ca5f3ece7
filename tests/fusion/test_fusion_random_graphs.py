"""Random graphs with fan-out, repeated arguments and several outputs: every plan is a legal partition."""

from __future__ import annotations

from fusion_graphs import TARGET, Net
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workbench.fusion import (
    Evidence,
    FusionPlan,
    Measured,
    builtin_rules,
    check,
    check_partition,
    from_json,
    plan,
    rule,
)
from workbench.graph import Graph

STEPS = ("nn.relu", "tanh", "sigmoid", "add", "multiply", "subtract", "matmul", "nn.softmax", "nn.layer_norm",
         "permute_dims", "sum", "thin", "sort")  # fmt: skip


@st.composite
def graphs(draw) -> Graph:
    net = Net("random")
    square = [net.input("x", 16, 16), net.input("y", 16, 16), net.const(16, 16)]
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=24)):
        a, b = (square[draw(st.integers(0, len(square) - 1))] for _ in range(2))
        square.append(_add(net, step, a, b))
    made = [node.id for node in net.nodes]
    extra = draw(st.lists(st.sampled_from(made), max_size=3, unique=True))
    unread = [node for node in made if not any(node in other.inputs for other in net.nodes)]
    return net.graph(*dict.fromkeys((*unread, *extra)))


def _add(net: Net, step: str, a: str, b: str) -> str:
    if step in ("add", "multiply", "subtract", "matmul"):
        return net.op(step, a, b)
    if step == "permute_dims":
        return net.op(step, a, axes=(1, 0))
    if step == "nn.softmax":
        return net.op(step, a, axis=-1)
    if step == "nn.layer_norm":
        return net.op(step, a, net.const(16), net.const(16), axes=(-1,))
    if step == "sum":
        return net.op("add", net.op("sum", a, axis=(1,), keepdims=True), b)
    if step == "thin":
        return net.op("multiply", b, net.op("exp", net.op("sum", a, axis=(1,), keepdims=True)))
    return net.op(step, a)


@rule(name="reckless")
def reckless(graph: Graph):
    """Windows of the program, whether or not they can be one kernel."""
    names = [node.id for node in graph.nodes]
    for size in (2, 3, 5):
        for start in range(len(names) - size + 1):
            yield names[start : start + size]
            yield names[start::size][:size]


def assert_legal(made: FusionPlan) -> None:
    check_partition(made.graph, [group.nodes for group in made.groups])
    for group in made.groups:
        check(made.graph, group.nodes, group.kind, group.rewrite)


MANY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@MANY
@given(graphs())
def test_every_plan_is_a_legal_partition(graph: Graph):
    made = plan(graph, TARGET)
    assert_legal(made)
    again = plan(graph, TARGET)
    assert [group.nodes for group in made.groups] == [group.nodes for group in again.groups]
    assert made.predicted_us <= plan(graph, TARGET, planner="unfused").predicted_us * (1 + 1e-9)


@MANY
@given(graphs())
def test_a_reckless_rule_cannot_make_an_illegal_plan(graph: Graph):
    made = plan(graph, TARGET, rules=(reckless, *builtin_rules()))
    assert_legal(made)
    assert from_json(made.to_json(), graph).groups == made.groups


@MANY
@given(graphs(), st.randoms(use_true_random=False))
def test_a_revision_stays_legal(graph: Graph, random):
    made = plan(graph, TARGET)
    measured = {frozenset((node.id,)): random.uniform(1e-6, 1e-4) for node in graph.nodes}
    measured |= {frozenset(group.nodes): random.uniform(1e-6, 4e-4) for group in made.groups}
    failed = {frozenset(g.nodes): "failed" for g in made.groups if len(g.nodes) > 1 and random.random() < 0.3}
    measured = {nodes: seconds for nodes, seconds in measured.items() if nodes not in failed}
    known = {nodes: Measured(seconds, seconds, seconds) for nodes, seconds in measured.items()}
    revised = plan(graph, TARGET, evidence=Evidence(known, failed))
    assert_legal(revised)
    assert not any(frozenset(group.nodes) in failed for group in revised.groups)
