"""Publicly reported inputs on which fusing too much, or too little, was slow: what the planner makes of them."""

from __future__ import annotations

import pytest
from fusion_graphs import TARGET, Net, ops

from workbench.fusion import FusionPlan, categories, plan
from workbench.fusion.constraints import Constraints
from workbench.fusion.legality import MAX_ARGUMENTS
from workbench.fusion.plan import Decision
from workbench.graph import Graph


def kernels(made: FusionPlan) -> list[str]:
    return [ops(made.graph, group.nodes) for group in made.groups]


def edge(made: FusionPlan, boundary: str) -> Decision:
    return next(decision for decision in made.decisions if decision.boundary == boundary)


def edge_reason(made: FusionPlan, boundary: str) -> str:
    return edge(made, boundary).reason


def log_and_squeeze() -> Net:
    net = Net()
    squeezed = net.op("squeeze", net.op("log", net.input("x", 1, 32, 32, 3), name="log"), name="squeezed")
    net.op("add", squeezed, 1.0, name="out")
    return net


def test_layout_operators_join_their_elementwise_neighbours():
    """https://github.com/apache/tvm/issues/2932"""
    assert kernels(plan(log_and_squeeze().graph("out"), TARGET)) == ["log+squeeze+add"]


def test_an_edge_that_could_have_been_fused_is_listed_with_its_category():
    """https://github.com/apache/tvm/issues/2932"""
    apart = Constraints(rules_off=("elementwise_chain",))
    made = plan(log_and_squeeze().graph("out"), TARGET, constraints=apart)
    assert made.rules_off == apart.rules_off
    assert kernels(made) == ["log", "squeeze", "add"]
    for boundary in ("log->squeezed", "squeezed->out"):
        assert edge(made, boundary).verdict == "split"
        assert edge(made, boundary).category in (categories.VIEW, categories.RULE_OFF, categories.NO_RULE)


def test_a_pool_takes_the_reshape_behind_it_and_the_edge_to_the_matmul_has_a_reason():
    """https://github.com/apache/tvm/issues/17165"""
    net = Net()
    pool = net.op("nn.adaptive_avg_pool2d", net.input("x", 1, 512, 7, 7), output_size=(1, 1), name="pool")
    flat = net.op("reshape", pool, shape=(1, 512), name="flat")
    made = plan(net.graph(net.op("matmul", flat, net.const(512, 1000), name="product")), TARGET)
    assert kernels(made) == ["nn.adaptive_avg_pool2d+reshape", "matmul"]
    assert edge(made, "flat->product").category == categories.SLOWER
    assert "a reduction needs whole rows of the product" in edge_reason(made, "flat->product")


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_no_group_exceeds_the_limit_and_the_plan_says_which_is_in_force(limit: int):
    """https://github.com/apache/tvm/issues/15358"""
    net = Net()
    x = net.input("x", 10, 20)
    first, second, third, fourth, fifth = (net.op("multiply", x, 2.0) for _ in range(5))
    total = net.op("add", net.op("add", net.op("add", first, second), net.op("add", third, fourth)), fifth)
    made = plan(net.graph(total), TARGET, constraints=Constraints(max_nodes=limit))
    assert max(len(group.nodes) for group in made.groups) == limit
    assert made.to_json()["max_nodes"] == limit
    assert any(decision.category == categories.SIZE_LIMIT for decision in made.decisions)
    assert kernels(plan(net.graph(total), TARGET)) == ["+".join(["multiply"] * 5 + ["add"] * 4)]


