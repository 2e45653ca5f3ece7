"""Before and after of each built-in rule: which candidates it sees in a small graph, and which it must not."""

from __future__ import annotations

import math

import pytest
from fusion_graphs import Net, ops

from workbench.fusion import Candidate, Refusal, builtin_rules, categories, rules
from workbench.fusion.legality import MAX_OUTPUTS, check_candidate
from workbench.fusion.matching import bias_of
from workbench.graph import Graph, from_model, from_text
from workbench.models import zoo

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


MASKS = {
    "added": "masked: float32[1, 8, 64, 64] = add(scaled, mask)",
    "causal, a constant triangle": "masked: float32[1, 8, 64, 64] = add(scaled, triangle)",
    "causal, made from ones": """
        tri: float32[64, 64] = triu(ones){k=1}
        far: float32[64, 64] = multiply(tri, -1e9)
        masked: float32[1, 8, 64, 64] = add(scaled, far)""",
    "boolean": "masked: float32[1, 8, 64, 64] = where(keep, scaled, least)",
    "boolean, of the scores' shape": """
        kept: bool[1, 8, 64, 64] = broadcast_to(keep){shape=(1, 8, 64, 64)}
        masked: float32[1, 8, 64, 64] = where(kept, scaled, least)""",
    "soft cap": """
        low: float32[1, 8, 64, 64] = divide(scaled, 50.0)
        curve: float32[1, 8, 64, 64] = tanh(low)
        high: float32[1, 8, 64, 64] = multiply(curve, 50.0)
        masked: float32[1, 8, 64, 64] = add(high, mask)""",
}


@pytest.mark.parametrize("mask", MASKS)
def test_attention_with_every_spelling_of_a_mask(mask: str):
    graph = from_text(f"""
        q: float32[1, 8, 64, 16]
        kt: float32[1, 8, 16, 64]
        v: float32[1, 8, 64, 16]
        mask: float32[1, 1, 64, 64]
        keep: bool[1, 1, 64, 64]
        triangle: float32[64, 64] = const
        ones: float32[64, 64] = const
        least: float32 = -1e9
        scores: float32[1, 8, 64, 64] = matmul(q, kt)
        scaled: float32[1, 8, 64, 64] = multiply(scores, 0.25)
        {MASKS[mask]}
        weights: float32[1, 8, 64, 64] = nn.softmax(masked){{axis=-1}}
        y: float32[1, 8, 64, 16] = matmul(weights, v)
        return y""")
    core = proposed("attention", graph)[0]
    assert {"scores", "scaled", "masked", "weights", "y"} <= set(core.nodes)
    assert {"tri", "far"}.isdisjoint(core.nodes)


REPEATED = {
    "repeat": "{0}s: float32[1, 8, 64, 16] = repeat({0}){{repeats=4, axis=1}}",
    "broadcast": """
        {0}1: float32[1, 2, 1, 64, 16] = expand_dims({0}){{axis=(2,)}}
        {0}2: float32[1, 2, 4, 64, 16] = broadcast_to({0}1){{shape=(1, 2, 4, 64, 16)}}
        {0}s: float32[1, 8, 64, 16] = reshape({0}2){{shape=(1, 8, 64, 16)}}""",
}


@pytest.mark.parametrize("spelling", REPEATED)
def test_grouped_query_attention_takes_the_repetition_of_heads_along(spelling: str):
    repeated = "\n".join(REPEATED[spelling].format(name) for name in "kv")
    graph = from_text(f"""
        q: float32[1, 8, 64, 16]
        k: float32[1, 2, 64, 16]
        v: float32[1, 2, 64, 16]
        {repeated}
        kt: float32[1, 8, 16, 64] = permute_dims(ks){{axes=(0, 1, 3, 2)}}
        scores: float32[1, 8, 64, 64] = matmul(q, kt)
        weights: float32[1, 8, 64, 64] = nn.softmax(scores){{axis=-1}}
        y: float32[1, 8, 64, 16] = matmul(weights, vs)
        return y""")
    core, whole = proposed("attention", graph)
    assert core.nodes == ("scores", "weights", "y")
    assert len(whole.nodes) == len(graph.nodes)


def test_attention_in_half_precision_with_softmax_in_single():
    graph = from_text("""
        q: float16[8, 64, 16]
        kt: float16[8, 16, 64]
        v: float16[8, 64, 16]
        scores: float16[8, 64, 64] = matmul(q, kt)
        wide: float32[8, 64, 64] = astype(scores)
        weights: float32[8, 64, 64] = nn.softmax(wide){axis=-1}
        narrow: float16[8, 64, 64] = astype(weights)
        y: float16[8, 64, 16] = matmul(narrow, v)
        return y""")
    assert seen("attention", graph) == ["matmul+astype+nn.softmax+astype+matmul"]


# --- rotary embedding, scale ---------------------------------------------------------------------------------------


