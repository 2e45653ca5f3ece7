"""Before and after of each built-in rule: which candidates it sees in a small graph, and which it must not."""

from __future__ import annotations

import math

import pytest
from fusion_graphs import Net, ops

from workbench.fusion import Candidate, Refusal, builtin_rules, rules
from workbench.fusion.matching import bias_of
from workbench.graph import Graph

RULES = {rule.name: rule for rule in builtin_rules()}


def proposed(rule: str, graph: Graph) -> tuple[Candidate, ...]:
    return rules.propose(RULES[rule], graph)[0]


def refused(rule: str, graph: Graph) -> tuple[Refusal, ...]:
    return rules.propose(RULES[rule], graph)[1]


def seen(rule: str, graph: Graph) -> list[str]:
    return [ops(graph, candidate.nodes) for candidate in proposed(rule, graph)]


def test_every_rule_says_what_it_is():
    assert len(RULES) == 13
    for rule in RULES.values():
        assert rule.kind in ("vertical", "horizontal")
        assert len(rule.summary) > 20
        assert "\n" not in rule.summary


# --- elementwise chain ---------------------------------------------------------------------------------------------


def test_chain_takes_in_layout_operators():
    net = Net()
    log = net.op("log", net.input("x", 1, 32, 32, 3))
    squeezed = net.op("squeeze", log)
    graph = net.graph(net.op("add", squeezed, 1.0))
    assert seen("elementwise_chain", graph) == ["log+squeeze+add"]


def test_chain_is_convex_around_a_matmul():
    net = Net()
    a = net.op("nn.relu", net.input("x", 8, 8))
    b = net.op("tanh", a)
    m = net.op("matmul", b, net.const(8, 8))
    graph = net.graph(net.op("nn.relu", net.op("add", m, a)))
    assert seen("elementwise_chain", graph) == ["nn.relu+tanh", "add+nn.relu"]


def test_chain_offers_the_cut_at_a_broadcast():
    net = Net()
    z = net.input("x", 64, 1)
    for _ in range(2):
        z = net.op("exp", z)
    graph = net.graph(net.op("add", net.input("b", 64, 64), z))
    assert seen("elementwise_chain", graph) == ["exp+exp+add", "exp+exp"]


def test_reshapes_alone_are_no_chain():
    net = Net()
    r = net.op("reshape", net.input("x", 4, 4), shape=(16,))
    graph = net.graph(net.op("reshape", r, shape=(2, 8)))
    assert seen("elementwise_chain", graph) == []


# --- bias, activation ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias_first", [False, True])
def test_matmul_bias_gelu_in_both_operand_orders(bias_first: bool):
    net = Net()
    m = net.op("matmul", net.input("x", 1, 16, 32), net.const(32, 64))
    bias = net.const(64)
    add = net.op("add", bias, m) if bias_first else net.op("add", m, bias)
    graph = net.graph(net.op("nn.gelu", add))
    assert seen("bias_activation", graph) == ["matmul+add", "matmul+add+nn.gelu"]


def test_a_reshape_between_bias_and_activation_is_passed():
    net = Net()
    m = net.op("matmul", net.input("x", 16, 32), net.const(32, 64))
    r = net.op("reshape", net.op("add", m, net.const(64)), shape=(1, 16, 64))
    graph = net.graph(net.op("nn.gelu", r))
    assert seen("bias_activation", graph)[-1] == "matmul+add+reshape+nn.gelu"


def test_bias_scale_and_residual():
    net = Net()
    m = net.op("matmul", net.input("x", 16, 32), net.const(32, 64))
    scaled = net.op("multiply", net.op("add", m, net.const(64)), 0.5)
    graph = net.graph(net.op("add", net.input("r", 16, 64), scaled))
    assert seen("bias_activation", graph)[-1] == "matmul+add+multiply+add"


