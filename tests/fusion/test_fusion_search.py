"""The search for the cheapest partition, against trying all of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import pytest
from fusion_graphs import TARGET, Net, ops
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.errors import IllegalGroup, PlanError
from workbench.fusion import (
    Constraints,
    Evidence,
    FusionPlan,
    Measured,
    alternative_plans,
    check_partition,
    contests,
    plan,
    problem_of,
    rule,
)
from workbench.fusion.cost_models import CostModel, Prediction
from workbench.fusion.handover import CALL_SECONDS
from workbench.fusion.planners import _pool
from workbench.fusion.planners._search import Cost, Item, PartitionSearch, cheapest_cover, regions
from workbench.graph import Graph

US = 1e-6


@st.composite
def problems(draw) -> tuple[int, list[Item]]:
    """Up to nine nodes, singles of each, and random candidates."""
    count = draw(st.integers(1, 9))
    sets = draw(st.lists(st.sets(st.integers(0, count - 1), min_size=2, max_size=4), max_size=8)) if count > 1 else []
    costs = st.integers(1, 60)
    items = [Item((node,), (float(draw(costs)), 1.0)) for node in range(count)]
    return count, items + [Item(tuple(sorted(nodes)), (float(draw(costs)), 1.0)) for nodes in sets]


@pytest.fixture(autouse=True)
def _kernels_cost_what_the_table_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_pool, "beside", lambda graph, nodes, target: CALL_SECONDS)


def covers(count: int, items: Sequence[Item]) -> Iterator[tuple[int, ...]]:
    """All exact covers."""

    def extend(left: frozenset[int], chosen: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if not left:
            yield chosen
            return
        first = min(left)
        for index, item in enumerate(items):
            if item.nodes[0] == first and left.issuperset(item.nodes):
                yield from extend(left.difference(item.nodes), (*chosen, index))

    yield from extend(frozenset(range(count)), ())


def price(items: Sequence[Item], chosen: Sequence[int]) -> Cost:
    return tuple(sum(items[i].cost[k] for i in chosen) for k in range(2))


@settings(max_examples=150, deadline=None)
@given(problems())
def test_the_cheapest_cover_is_the_cheapest_of_all(problem):
    count, items = problem
    found = cheapest_cover(range(count), items, range(len(items)))
    assert found.exact
    assert sorted(node for i in found.chosen for node in items[i].nodes) == list(range(count))
    assert found.cost == price(items, found.chosen) == min(price(items, one) for one in covers(count, items))


@settings(max_examples=150, deadline=None)
@given(problems(), st.sets(st.tuples(st.integers(9, 16), st.integers(9, 16)), max_size=6))
def test_groups_that_wait_for_each_other_are_never_taken_together(problem, pairs):
    """``pairs``: candidates that form a cycle with each other."""
    count, items = problem
    clash = {frozenset(pair) for pair in pairs if max(pair) < len(items) and pair[0] != pair[1]}
    clash = {pair for pair in clash if min(len(items[i].nodes) for i in pair) > 1}

    def cycle(chosen: Sequence[int]) -> tuple[int, ...]:
        return next((tuple(sorted(pair)) for pair in sorted(clash, key=sorted) if pair <= set(chosen)), ())

    found = PartitionSearch(count, items, cycle).run()
    allowed = [one for one in covers(count, items) if not cycle(one)]
    assert found.exact
    assert not cycle(found.chosen)
    assert found.cost == min(price(items, one) for one in allowed)


@settings(max_examples=60, deadline=None)
@given(problems())
def test_a_narrow_beam_still_covers_and_says_so(problem):
    count, items = problem
    found = cheapest_cover(range(count), items, range(len(items)), width=1)
    assert sorted(node for i in found.chosen for node in items[i].nodes) == list(range(count))
    best = min(price(items, one) for one in covers(count, items))
    assert found.cost >= best
    assert not found.exact or found.cost == best


def test_regions_are_what_candidates_tie_together():
    items = [Item((i,), (1.0,)) for i in range(6)] + [Item((0, 2), (1.0,)), Item((2, 3), (1.0,)), Item((4, 5), (1.0,))]
    assert regions(6, items) == [[0, 2, 3], [1], [4, 5]]


class Table(CostModel):
    """Seconds by node set; what is not in the table costs a hundred microseconds an operator."""

    name = "table"

    def __init__(self, **microseconds: float) -> None:
        self.table = {frozenset(names): us * US for names, us in microseconds.items()}

    def predict(self, graph, kernels, target):
        found = [self.table.get(frozenset(nodes), 100 * len(tuple(nodes)) * US) for nodes in kernels]
        return [Prediction(seconds, seconds / 2, seconds * 2) for seconds in found]


def chain(length: int = 4) -> Graph:
    net = Net()
    x = net.input("x", 64, 64)
    for name, op in zip("abcd"[:length], ("tanh", "exp", "sigmoid", "nn.relu"), strict=False):
        x = net.op(op, x, name=name)
    return net.graph(x)


def windows(*sets: str):
    @rule(name="windows")
    def propose(graph):
        yield from sets

    return propose


def groups(made: FusionPlan) -> list[str]:
    return ["".join(group.nodes) for group in made.groups]


def test_two_smaller_groups_beat_a_larger_one_of_more_gain():
    """Greedy by gain takes bc, which saves most by itself, and loses ab and cd, which save more together."""
    model = Table(a=10, b=10, c=10, d=10, bc=8, ab=11, cd=11)
    made = plan(chain(), TARGET, rules=[windows("bc", "ab", "cd")], cost_model=model)
    assert groups(made) == ["ab", "cd"]
    lost = next(d for d in made.decisions if d.nodes == ("b", "c"))
    assert lost.category == "another grouping is predicted faster"
    assert "a+b (windows), c+d (windows)" in lost.reason
    assert made.search == "exact"


def test_equal_costs_are_a_tie_broken_by_fewer_kernels():
    made = plan(chain(2), TARGET, rules=[windows("ab")], cost_model=Table(a=5, b=5, ab=10))
    assert groups(made) == ["ab"]
    decision = next(d for d in made.decisions if d.nodes == ("a", "b"))
    assert (decision.verdict, decision.category, decision.expected) == ("tie", "tie", "tie")


def test_each_objective_has_its_own_plan():
    net = Net()
    thin = net.op("exp", net.input("t", 256, 1), name="t1")
    wide = net.op("add", thin, net.input("w", 256, 256), name="w1")
    graph = net.graph(wide)
    latency = plan(graph, TARGET, cost_model=Table(t=1, t1w1=1))
    assert latency.objective == "latency"
    model = _Slow()
    assert len(plan(graph, TARGET, cost_model=model).groups) == 2
    assert len(plan(graph, TARGET, cost_model=model, objective="kernels").groups) == 1
    assert len(plan(graph, TARGET, cost_model=model, objective="memory").groups) == 1
    assert len(plan(graph, TARGET, cost_model=model, objective="compile").groups) == 1
    with pytest.raises(PlanError, match="objective 'beauty' is not known; give one of latency, memory, kernels"):
        plan(graph, TARGET, objective="beauty")  # type: ignore[arg-type]


class _Slow(CostModel):
    name = "slow"

    def predict(self, graph, kernels, target):
        return [Prediction(*(len(frozenset(nodes)) ** 2 * US,) * 3) for nodes in kernels]


def test_no_group_exceeds_the_limit_and_the_decision_names_it():
    net = Net()
    x = net.input("x", 64, 64)
    for i in range(9):
        x = net.op("tanh", x, name=f"t{i}")
    graph = net.graph(x)
    for limit in (1, 2, 4):
        made = plan(graph, TARGET, constraints=Constraints(max_nodes=limit))
        assert max(len(group.nodes) for group in made.groups) <= limit
        assert made.max_nodes == limit
        assert made.to_json()["max_nodes"] == limit
        assert any(d.edge and d.category == "group size limit" for d in made.decisions)
    with pytest.raises(PlanError, match="at most 0 operators"):
        plan(graph, TARGET, constraints=Constraints(max_nodes=0))


def test_a_rule_that_is_off_is_not_asked():
    graph = chain(2)
    on, off = (plan(graph, TARGET, constraints=Constraints(rules_off=names)) for names in ((), ("elementwise_chain",)))
    assert (len(on.groups), len(off.groups)) == (1, 2)
    assert off.rules_off == ("elementwise_chain",)
    with pytest.raises(PlanError, match="no rule is named 'nothing', so it cannot be off"):
        plan(graph, TARGET, constraints=Constraints(rules_off=("nothing",)))


def test_pins_that_wait_for_each_other_are_refused():
    net = Net()
    a1, b1 = net.op("tanh", net.input("x", 4), name="a1"), net.op("tanh", net.input("y", 4), name="b1")
    a2, b2 = net.op("add", a1, b1, name="a2"), net.op("multiply", a1, b1, name="b2")
    graph = net.graph(a2, b2)
    with pytest.raises(IllegalGroup, match="would form a cycle"):
        plan(graph, TARGET, constraints=Constraints(pins=(("a1", "b2"), ("b1", "a2"))))


def test_what_a_larger_pattern_left_of_a_chain_is_fused_all_the_same():
    net = Net()
    m = net.op("add", net.op("matmul", net.input("x", 64, 64), net.const(64, 64)), net.const(64))
    y = net.op("nn.relu", m)
    for _ in range(7):
        y = net.op("multiply", net.op("tanh", y), y)
    made = plan(net.graph(y), TARGET)
    assert all(len(group.nodes) > 1 for group in made.groups), [ops(made.graph, g.nodes) for g in made.groups]


def test_what_predictions_leave_open_is_contested_and_the_most_valuable_comes_first():
    model = Table(a=10, b=10, c=10, d=10, ab=22, cd=21, bc=24)
    problem = problem_of(chain(), TARGET, rules=[windows("ab", "cd", "bc")], cost_model=model)
    found = contests(problem)
    assert ["".join(one.units[0].nodes) for one in found] == ["cd", "ab", "bc"]
    assert [one.value for one in found] == pytest.approx([9.875e-6, 9.375e-6, 8.375e-6])  # a call less, too
    plans = alternative_plans(problem, found)
    assert [[g for g in groups(one) if len(g) > 1] for one in plans] == [["ab", "cd"], ["bc"]]


def test_what_was_measured_or_cannot_win_is_not_contested():
    model = Table(a=10, b=10, c=10, d=10, ab=100, cd=15)
    known = {frozenset(names): Measured(us * US, us * US, us * US) for names, us in {"a": 10, "b": 10}.items()}
    graph, rules = chain(), [windows("ab", "cd")]
    assert contests(problem_of(graph, TARGET, rules, cost_model=model, evidence=Evidence(known))) == ()


def test_equal_layers_are_one_contest():
    net = Net()
    x = net.input("x", 64, 64)
    for i in range(3):
        x = net.op("sort", net.op("exp", net.op("tanh", x, name=f"t{i}"), name=f"e{i}"), name=f"s{i}")
    graph = net.graph(x)
    table = Table()
    table.table = {frozenset((f"t{i}", f"e{i}")): 250 * US for i in range(3)}
    found = contests(problem_of(graph, TARGET, cost_model=table))
    assert len(found) == 1
    assert len(found[0].units) == 3
    only = alternative_plans(problem_of(graph, TARGET, cost_model=table), found)
    assert len(only) == 1
    check_partition(graph, [group.nodes for group in only[0].groups])


def test_a_measured_time_counts_instead_of_a_prediction():
    model = Table(a=10, b=10, ab=5)
    evidence = {"a": 10, "b": 10, "ab": 40}
    known = Evidence(
        {frozenset(names): Measured(us * US, 0.9 * us * US, 1.1 * us * US) for names, us in evidence.items()}
    )
    made = plan(chain(2), TARGET, rules=[windows("ab")], cost_model=model, evidence=known)
    assert groups(made) == ["a", "b"]
    decision = next(d for d in made.decisions if d.nodes == ("a", "b"))
    assert (decision.verdict, decision.category, decision.expected) == ("split", "measured slower", "fuse")
    assert decision.measured_us == pytest.approx({"fused": 40, "unfused": 20})
    assert decision.measured_range_us["fused"] == pytest.approx((36, 44))
    assert decision.predicted_range_us["fused"] == pytest.approx((2.75, 10.25))


def test_every_pair_of_orders_gives_one_plan():
    """The order in which rules propose breaks ties only."""
    model = Table(a=10, b=10, c=10, d=10, bc=8, ab=11, cd=11)
    plans = {
        tuple(groups(plan(chain(), TARGET, rules=[windows(*order)], cost_model=model)))
        for order in itertools.permutations(("bc", "ab", "cd"))
    }
    assert plans == {("ab", "cd")}