def test_rotary_embedding_is_found_in_query_and_key_of_a_llama_block():
    graph = from_model(zoo.build("llama_block", seq=8, dim=32, heads=4, kv_heads=2, head_dim=8, ffn=48))
    found = proposed("rotary_projection", graph)
    assert [ops(graph, one.nodes).partition("+")[0] for one in found] == ["matmul", "matmul"]
    assert all(len(one.nodes) == 10 for one in found)
    assert set(found[0].nodes).isdisjoint(found[1].nodes)


def test_rotary_embedding_with_split_and_with_a_bias():
    graph = from_text("""
        x: float32[8, 32]
        W: float32[32, 32] = const
        b: float32[32] = const
        cos: float32[8, 1, 8] = const
        sin: float32[8, 1, 8] = const
        product: float32[8, 32] = matmul(x, W)
        biased: float32[8, 32] = add(b, product)
        q: float32[8, 4, 8] = reshape(biased){shape=(8, 4, 8)}
        halves: (low: float32[8, 4, 4], high: float32[8, 4, 4]) = split(q){axis=-1, indices_or_sections=2}
        minus: float32[8, 4, 4] = negative(high)
        turned: float32[8, 4, 8] = concat(minus, low){axis=-1}
        across: float32[8, 4, 8] = multiply(sin, turned)
        straight: float32[8, 4, 8] = multiply(cos, q)
        y: float32[8, 4, 8] = add(across, straight)
        return y""")
    (found,) = proposed("rotary_projection", graph)
    assert len(found.nodes) == len(graph.nodes) == 9


@pytest.mark.parametrize(("factor", "part"), [("2.0", "scale"), ("s", "scale"), ("wrong", None)])
def test_a_scale_is_a_number_or_runs_along_the_channels(factor: str, part: str | None):
    graph = from_text(f"""
        x: float32[16, 32]
        W: float32[32, 64] = const
        s: float32[64] = const
        wrong: float32[16, 1] = const
        m: float32[16, 64] = matmul(x, W)
        y: float32[16, 64] = multiply(m, {factor})
        return y""")
    reasons = [one.reason for one in proposed("bias_activation", graph)]
    assert [f"matmul + {part}" in reason for reason in reasons] == ([True] if part else [])


# --- siblings ------------------------------------------------------------------------------------------------------


def test_small_kernels_of_equal_shape_are_batched_and_others_left():
    graph = from_text("""
        a: float32[64]
        b: float32[64]
        c: float32[32]
        p: float32[64] = exp(a)
        q: float32[64] = tanh(b)
        r: float32[32] = tanh(c)
        later: float32[64] = sort(p)
        s: float32[64] = exp(later)
        return q, r, s""")
    assert [one.nodes for one in proposed("sibling_kernels", graph)] == [("p", "q")]


def test_a_batch_has_no_more_results_than_a_kernel_may():
    lines = [f"x{i}: float32[16]\ny{i}: float32[16] = exp(x{i})" for i in range(20)]
    graph = from_text("\n".join([*lines, f"return {', '.join(f'y{i}' for i in range(20))}"]))
    assert [len(one.nodes) for one in proposed("sibling_kernels", graph)] == [MAX_OUTPUTS, MAX_OUTPUTS, 4]


@pytest.mark.parametrize("rule", ["sibling_kernels", "shared_reads"])
@pytest.mark.parametrize("count", [50, 500])
def test_horizontal_candidates_grow_no_faster_than_the_graph(rule: str, count: int):
    size = 16 if rule == "sibling_kernels" else 512
    lines = [f"x: float32[{size}, {size}]"]
    for i in range(count):
        lines.append(f"y{i}: float32[{size}, {size}] = exp(x)\ns{i}: float32[{size}, {size}] = sort(y{i})")
    graph = from_text("\n".join([*lines, f"return {', '.join(f's{i}' for i in range(count))}"]))
    found = proposed(rule, graph)
    assert 1 <= len(found) <= count
    for candidate in found:
        check_candidate(graph, candidate)


def test_readers_of_a_large_tensor_share_one_pass():
    graph = from_text("""
        x: float32[512, 512]
        thin: float32[1, 512]
        p: float32[512, 512] = nn.relu(x)
        q: float32[512, 512] = multiply(x, thin)
        s: float32[512, 512] = sort(x)
        r: float32[512, 512] = add(s, x)
        return p, q, r""")
    assert [one.nodes for one in proposed("shared_reads", graph)] == [("p", "q", "r")]


def test_readers_that_need_each_other_do_not_share_a_pass():
    graph = from_text("""
        x: float32[512, 512]
        p: float32[512, 512] = nn.relu(x)
        s: float32[512, 512] = sort(p)
        r: float32[512, 512] = add(s, x)
        return r""")
    assert proposed("shared_reads", graph) == ()
    (one,) = refused("shared_reads", graph)
    assert (one.category, one.nodes) == (categories.CYCLE, ("p", "r"))