def test_convolution_bias_runs_along_channels():
    net = Net()
    conv = net.op("nn.conv2d", net.input("x", 1, 3, 8, 8), net.const(4, 3, 3, 3), pad=1)
    graph = net.graph(net.op("nn.relu", net.op("add", conv, net.const(1, 4, 1, 1))))
    assert seen("bias_activation", graph) == ["nn.conv2d+add", "nn.conv2d+add+nn.relu"]
    wrong = Net()
    conv = wrong.op("nn.conv2d", wrong.input("x", 1, 3, 8, 8), wrong.const(4, 3, 3, 3), pad=1)
    assert seen("bias_activation", wrong.graph(wrong.op("add", conv, wrong.const(8)))) == []  # along the width


def test_silu_written_out_is_an_activation():
    net = Net()
    m = net.op("matmul", net.input("x", 16, 32), net.const(32, 64))
    graph = net.graph(net.op("multiply", m, net.op("sigmoid", m)))
    assert seen("bias_activation", graph) == ["matmul+sigmoid+multiply"]


def test_a_term_that_widens_the_product_is_no_bias():
    """[3,3] @ [3,1] + s * [1,4] -> [3,4]: the product is broadcast, not the added term."""
    net = Net()
    m = net.op("matmul", net.input("a", 3, 3), net.input("b", 3, 1))
    scaled = net.op("multiply", net.input("s"), net.input("v", 1, 4))
    graph = net.graph(net.op("add", m, scaled))
    assert seen("bias_activation", graph) == []


@pytest.mark.parametrize("spelling", ["multiply", "power"])
def test_a_term_made_of_the_product_is_no_bias(spelling: str):
    net = Net()
    p = net.op("matmul", net.input("a", 128, 128, dtype="float16"), net.input("b", 128, 128, dtype="float16"))
    q = net.op("multiply", p, p) if spelling == "multiply" else net.op("power", p, 2.0)
    graph = net.graph(net.op("add", p, q))
    assert all("add" not in found for found in seen("bias_activation", graph))


def test_a_row_made_of_the_product_is_no_bias_though_it_has_a_bias_s_shape():
    net = Net()
    p = net.op("matmul", net.input("a", 16, 32), net.const(32, 64), name="p")
    mean = net.op("mean", p, axis=(0,))
    graph = net.graph(net.op("add", p, mean, name="sum"))
    assert bias_of(graph, graph.node("p"), graph.node("sum"), "p") is None
    assert seen("bias_activation", graph) == []


def test_a_product_that_is_read_twice_ends_the_epilogue():
    net = Net()
    m = net.op("matmul", net.input("x", 16, 32), net.const(32, 64))
    add = net.op("add", m, net.const(64))
    graph = net.graph(net.op("nn.relu", add), net.op("tanh", add))
    assert seen("bias_activation", graph) == ["matmul+add"]


# --- GELU ----------------------------------------------------------------------------------------------------------


def _gelu_tanh(net: Net, x: str) -> str:
    cubic = net.op("multiply", net.op("multiply", net.op("multiply", 0.044715, x), x), x)
    inner = net.op("multiply", math.sqrt(2 / math.pi), net.op("add", x, cubic))
    return net.op("multiply", net.op("multiply", 0.5, x), net.op("add", 1.0, net.op("tanh", inner)))


def _gelu_tanh_power(net: Net, x: str) -> str:
    cubic = net.op("multiply", net.op("power", x, 3.0), 0.044715)
    inner = net.op("multiply", net.op("add", x, cubic), math.sqrt(2 / math.pi))
    return net.op("multiply", net.op("multiply", x, net.op("add", net.op("tanh", inner), 1.0)), 0.5)


def _gelu_erf(net: Net, x: str) -> str:
    curve = net.op("erf", net.op("divide", x, math.sqrt(2.0)))
    return net.op("multiply", net.op("multiply", x, net.op("add", curve, 1.0)), 0.5)


def _gelu_erf_half_first(net: Net, x: str) -> str:
    curve = net.op("erf", net.op("multiply", x, math.sqrt(0.5)))
    return net.op("multiply", net.op("multiply", 0.5, x), net.op("add", 1.0, curve))


