"""What the planner decides and says, on small graphs and on the built-in models."""

from __future__ import annotations

from collections import Counter

import pytest
from fusion_graphs import TARGET, Net, ops
from test_fusion_profit import thin_chain

from workbench.errors import IllegalGroup, PlanError
from workbench.fusion import Constraints, FusionPlan, builtin_rules, check_partition, plan
from workbench.graph import from_model
from workbench.models import zoo


def kernels(made: FusionPlan) -> list[str]:
    return [ops(made.graph, group.nodes) for group in made.groups]


def assert_sound(made: FusionPlan) -> None:
    """Every node once, groups in execution order, a reason for every group and decision."""
    assert check_partition(made.graph, [g.nodes for g in made.groups]) == tuple(range(len(made.groups)))
    assert [group.id for group in made.groups] == [f"g{i}" for i in range(len(made.groups))]
    assert all(group.reason and group.predicted_us > 0 for group in made.groups)
    assert all(decision.reason for decision in made.decisions)
    owner = {node: group.id for group in made.groups for node in group.nodes}
    edges = {
        f"{node.id}->{user.id}"
        for node in made.graph.nodes
        for user in made.graph.successors(node.id)
        if owner[node.id] != owner[user.id]
    }
    assert {d.boundary for d in made.decisions if d.edge} == edges


@pytest.mark.parametrize(("depth", "verdict"), [(8, "tie"), (16, "split")])
def test_a_thin_chain_is_cut_at_the_broadcast(depth: int, verdict: str):
    """Repeated once a tile and not once an element, a chain of 8 steps costs too little to be sure about."""
    made = plan(thin_chain(depth), TARGET)
    assert [len(group.nodes) for group in made.groups] == [3 * depth, 1]
    whole = next(d for d in made.decisions if len(d.nodes) == 3 * depth + 1)
    assert whole.verdict == verdict
    assert whole.factors is not None
    assert whole.factors.recompute == 4096.0
    assert "recompute factor 4096" in whole.reason
    assert whole.predicted_us["partial"] < whole.predicted_us["unfused"] < whole.predicted_us["fused"]
    edge = next(d for d in made.decisions if d.edge)
    assert "recompute factor 4096" in edge.reason


def test_a_producer_is_not_fused_into_a_contraction():
    net = Net()
    a = net.op("nn.silu", net.input("x", 256, 256), name="a")
    made = plan(net.graph(net.op("matmul", a, net.const(256, 256), name="m")), TARGET)
    assert kernels(made) == ["nn.silu", "matmul"]
    assert "recompute factor 256" in made.decisions[-1].reason


def test_two_contractions_in_a_row_stay_apart():
    net = Net()
    a = net.op("matmul", net.input("x", 64, 64), net.const(64, 64), name="a")
    made = plan(net.graph(net.op("matmul", a, net.const(64, 64), name="b")), TARGET)
    assert len(made.groups) == 2
    assert "two contractions in a row" in made.decisions[-1].reason


def test_an_epilogue_that_no_rule_knows_is_absorbed():
    """p + p*p is no bias, yet it may well run where the product is in registers."""
    net = Net()
    p = net.op("matmul", net.input("a", 256, 256), net.input("b", 256, 256), name="p")
    q = net.op("multiply", p, p, name="q")
    made = plan(net.graph(net.op("add", p, q, name="out")), TARGET)
    assert kernels(made) == ["matmul+multiply+add"]
    assert made.graph.group_outputs(made.groups[0].nodes) == ("out",)


def test_layout_changes_are_not_absorbed_by_a_contraction():
    net = Net()
    p = net.op("matmul", net.input("a", 256, 256), net.input("b", 256, 256), name="p")
    made = plan(net.graph(net.op("permute_dims", p, axes=(1, 0))), TARGET)
    assert kernels(made) == ["matmul", "permute_dims"]


def test_without_rules_nothing_is_fused():
    made = plan(thin_chain(8), TARGET, rules=())
    assert {len(group.nodes) for group in made.groups} == {1}


def test_unfused_is_one_kernel_an_operator():
    graph = thin_chain(8)
    made = plan(graph, TARGET, planner="unfused")
    assert [group.nodes for group in made.groups] == [(node.id,) for node in graph.nodes]
    assert {group.rule for group in made.groups} == {"single"}


def _three() -> Net:
    net = Net()
    a = net.op("tanh", net.input("x", 256, 256), name="a")
    b = net.op("nn.relu", a, name="b")
    net.op("exp", b, name="c")
    return net


def test_a_pinned_group_is_in_the_plan():
    made = plan(_three().graph("c"), TARGET, constraints=Constraints(pins=(("a", "b"),)))
    assert [group.nodes for group in made.groups] == [("a", "b"), ("c",)]
    assert made.pins == (("a", "b"),)
    assert made.groups[0].reason.startswith("pinned")
    unfused = plan(_three().graph("c"), TARGET, planner="unfused", constraints=Constraints(pins=(("b", "c"),)))
    assert [group.nodes for group in unfused.groups] == [("a",), ("b", "c")]


