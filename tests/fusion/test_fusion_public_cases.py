"""Publicly reported inputs on which fusing too much, or too little, was slow: what the planner makes of them."""

from __future__ import annotations

import pytest
from fusion_graphs import TARGET, Net, ops

from workbench.fusion import FusionPlan, plan
from workbench.fusion.legality import MAX_ARGUMENTS


def kernels(made: FusionPlan) -> list[str]:
    return [ops(made.graph, group.nodes) for group in made.groups]


def edge_reason(made: FusionPlan, boundary: str) -> str:
    return next(decision.reason for decision in made.decisions if decision.boundary == boundary)


def test_costly_thin_producers_are_not_recomputed_in_every_layer():
    """https://github.com/iree-org/iree/issues/13308"""
    net = Net()
    a, out = net.input("a", 384, 1), net.input("b", 384, 384)
    for layer in range(3):
        thin = net.op("multiply", net.op("exp", a), net.op("tanh", a), name=f"thin{layer}")
        out = net.op("add", thin, out, name=f"out{layer}")
    made = plan(net.graph(out), TARGET)
    assert sorted(kernels(made)) == ["add+add+add", *["exp+tanh+multiply"] * 3]
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


def test_a_long_sum_of_many_tensors_respects_the_argument_limit():
    """https://github.com/pytorch/pytorch/issues/93802"""
    net = Net()
    total = net.input("i0", 16)
    for i in range(1, 100):
        total = net.op("add", total, net.input(f"i{i}", 16))
    made = plan(net.graph(total), TARGET)
    for group in made.groups:
        names = (*made.graph.group_inputs(group.nodes), *made.graph.group_outputs(group.nodes))
        assert len(names) <= MAX_ARGUMENTS
    assert len(made.groups) == 4
    assert any("argument limit" in decision.reason for decision in made.decisions if decision.edge)


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
