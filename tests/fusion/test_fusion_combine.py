"""Regions of the graph taken from the variant that was faster inside the whole model."""

from __future__ import annotations

import pytest
from fusion_graphs import TARGET, Net

from workbench.fusion import Constraints, FusionPlan, MeasuredGroup, adopt, combine, confirm, plan
from workbench.graph import Graph, from_model
from workbench.models import zoo
from workbench.targets import Target, resolve


@pytest.fixture(scope="module")
def target() -> Target:
    return resolve("llvm")


@pytest.fixture(scope="module")
def graph() -> Graph:
    return from_model(zoo.build("conv_bn_relu", channels=4, size=8))


@pytest.fixture(scope="module")
def planned(graph: Graph, target: Target) -> FusionPlan:
    made = plan(graph, target)
    assert [group.rewrite for group in made.groups] == ["fold_batchnorm"]
    return made


def _whole(plan: FusionPlan, us: float) -> dict[frozenset[str], float]:
    return {frozenset(plan.groups[0].nodes): us * 1e-6}


def test_a_faster_form_of_the_same_nodes_is_taken_with_its_rewrite(planned: FusionPlan, target: Target) -> None:
    nodes = planned.groups[0].nodes
    greedy = [MeasuredGroup(nodes, 80e-6, "decompose_batchnorm")]
    better = combine(planned, target, _whole(planned, 100), {"greedy": greedy})
    assert [(group.nodes, group.rule, group.rewrite) for group in better.groups] == [
        (nodes, "greedy", "decompose_batchnorm")
    ]
    swap = better.decisions[-1]
    assert swap.measured_us == pytest.approx({"planned": 100, "greedy": 80})
    assert "taken from greedy" in swap.reason


def test_a_region_is_split_where_single_operators_were_faster(planned: FusionPlan, target: Target) -> None:
    singles = [MeasuredGroup((node,), 20e-6) for node in planned.groups[0].nodes]
    better = combine(planned, target, _whole(planned, 100), {"unfused": singles})
    assert [len(group.nodes) for group in better.groups] == [1, 1, 1]
    assert {decision.verdict for decision in better.decisions} == {"split"}  # nothing is called fused that is not
    fused = next(one for one in better.decisions if one.nodes == planned.groups[0].nodes)
    assert fused.reason.endswith("undone by what was measured inside the whole model")


@pytest.mark.parametrize("other_us", [120, 100, 99])
def test_what_is_not_faster_beyond_the_margin_changes_nothing(
    planned: FusionPlan, target: Target, other_us: float
) -> None:
    other = [MeasuredGroup(planned.groups[0].nodes, other_us * 1e-6, "decompose_batchnorm")]
    assert combine(planned, target, _whole(planned, 100), {"greedy": other}) is planned


def test_regions_are_swapped_one_by_one(target: Target) -> None:
    """Two independent regions, of which only the second was faster elsewhere."""
    graph = from_model(zoo.build("encoder", seq=8, dim=16, heads=2, ffn=32))
    made = plan(graph, target)
    times = {frozenset(group.nodes): 10e-6 for group in made.groups}
    slow = next(group for group in made.groups if "nn.gelu" in group.ops)
    singles = [MeasuredGroup((node.id,), 1e-6 if node.id in slow.nodes else 50e-6) for node in graph.nodes]
    better = combine(made, target, times, {"unfused": singles})
    kept = {group.nodes for group in made.groups} - {slow.nodes}
    assert kept <= {group.nodes for group in better.groups}
    assert {(node,) for node in slow.nodes} <= {group.nodes for group in better.groups}
    assert sorted(node for group in better.groups for node in group.nodes) == sorted(node.id for node in graph.nodes)


def test_a_pinned_group_stays(graph: Graph, planned: FusionPlan, target: Target) -> None:
    pinned = plan(graph, target, constraints=Constraints(pins=(planned.groups[0].nodes,)))
    singles = [MeasuredGroup((node,), 1e-6) for node in pinned.groups[0].nodes]
    assert combine(pinned, target, _whole(pinned, 100), {"unfused": singles}) is pinned


def test_another_variants_grouping_is_adopted_whole(planned: FusionPlan, target: Target) -> None:
    conv, norm, relu = planned.groups[0].nodes
    groups = [MeasuredGroup((conv, norm), 30e-6, "decompose_batchnorm"), MeasuredGroup((relu,), 5e-6)]
    made = adopt(planned, target, "greedy", groups, {"planned": 50e-6, "greedy": 40e-6})
    assert [(group.nodes, group.rewrite) for group in made.groups] == [
        ((conv, norm), "decompose_batchnorm"),
        ((relu,), None),
    ]
    last = made.decisions[-1]
    assert (last.verdict, last.rule) == ("split", "whole model")
    assert last.measured_us == pytest.approx({"planned": 50, "greedy": 40})