@pytest.mark.parametrize(
    ("write", "count"), [(_gelu_tanh, 9), (_gelu_tanh_power, 8), (_gelu_erf, 5), (_gelu_erf_half_first, 5)]
)
def test_gelu_written_out(write, count: int):
    net = Net()
    graph = net.graph(write(net, net.input("x", 64, 64)))
    candidates = proposed("gelu", graph)
    assert [len(candidate.nodes) for candidate in candidates] == [count]
    assert len(graph.nodes) == count


def test_gelu_written_out_after_matmul_and_bias_is_one_epilogue():
    net = Net()
    m = net.op("matmul", net.input("x", 16, 32), net.const(32, 64))
    graph = net.graph(_gelu_erf(net, net.op("add", m, net.const(64))))
    assert seen("bias_activation", graph)[-1] == "matmul+add+divide+erf+add+multiply+multiply"


def test_gelu_with_an_inner_value_that_is_read_elsewhere_is_not_gelu():
    net = Net()
    x = net.input("x", 64, 64)
    half = net.op("multiply", 0.5, x)
    curve = net.op("erf", net.op("divide", x, math.sqrt(2.0)))
    y = net.op("multiply", half, net.op("add", 1.0, curve))
    assert seen("gelu", net.graph(y, half)) == []
    assert len(seen("gelu", net.graph(y))) == 1


@pytest.mark.parametrize("broken", ["constant", "escape", "factor"])
def test_what_is_nearly_gelu_is_not(broken: str):
    net = Net()
    x = net.input("x", 64, 64)
    curve = net.op("erf", net.op("divide", x, 1.5 if broken == "constant" else math.sqrt(2.0)))
    total = net.op("add", curve, 1.0)
    y = net.op("multiply", net.op("multiply", x, total), 0.25 if broken == "factor" else 0.5)
    graph = net.graph(y, curve) if broken == "escape" else net.graph(y)
    assert seen("gelu", graph) == []


def test_gelu_operator_takes_its_producers():
    net = Net()
    graph = net.graph(net.op("nn.gelu", net.op("add", net.input("x", 8, 8), net.const(8))))
    assert seen("gelu", graph) == ["add+nn.gelu"]


# --- SwiGLU --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written_out", [False, True])
@pytest.mark.parametrize("gate_first", [False, True])
def test_swiglu(written_out: bool, gate_first: bool):
    net = Net()
    x = net.input("x", 16, 32)
    a, b = net.op("matmul", x, net.const(32, 64)), net.op("matmul", x, net.const(32, 64))
    gate = net.op("multiply", a, net.op("sigmoid", a)) if written_out else net.op("nn.silu", a)
    graph = net.graph(net.op("multiply", *((gate, b) if gate_first else (b, gate))))
    assert [len(c.nodes) for c in proposed("swiglu", graph)] == [5 if written_out else 4]


def test_gates_of_different_inputs_are_no_swiglu():
    net = Net()
    a = net.op("matmul", net.input("x", 16, 32), net.const(32, 64))
    b = net.op("matmul", net.input("y", 16, 32), net.const(32, 64))
    assert seen("swiglu", net.graph(net.op("multiply", net.op("nn.silu", a), b))) == []


# --- convolution, batch norm ---------------------------------------------------------------------------------------


def _conv_bn(net: Net, x: str, weight: str | None = None) -> tuple[str, str]:
    conv = net.op("nn.conv2d", x, weight or net.const(4, 4, 3, 3), pad=1)
    return conv, net.op("nn.batch_norm", conv, *[net.const(4) for _ in range(4)])