def test_a_limit_on_table_lookups_bounds_every_kernel():
    """https://github.com/microsoft/hummingbird/issues/232"""
    net = Net()
    value, index = net.input("value", 100), net.input("index", 100, dtype="int64")
    for level in range(8):
        right = net.op("greater_equal", value, net.op("take", net.const(50 << level), index, axis=0), dtype="bool")
        doubled = net.op("multiply", index, net.number(2, "int64"))
        index = net.op("add", doubled, net.op("astype", right, dtype="int64"))
    graph = net.graph(net.op("take", net.const(50 << 8), index, axis=0))
    kernel_counts = []
    for limit in (1, 5, 10, 50):
        made = plan(graph, TARGET, constraints=Constraints(max_nodes=limit))
        assert all(len(group.nodes) <= limit for group in made.groups)
        kernel_counts.append(len(made.groups))
    assert kernel_counts[0] == len(graph.nodes)
    assert kernel_counts == sorted(kernel_counts, reverse=True)
    assert kernel_counts[-1] < kernel_counts[1] < kernel_counts[0]


def _layers_of_thin_producers(steps: int) -> Graph:
    """``out += exp(a) tanh(a)`` three times, with a[384, 1], or with so many exp behind each other."""
    net = Net()
    a, out = net.input("a", 384, 1), net.input("b", 384, 384)
    for layer in range(3):
        thin = a
        for _ in range(steps):
            thin = net.op("exp", thin)
        thin = net.op("multiply", thin, net.op("tanh", a), name=f"thin{layer}")
        out = net.op("add", thin, out, name=f"out{layer}")
    return net.graph(out)


def test_cheap_thin_producers_are_repeated_once_a_tile():
    """https://github.com/iree-org/iree/issues/13308; measured: one kernel is 3.5 times faster than one an operator"""
    made = plan(_layers_of_thin_producers(1), TARGET)
    assert len(made.groups) == 1
    (whole,) = (d for d in made.decisions if len(d.nodes) == 12)
    assert whole.factors is not None
    assert whole.factors.recompute == 384


def test_costly_thin_producers_are_not_recomputed_in_every_layer():
    """https://github.com/iree-org/iree/issues/13308"""
    made = plan(_layers_of_thin_producers(24), TARGET)
    assert "add+add+add" in kernels(made)
    assert "recompute factor 384" in edge_reason(made, "thin0->out0")


def test_normalisation_and_transposed_store_stay_apart():
    """https://github.com/pytorch/pytorch/issues/124131"""
    net = Net()
    x = net.input("x", 4096, 1024)
    centred = net.op("subtract", x, net.op("mean", x, axis=(1,), keepdims=True))
    variance = net.op("mean", net.op("multiply", centred, centred), axis=(1,), keepdims=True)
    y = net.op("multiply", centred, net.op("rsqrt", net.op("add", variance, 1e-5)))
    made = plan(net.graph(net.op("permute_dims", y, axes=(1, 0))), TARGET)
    assert kernels(made) == ["mean+subtract+multiply+mean+add+rsqrt+multiply", "permute_dims"]


def test_a_reduction_does_not_read_through_a_transpose():
    """https://github.com/csarofeen/pytorch/issues/1372"""
    net = Net()
    y = net.op("nn.relu", net.op("add", net.input("x", 128, 256, 64), net.input("b", 64)))
    turned = net.op("permute_dims", y, axes=(0, 2, 1))
    made = plan(net.graph(net.op("sum", turned, axis=(2,))), TARGET)
    assert kernels(made)[-1] == "sum"


def test_elementwise_work_is_not_put_into_a_matmul_s_input():
    """https://github.com/NVIDIA/cutlass/issues/458 and https://github.com/iree-org/iree/issues/13189"""
    net = Net()
    r = net.op("nn.relu", net.op("add", net.input("x", 512, 512), net.input("b", 512)), name="r")
    made = plan(net.graph(net.op("matmul", r, net.const(512, 512), name="m")), TARGET)
    assert kernels(made) == ["add+nn.relu", "matmul"]
    assert "recompute factor 512" in edge_reason(made, "r->m")