def test_times_inside_the_model_replace_those_of_kernels_alone():
    net = Net()
    a = net.op("tanh", net.input("x", 64, 64), name="a")
    graph = net.graph(net.op("reshape", net.op("exp", a, name="b"), shape=(4096,), name="r"))
    made = plan(graph, TARGET)
    assert [group.nodes for group in made.groups] == [("a", "b", "r")]
    inside = {
        "unfused": [MeasuredGroup(("a",), 5e-6), MeasuredGroup(("b",), 6e-6)],  # the reshape is a view
        "planned": [MeasuredGroup(("a", "b", "r"), 7e-6)],
        "greedy": [MeasuredGroup(("a", "b", "r"), 8e-6)],
    }
    decision = next(d for d in confirm(made, inside).decisions if len(d.nodes) == 3)
    assert decision.measured_us == pytest.approx({"fused": 7.0, "unfused": 11.0})
    assert decision.measured_in == "model"
    untouched = next(d for d in confirm(made, inside).decisions if len(d.nodes) == 2)
    assert untouched.measured_us is None


def test_a_form_in_parts_that_some_variant_has_is_compared_too():
    net = Net()
    a = net.op("tanh", net.input("x", 64, 64), name="a")
    graph = net.graph(net.op("sin", net.op("exp", a, name="b"), name="c"))
    made = plan(graph, TARGET)
    assert [group.nodes for group in made.groups] == [("a", "b", "c")]
    inside = {
        "unfused": [MeasuredGroup((name,), 5e-6) for name in "abc"],
        "planned": [MeasuredGroup(("a", "b", "c"), 7e-6)],
        "greedy": [MeasuredGroup(("a", "b"), 4e-6), MeasuredGroup(("c",), 2e-6)],
    }
    decision = next(d for d in confirm(made, inside).decisions if len(d.nodes) == 3)
    # Apart, each operator counts with the fastest variant that has it alone: 5 + 5 + 2.
    assert decision.measured_us == pytest.approx({"fused": 7.0, "partial": 6.0, "unfused": 12.0})


def test_a_view_inside_a_kernel_is_no_operator_of_a_form_in_parts():
    net = Net()
    a = net.op("tanh", net.input("x", 64, 64), name="a")
    r = net.op("reshape", net.op("exp", a, name="b"), shape=(4096,), name="r")
    made = plan(net.graph(net.op("sin", r, name="c")), TARGET)
    assert [group.nodes for group in made.groups] == [("a", "b", "r", "c")]
    inside = {
        "unfused": [MeasuredGroup((name,), 5e-6) for name in "abc"],
        "planned": [MeasuredGroup(("a", "b", "r", "c"), 7e-6)],
        "greedy": [MeasuredGroup(("a", "b", "r"), 4e-6), MeasuredGroup(("c",), 5e-6)],
        "only a reshape more": [
            MeasuredGroup(("a",), 1e-6),
            MeasuredGroup(("b", "r"), 1e-6),
            MeasuredGroup(("c",), 5e-6),
        ],
    }
    decision = next(d for d in confirm(made, inside).decisions if len(d.nodes) == 4)
    assert decision.measured_us is not None
    assert decision.measured_us["partial"] == pytest.approx(9.0)  # 3.0 would be a form that fuses no two operators


def test_the_noise_of_a_kernel_that_all_variants_have_decides_nothing():
    """The chain is faster as one kernel; the wide sum beside it is the same kernel everywhere, and varies by more."""
    net = Net()
    x = net.input("x", 1, 4096)
    for name in "abc":
        x = net.op("exp", x, name=name)
    graph = net.graph(net.op("add", x, net.input("w", 64, 4096), name="wide"))
    made = plan(graph, TARGET)
    assert [group.nodes for group in made.groups] == [("a", "b", "c"), ("wide",)]
    others = {
        "unfused": [MeasuredGroup((name,), 2e-6) for name in "abc"] + [MeasuredGroup(("wide",), 4000e-6)],
        "greedy": [MeasuredGroup(("a", "b", "c", "wide"), 9000e-6)],
    }
    measured = {frozenset("abc"): 3e-6, frozenset(("wide",)): 4200e-6}
    assert combine(made, TARGET, measured, others) is made
    others["unfused"][0] = MeasuredGroup(("a",), 0.1e-6)
    others["unfused"][1:3] = [MeasuredGroup((name,), 0.1e-6) for name in "bc"]
    assert combine(made, TARGET, measured, others, margin=1e-4) is not made