def test_conv_bn_relu_folds_with_and_without_relu():
    net = Net()
    _, bn = _conv_bn(net, net.input("x", 1, 4, 8, 8))
    graph = net.graph(net.op("nn.relu", bn))
    candidates = proposed("conv_bn_relu", graph)
    assert [ops(graph, c.nodes) for c in candidates] == [
        "nn.conv2d+nn.batch_norm",
        "nn.conv2d+nn.batch_norm+nn.relu",
    ]
    assert {c.rewrite for c in candidates} == {"fold_batchnorm"}


def test_conv_bn_residual_clip():
    net = Net()
    x = net.input("x", 1, 4, 8, 8)
    _, bn = _conv_bn(net, x)
    graph = net.graph(net.op("clip", net.op("add", x, bn), min=0.0, max=6.0))
    assert seen("conv_bn_relu", graph)[-1] == "nn.conv2d+nn.batch_norm+add+clip"


def test_conv_result_that_is_read_elsewhere_is_not_folded():
    net = Net()
    conv, bn = _conv_bn(net, net.input("x", 1, 4, 8, 8))
    assert seen("conv_bn_relu", net.graph(bn, conv)) == []


def test_weights_that_are_no_constants_are_not_folded():
    net = Net()
    _, bn = _conv_bn(net, net.input("x", 1, 4, 8, 8), net.input("w", 4, 4, 3, 3))
    assert seen("conv_bn_relu", net.graph(bn)) == []


# --- normalisation, softmax, reductions ----------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["nn.layer_norm", "nn.rms_norm"])
def test_residual_norm(norm: str):
    net = Net()
    total = net.op("add", net.input("x", 16, 32), net.input("y", 16, 32))
    parameters = [net.const(32)] if norm == "nn.rms_norm" else [net.const(32), net.const(32)]
    y = net.op(norm, total, *parameters, axes=(-1,))
    assert seen("residual_norm", net.graph(y)) == [f"add+{norm}"]
    escaping = net.graph(y, total)
    (candidate,) = proposed("residual_norm", escaping)
    assert escaping.group_outputs(candidate.nodes) == (total, y)


def test_norm_of_a_product_is_no_residual_norm():
    net = Net()
    product = net.op("multiply", net.input("x", 16, 32), net.input("y", 16, 32))
    graph = net.graph(net.op("nn.layer_norm", product, net.const(32), net.const(32), axes=(-1,)))
    assert seen("residual_norm", graph) == []
    assert "multiply+nn.layer_norm" in seen("reduction", graph)


def test_softmax_takes_scale_and_mask():
    net = Net()
    scaled = net.op("divide", net.input("x", 2, 16, 16), 8.0)
    masked = net.op("where", net.input("mask", 1, 16, 16, dtype="bool"), scaled, -1e9, dtype="float32")
    graph = net.graph(net.op("nn.softmax", masked, axis=-1))
    assert seen("softmax", graph) == ["divide+where+nn.softmax"]


def test_softmax_leaves_what_others_read():
    net = Net()
    scaled = net.op("divide", net.input("x", 2, 16, 16), 8.0)
    graph = net.graph(net.op("nn.softmax", scaled, axis=-1), scaled)
    assert seen("softmax", graph) == []


def test_rms_norm_written_out_is_one_reduction_group():
    net = Net()
    x = net.input("x", 16, 32)
    mean = net.op("mean", net.op("multiply", x, x), axis=(-1,), keepdims=True)
    scale = net.op("rsqrt", net.op("add", mean, 1e-5))
    graph = net.graph(net.op("multiply", net.op("multiply", x, scale), net.const(32)))
    assert seen("reduction", graph)[-1] == "multiply+mean+add+rsqrt+multiply+multiply"


def test_pooling_takes_an_epilogue_but_no_producers():
    net = Net()
    x = net.op("add", net.input("x", 1, 4, 8, 8), 1.0)
    pool = net.op("nn.max_pool2d", x, pool_size=(2, 2))
    graph = net.graph(net.op("add", pool, 1.0), net.op("add", pool, 2.0))
    assert set(seen("reduction", graph)) == {"nn.max_pool2d+add+add"}


# --- attention, parallel matmuls -----------------------------------------------------------------------------------


