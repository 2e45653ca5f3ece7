"""What users' rules propose becomes kernels that are right, whatever the rules and groups are called."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_models import assert_right, build, model_of, plan_of, target, tensor

from workbench.fusion import PatternRule, RelaxPatternRule, builtin_rules, plan, rule
from workbench.fusion.patterns import op, repeat
from workbench.fusion.rules import propose
from workbench.graph import from_model
from workbench.kernels import lower
from workbench.models import Model, load, zoo
from workbench.tvm_seam import relax, tvm

R = relax.op
topi = tvm.topi


def nested_tuples() -> Model:
    """Two elementwise results packed as ((a, b), c), the first taken out and used."""

    def body(emit, x):
        a = emit(R.add(x, relax.const(1.0, "float32")))
        b = emit(R.multiply(x, relax.const(2.0, "float32")))
        packed = emit(relax.Tuple([relax.Tuple([a, b]), emit(R.exp(a))]))
        first = emit(relax.TupleGetItem(emit(relax.TupleGetItem(packed, 0)), 0))
        return relax.Tuple([emit(R.nn.relu(first)), b])

    return model_of([tensor("x", (4, 8))], body)


@pytest.mark.parametrize("name", ["fused", "main", "fused_add", "call_tir", "g0"])
def test_a_rule_may_have_the_name_of_a_function_of_tvm(name: str) -> None:
    """https://github.com/apache/tvm/issues/20194"""

    @rule(name=name)
    def mine(graph):
        yield {node.id for node in graph.nodes if node.op in ("add", "nn.relu")}

    model = nested_tuples()
    made = plan(from_model(model), target(), rules=[mine])
    assert [group.rule for group in made.groups if len(group.nodes) > 1] == [name]
    assert_right(model, lower(model, made, "planned"), model.example_inputs(0))


@pytest.mark.parametrize("names", [("fused", "main"), ("main", "fused"), ("main", "vm_main")])
def test_groups_may_have_the_names_of_functions_of_tvm(names: tuple[str, str]) -> None:
    """https://github.com/apache/tvm/issues/20194"""
    model = nested_tuples()
    graph = from_model(model)
    add, multiply = (next(node.id for node in graph.nodes if node.op == op_name) for op_name in ("add", "multiply"))
    made = plan_of(graph, [add, next(node.id for node in graph.nodes if node.op == "nn.relu")], [multiply])
    renamed = tuple(replace(group, id=names[index]) if index < 2 else group for index, group in enumerate(made.groups))
    assert_right(model, lower(model, replace(made, groups=renamed), "planned"), model.example_inputs(0))


def test_a_model_may_have_a_function_that_is_called_fused() -> None:
    """https://github.com/apache/tvm/issues/20194"""
    builder = relax.BlockBuilder()
    x = tensor("x", (4, 8))
    with builder.function("main", [x]):
        with builder.dataflow():
            tripled = builder.emit_te(lambda a: topi.multiply(a, 3.0), x, primfunc_name_hint="fused")
            result = builder.emit_output(builder.emit(R.nn.relu(tripled)))
        builder.emit_func_output(result)
    model = load(builder.get(), name="small")
    given, graph = model.example_inputs(0), from_model(model)
    assert "call_tir:fused" in {node.op for node in graph.nodes}
    joined = lower(model, plan_of(graph, [node.id for node in graph.nodes]), "planned")
    np.testing.assert_allclose(build(model, joined)(*given), np.maximum(given[0] * 3, 0), rtol=1e-6)


SPLITS = {
    "function": rule(name="split_alone")(lambda graph: ({n.id} for n in graph.nodes if n.op == "split")),
    "pattern": PatternRule("split_alone", op("split")),
    "relax": RelaxPatternRule("split_alone", relax.dpl.is_op("relax.split")(relax.dpl.wildcard())),
}


@pytest.mark.parametrize("spelling", SPLITS)
@pytest.mark.parametrize("used", [1, 2])
def test_a_rule_may_match_split_alone(spelling: str, used: int) -> None:
    """https://github.com/apache/tvm/issues/14525"""

    def body(emit, x):
        parts = emit(R.split(x, 2, axis=1))
        items = [emit(relax.TupleGetItem(parts, index)) for index in range(used)]
        return relax.Tuple(items) if used > 1 else items[0]

    model = model_of([tensor("x", (16, 32))], body)
    graph = from_model(model)
    (candidate,) = propose(SPLITS[spelling], graph)[0]
    assert [graph.node(node).op for node in candidate.nodes] == ["split"]
    made = plan(graph, target(), rules=[SPLITS[spelling]])
    (given,) = model.example_inputs(0)
    result = build(model, lower(model, made, "planned"))(given)
    parts = result if isinstance(result, tuple) else (result,)
    for part, expected in zip(parts, np.split(given, 2, axis=1)[:used], strict=True):
        np.testing.assert_array_equal(part, expected)


SMALL = {
    "llama_block": {"seq": 8, "dim": 32, "heads": 4, "kv_heads": 2, "head_dim": 8, "ffn": 48},
    "pool_add": {"channels": 4, "size": 8},
    "conv_bn_relu": {"channels": 4, "size": 6},
    "qkv": {"rows": 8, "dim": 16},
}


@pytest.mark.parametrize(
    ("name", "of"),
    [
        ("rotary_projection", "llama_block"),
        ("attention", "llama_block"),
        ("swiglu", "llama_block"),
        ("conv_bn_relu", "conv_bn_relu"),
        ("parallel_matmul", "qkv"),
        ("sibling_kernels", "pool_add"),
    ],
)
def test_each_candidate_of_a_rule_is_a_kernel_that_is_right(name: str, of: str) -> None:
    model = zoo.build(of, **SMALL[of])
    graph = from_model(model)
    candidates = propose(next(one for one in builtin_rules() if one.name == name), graph)[0]
    assert candidates
    for candidate in candidates:
        made = plan_of(graph, candidate.nodes, rewrite=candidate.rewrite)
        assert_right(model, lower(model, made, name), model.example_inputs(1))


def reading_one_input() -> Model:
    """Three elementwise readers of a tensor that is large enough for a pass over it to count."""

    def body(emit, x, thin):
        first, second = emit(R.nn.relu(x)), emit(R.multiply(x, thin))
        return relax.Tuple([first, emit(R.tanh(second)), emit(R.add(x, relax.const(1.0, "float32")))])

    return model_of([tensor("x", (512, 256)), tensor("thin", (1, 256))], body)


def test_readers_of_one_large_tensor_are_one_kernel_with_three_results() -> None:
    model = reading_one_input()
    graph = from_model(model)
    (candidate,) = propose(next(one for one in builtin_rules() if one.name == "shared_reads"), graph)[0]
    assert len(candidate.nodes) == len(graph.nodes) == 4
    lowered = lower(model, plan_of(graph, candidate.nodes), "planned")
    assert len(lowered.calls) == 1
    assert_right(model, lowered, model.example_inputs(2))


def test_a_pattern_with_repetition_is_planned_and_right() -> None:
    chain = repeat(op(kind=("elementwise", "broadcast")), op("matmul"), min=1, max=8)
    model = zoo.build("bias_gelu", rows=8, inner=16, outer=16)
    made = plan(from_model(model), target(), rules=[PatternRule("epilogue", chain)])
    assert [group.rule for group in made.groups] == ["epilogue"]
    assert_right(model, lower(model, made, "planned"), model.example_inputs(2))