def test_an_illegal_pin_is_refused_with_the_reason():
    with pytest.raises(IllegalGroup, match=r"would form a cycle: pin a\+c: b lies on a path"):
        plan(_three().graph("c"), TARGET, constraints=Constraints(pins=(("a", "c"),)))
    with pytest.raises(IllegalGroup, match="overlap: pin b\\+c: another pin holds a\\+b"):
        plan(
            _three().graph("c"),
            TARGET,
            constraints=Constraints(
                pins=(
                    ("a", "b"),
                    ("b", "c"),
                )
            ),
        )
    with pytest.raises(IllegalGroup, match="forbidden edge"):
        plan(_three().graph("c"), TARGET, constraints=Constraints(pins=(("a", "b"),), forbidden=(("a", "b"),)))


def test_a_forbidden_edge_keeps_its_ends_apart():
    made = plan(_three().graph("c"), TARGET, constraints=Constraints(forbidden=(("a", "b"),)))
    assert [group.nodes for group in made.groups] == [("a",), ("b", "c")]
    assert "a->b was forbidden" in next(d.reason for d in made.decisions if d.boundary == "a->b")


def test_a_pin_that_a_rule_knows_keeps_its_rewrite():
    graph = from_model(zoo.build("conv_bn_relu"))
    conv, norm, relu = (node.id for node in graph.nodes)
    made = plan(graph, TARGET, constraints=Constraints(pins=((conv, norm),)))
    assert [(g.nodes, g.rewrite) for g in made.groups] == [((conv, norm), "fold_batchnorm"), ((relu,), None)]


def test_unknown_planner_and_unknown_node():
    with pytest.raises(PlanError, match="planner 'magic' is not known; give one of predict, unfused"):
        plan(_three().graph("c"), TARGET, planner="magic")
    with pytest.raises(PlanError, match="no node 'zz'"):
        plan(_three().graph("c"), TARGET, constraints=Constraints(forbidden=(("a", "zz"),)))


def test_explain_tells_who_looked_at_a_node_and_an_edge():
    made = plan(thin_chain(8), TARGET)
    assert {decision.verdict for decision in made.explain("wide")} == {"split", "tie"}
    (edge,) = [d for d in made.explain("lv23->wide") if d.edge]
    assert edge.boundary == "lv23->wide"
    with pytest.raises(PlanError, match="no node 'nowhere'"):
        made.explain("nowhere")


def test_near_ties_are_called_ties():
    net = Net()
    m = net.op("matmul", net.input("x", 1024, 1024), net.const(1024, 1024))
    made = plan(net.graph(net.op("add", m, net.const(1024))), TARGET)
    assert made.decisions[0].verdict == "tie"
    assert "a tie" in made.decisions[0].reason


EXPECTED = {
    "gelu": {"gelu": 1},
    "elementwise_chain": {"elementwise_chain": 1},
    "bias_gelu": {"bias_activation": 1},
    "swiglu": {"swiglu": 1},
    "residual_layernorm": {"residual_norm": 1},
    "conv_bn_relu": {"conv_bn_relu": 1},
    "qkv": {"parallel_matmul": 1},
    "attention": {"attention": 1},
    "mha": {"parallel_matmul": 1, "attention": 1, "bias_activation": 1},
    "pool_add": {"elementwise_chain": 1, "reduction": 1},
}


@pytest.mark.parametrize("name", EXPECTED)
def test_built_in_models(name: str):
    made = plan(from_model(zoo.build(name)), TARGET)
    assert Counter(group.rule for group in made.groups) == EXPECTED[name]
    assert_sound(made)


def test_encoder():
    made = plan(from_model(zoo.build("encoder")), TARGET)
    assert_sound(made)
    found = kernels(made)
    assert found[0] == "matmul+add+matmul+add+matmul+add"
    assert made.groups[0].kind == "horizontal"
    assert made.groups[1].rule == "attention"
    assert found[2:] == ["matmul+add+add", "nn.layer_norm", "matmul+add+nn.gelu", "matmul+add+add", "nn.layer_norm"]


def test_llama_block():
    made = plan(from_model(zoo.build("llama_block")), TARGET)
    assert_sound(made)
    rules = Counter(group.rule for group in made.groups)
    assert (rules["attention"], rules["swiglu"], rules["rotary_projection"]) == (1, 1, 2)


@pytest.mark.parametrize(("name", "convolutions"), [("resnet18", 20), ("mobilenet_v2", 52)])
def test_networks_fold_every_batch_norm_into_its_convolution(name: str, convolutions: int):
    made = plan(from_model(zoo.build(name)), TARGET)
    assert_sound(made)
    folded = [group for group in made.groups if "nn.batch_norm" in group.ops]
    assert len(folded) == convolutions
    assert {group.rewrite for group in folded} == {"fold_batchnorm"}
    assert all(group.ops.count("nn.conv2d") == group.ops.count("nn.batch_norm") == 1 for group in folded)
    assert not any(group.ops == ("add",) for group in made.groups)  # every residual add is some block's epilogue
    assert not any(group.ops in (("nn.relu",), ("clip",)) for group in made.groups)


def test_a_plan_is_the_same_every_time():
    for name in ("encoder", "resnet18", "llama_block"):
        first, second = (plan(from_model(zoo.build(name)), TARGET, rules=builtin_rules()) for _ in range(2))
        assert first.to_json() == second.to_json()


def test_fusion_is_never_predicted_to_lose():
    for name in (*EXPECTED, "encoder", "llama_block", "resnet18"):
        graph = from_model(zoo.build(name))
        assert plan(graph, TARGET).predicted_us < plan(graph, TARGET, planner="unfused").predicted_us