def _attention(net: Net, q: str, k: str, v: str, mask: str | None = None, divide: bool = False) -> str:
    rank = len(net.values[k].shape)
    axes = (*range(rank - 2), rank - 1, rank - 2)
    scores = net.op("matmul", q, net.op("permute_dims", k, axes=axes))
    scaled = net.op("divide", scores, 8.0) if divide else net.op("multiply", scores, 0.125)
    if mask is not None:
        scaled = net.op("add", scaled, mask)
    return net.op("matmul", net.op("nn.softmax", scaled, axis=-1), v)


@pytest.mark.parametrize("divide", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_core(divide: bool, masked: bool):
    net = Net()
    q, k, v = (net.input(name, 1, 8, 64, 16) for name in "qkv")
    mask = net.const(1, 1, 64, 64) if masked else None
    graph = net.graph(_attention(net, q, k, v, mask, divide))
    scale = "divide" if divide else "multiply"
    core = f"matmul+{scale}+{'add+' if masked else ''}nn.softmax+matmul"
    assert seen("attention", graph) == [core, f"permute_dims+{core}"]


def test_attention_with_heads_split_and_joined():
    net = Net()
    heads = []
    for name in "qkv":
        r = net.op("reshape", net.input(name, 1, 64, 128), shape=(1, 64, 8, 16))
        heads.append(net.op("permute_dims", r, axes=(0, 2, 1, 3)))
    y = net.op("permute_dims", _attention(net, *heads), axes=(0, 2, 1, 3))
    graph = net.graph(net.op("reshape", y, shape=(1, 64, 128)))
    core, whole = proposed("attention", graph)
    assert ops(graph, core.nodes) == "matmul+multiply+nn.softmax+matmul"
    assert len(whole.nodes) == len(graph.nodes) == 13


def test_attention_in_three_dimensions_with_reshapes_between():
    """The decomposed form: scores are reshaped to [b, h, s, t] before the softmax and back after it."""
    net = Net()
    scores = net.op("matmul", net.input("q", 8, 64, 16), net.input("kt", 8, 16, 64))
    scaled = net.op("multiply", net.op("reshape", scores, shape=(1, 8, 64, 64)), 0.25)
    flat = net.op("reshape", net.op("nn.softmax", scaled, axis=-1), shape=(8, 64, 64))
    graph = net.graph(net.op("matmul", flat, net.input("v", 8, 64, 16)))
    assert seen("attention", graph) == ["matmul+reshape+multiply+nn.softmax+reshape+matmul"]


@pytest.mark.parametrize("broken", ["axis", "escape", "side"])
def test_what_is_nearly_attention_is_not(broken: str):
    net = Net()
    scores = net.op("matmul", net.input("q", 8, 64, 16), net.input("k", 8, 16, 64))
    weights = net.op("nn.softmax", scores, axis=1 if broken == "axis" else -1)
    v = net.input("v", 8, 64, 64)
    y = net.op("matmul", *((v, weights) if broken == "side" else (weights, v)))
    graph = net.graph(y, weights) if broken == "escape" else net.graph(y)
    assert seen("attention", graph) == []


def test_parallel_matmuls_with_their_biases():
    net = Net()
    x = net.input("x", 1, 16, 32)
    outs = [net.op("add", net.op("matmul", x, net.const(32, n)), net.const(n)) for n in (64, 16, 16)]
    graph = net.graph(*outs)
    assert seen("parallel_matmul", graph) == ["matmul+add+matmul+add+matmul+add"]
    (candidate,) = proposed("parallel_matmul", graph)
    assert candidate.kind == "horizontal"


def test_matmuls_that_depend_on_each_other_are_not_parallel():
    net = Net()
    x = net.input("x", 32, 32)
    first = net.op("matmul", x, net.const(32, 32))
    second = net.op("matmul", x, net.op("add", first, 1.0))
    assert seen("parallel_matmul", net.graph(second)) == []