@pytest.mark.parametrize("swapped", [False, True])
def test_bias_behind_a_reshape_and_in_either_place_is_matched(swapped: bool):
    """https://github.com/microsoft/onnxruntime/issues/23491"""
    net = Net()
    m = net.op("matmul", net.input("x", 1, 150, 128), net.const(128, 512))
    bias = net.op("reshape", net.input("b", 512), shape=(1, 1, 512))
    add = net.op("add", bias, m) if swapped else net.op("add", m, bias)
    made = plan(net.graph(net.op("nn.gelu", add)), TARGET)
    assert "matmul+add+nn.gelu" in kernels(made)


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("behind", ["nothing", "astype", "reshape", "both"])
def test_written_out_gelu_behind_a_bias_is_matched_however_the_bias_is_spelled(behind: str, swapped: bool):
    """https://github.com/microsoft/onnxruntime/issues/23491"""
    net = Net()
    product = net.op("matmul", net.input("x", 1, 1500, 1280), net.const(1280, 5120), name="product")
    bias = net.const(5120, dtype="float64" if behind in ("astype", "both") else "float32")
    if behind in ("astype", "both"):
        bias = net.op("astype", bias, dtype="float32")
    if behind in ("reshape", "both"):
        bias = net.op("reshape", bias, shape=(1, 1, 5120))
    add = net.op("add", bias, product) if swapped else net.op("add", product, bias)
    erf = net.op("add", net.op("erf", net.op("multiply", add, 2**-0.5)), 1.0)
    out = net.op("multiply", net.op("multiply", add, erf), 0.5)
    made = plan(net.graph(out), TARGET)
    fused = made.group_of(product)
    assert fused.rule == "bias_activation"
    assert {add, erf, out} <= set(fused.nodes)


def assert_few_arguments(made: FusionPlan) -> None:
    """A kernel of one operator has the arguments that it has; a group has no more than the limit."""
    for group in made.groups:
        names = (*made.graph.group_inputs(group.nodes), *made.graph.group_outputs(group.nodes))
        assert len(names) <= MAX_ARGUMENTS or len(group.nodes) == 1


@pytest.mark.parametrize(("tensors", "groups"), [(100, 4), (320, 11)])
def test_a_long_sum_of_many_tensors_respects_the_argument_limit(tensors: int, groups: int):
    """https://github.com/pytorch/pytorch/issues/93802"""
    net = Net()
    total = net.input("i0", 16)
    for i in range(1, tensors):
        total = net.op("add", total, net.input(f"i{i}", 16))
    made = plan(net.graph(total), TARGET)
    assert_few_arguments(made)
    assert len(made.groups) == groups
    assert any(decision.category == categories.ARGUMENTS for decision in made.decisions if decision.edge)


def test_a_concat_of_many_tensors_stays_alone_because_of_the_argument_limit():
    """https://github.com/apache/tvm/issues/15137"""
    net = Net()
    parts = [net.op("nn.relu", net.input(f"i{i}", 16), name=f"part{i}") for i in range(300)]
    made = plan(net.graph(net.op("concat", *parts, axis=0, name="joined")), TARGET)
    assert_few_arguments(made)
    assert made.group_of("joined").nodes == ("joined",)
    stopped = edge(made, "part7->joined")
    assert stopped.category == categories.ARGUMENTS
    assert f"at most {MAX_ARGUMENTS} are allowed" in stopped.reason


def test_pooling_does_not_take_in_what_it_reads():
    """https://github.com/apache/tvm/issues/20401: partial fusion was fastest."""
    net = Net()
    x = net.input("x", 1, 16, 64, 64)
    parts = [net.op("add", x, float(i)) for i in range(9)]
    thirds = [net.op("concat", *parts[i : i + 3], axis=1) for i in (0, 3, 6)]
    pool = net.op("nn.max_pool2d", net.op("concat", *thirds, axis=1), pool_size=(2, 2))
    made = plan(net.graph(net.op("add", pool, 1.0), net.op("add", pool, 2.0)), TARGET)
    assert len(made.groups) == 2
    assert kernels(made)[1] == "nn.max_pool2d+add+add"
