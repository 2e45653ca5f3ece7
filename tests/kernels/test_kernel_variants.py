"""Whole models, partitioned in every way, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_models import assert_right, constant, model_of, outputs_of, plan_of, target, tensor, variants

from workbench.fusion import plan
from workbench.graph import from_model
from workbench.kernels import lower, lower_greedy
from workbench.models import zoo
from workbench.targets.llvm import host_features
from workbench.tvm_seam import relax, tvm

R = relax.op
SMALL = {
    "gelu": {"rows": 8, "cols": 16},
    "elementwise_chain": {"rows": 8, "cols": 16},
    "bias_gelu": {"rows": 8, "inner": 16, "outer": 16},
    "swiglu": {"rows": 8, "inner": 16, "outer": 24},
    "residual_layernorm": {"rows": 8, "cols": 32},
    "conv_bn_relu": {"channels": 4, "size": 6},
    "qkv": {"rows": 8, "dim": 16},
    "attention": {"heads": 2, "seq": 8, "dim": 8},
    "mha": {"seq": 8, "dim": 16, "heads": 2},
    "encoder": {"seq": 8, "dim": 16, "heads": 2, "ffn": 32},
    "pool_add": {"channels": 4, "size": 8},
    "llama_block": {"seq": 8, "dim": 32, "heads": 4, "kv_heads": 2, "head_dim": 8, "ffn": 48},
}


@pytest.mark.parametrize("name", SMALL)
def test_a_built_in_model_is_right_in_every_variant(name: str) -> None:
    model = zoo.build(name, **SMALL[name])
    graph = from_model(model)
    lowered = {
        "unfused": lower(model, plan(graph, target(), rules=(), planner="unfused"), "unfused"),
        "planned": lower(model, plan(graph, target()), "planned"),
        "greedy": lower_greedy(model),
    }
    for variant in lowered.values():
        assert_right(model, variant, model.example_inputs(3))
    assert len(lowered["planned"].calls) <= len(lowered["unfused"].calls)
    assert len(lowered["greedy"].calls) <= len(lowered["unfused"].calls)


@pytest.mark.parametrize("name", ["residual_layernorm", "attention", "pool_add", "bias_gelu"])
def test_a_whole_model_as_one_kernel_is_right(name: str) -> None:
    model = zoo.build(name, **SMALL[name])
    joined = variants(model)["joined"]
    assert len(joined.calls) == 1
    assert joined.intermediate_bytes == 0
    assert_right(model, joined, model.example_inputs(4))


def test_values_that_escape_become_further_results() -> None:
    model = model_of(
        [tensor("x", (4, 8))],
        lambda emit, x: relax.Tuple([a := emit(R.exp(x)), b := emit(R.add(a, x)), emit(R.multiply(b, a))]),
    )
    graph = from_model(model)
    first, second, third = (node.id for node in graph.nodes)
    lowered = lower(model, plan_of(graph, [first, third, second]), "planned")
    assert [len(lowered.workloads), lowered.workloads[lowered.calls[0].workload].num_outputs] == [1, 3]
    assert_right(model, lowered, model.example_inputs())
    half = lower(model, plan_of(graph, [first, second]), "planned")
    assert half.workloads[half.calls[0].workload].num_outputs == 2
    assert_right(model, half, model.example_inputs())


def test_an_input_read_twice_is_one_argument() -> None:
    model = model_of([tensor("x", (4, 8))], lambda emit, x: emit(R.multiply(emit(R.add(x, x)), x)))
    for name, lowered in variants(model).items():
        for workload in lowered.workloads.values():
            shared = name != "unfused" or workload.ops == ("add",)
            assert len(workload.args) == (2 if shared else 3)
        assert_right(model, lowered, model.example_inputs())


def test_a_tuple_result_is_split_in_its_own_kernel_and_in_a_group() -> None:
    def body(emit, x):
        parts = emit(R.split(emit(R.matmul(x, constant((8, 12)))), 3, axis=1))
        return emit(R.add(emit(relax.TupleGetItem(parts, 0)), emit(relax.TupleGetItem(parts, 2))))

    model = model_of([tensor("x", (4, 8))], body)
    for lowered in variants(model).values():
        assert_right(model, lowered, model.example_inputs())


def test_reshapes_are_no_kernels_and_keep_their_data() -> None:
    """Also where the view is an output while its source is still read, and where it is made of an input."""

    def body(emit, x):
        a = emit(R.exp(x))
        flat = emit(R.reshape(a, (32,)))
        later = emit(R.add(emit(R.multiply(a, a)), a))
        return relax.Tuple([flat, emit(R.expand_dims(later, 0)), emit(R.reshape(x, (8, 4)))])

    model = model_of([tensor("x", (4, 8))], body)
    lowered = variants(model)
    assert [call.ops for call in lowered["unfused"].calls] == [("exp",), ("multiply",), ("add",)]
    for variant in lowered.values():
        assert_right(model, variant, model.example_inputs())


def test_match_cast_does_not_spoil_the_unfused_baseline() -> None:
    """TVM's own unfused build frees ``src`` too early and returns right + right."""
    builder = relax.BlockBuilder()
    x = tensor("x", (5, 8))
    with builder.function("main", [x]):
        with builder.dataflow():
            source = builder.emit(R.add(x, relax.const(0.25, "float32")))
            left = builder.match_cast(source, relax.TensorType([5, 8], "float32"))
            right = builder.emit(R.add(x, relax.const(0.125, "float32")))
            result = builder.emit_output(R.add(left, right))
        builder.emit_func_output(result)
    from workbench.models import load

    model = load(builder.get(), name="cast")
    [data] = model.example_inputs()
    for lowered in variants(model).values():
        assert_right(model, lowered, [data])


def test_match_cast_that_reaches_lowering_is_resolved() -> None:
    """The stage itself resolves aliases, whatever an importer left."""
    from dataclasses import replace

    model = model_of([tensor("x", (5, 8))], lambda emit, x: emit(R.add(emit(R.exp(x)), emit(R.sqrt(x)))))
    builder = relax.BlockBuilder()
    x = tensor("x", (5, 8))
    with builder.function("main", [x]):
        with builder.dataflow():
            left = builder.match_cast(builder.emit(R.exp(x)), relax.TensorType([5, 8], "float32"))
            right = builder.emit(R.exp(builder.emit(R.negative(x))))
            result = builder.emit_output(R.add(left, right))
        builder.emit_func_output(result)
    model = replace(model, module=builder.get())
    for lowered in variants(model).values():
        assert_right(model, lowered, model.example_inputs())


def test_int8_products_wrap_before_they_are_widened() -> None:
    inputs = [tensor("a", (64,), "int8"), tensor("b", (64,), "int8"), tensor("c", (64,), "int64")]
    model = model_of(inputs, lambda emit, a, b, c: emit(R.multiply(emit(R.astype(emit(R.multiply(a, b)), "int64")), c)))
    a = np.full(64, 127, "int8")
    c = np.arange(64, dtype="int64")
    for lowered in variants(model).values():
        assert_right(model, lowered, [a, a, c])


def test_a_float16_product_overflows_before_it_is_multiplied_by_zero() -> None:
    inputs = [tensor(name, (64,), "float16") for name in ("a", "b", "zero")]
    model = model_of(inputs, lambda emit, a, b, zero: emit(R.multiply(emit(R.multiply(a, b)), zero)))
    big, zero = np.full(64, 300, "float16"), np.zeros(64, "float16")
    for lowered in variants(model).values():
        assert_right(model, lowered, [big, big, zero])


def test_float16_products_are_rounded_before_they_are_added() -> None:
    """As NumPy does; a processor with float16 arithmetic of its own may round the whole multiply-add once."""
    inputs = [tensor(name, (64,), "float16") for name in ("a", "b", "c")]
    model = model_of(inputs, lambda emit, a, b, c: emit(R.subtract(emit(R.multiply(a, b)), c)))
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(64).astype("float16") for _ in range(3))
    big, large = np.full(64, 300, "float16"), np.full(64, 60000, "float16")
    with np.errstate(over="ignore"):
        once, twice = (a.astype("float64") * b - c).astype("float16"), a * b - c
    contracts = "avx512fp16" in host_features()
    for lowered in variants(model).values():
        found = outputs_of(model, lowered, [a, b, c])[0]
        assert ((found == twice) | ((found == once) & contracts)).all()
        found = outputs_of(model, lowered, [big, big, large])[0]
        assert (np.isinf(found) | ((found == 300 * 300 - 60000) & contracts)).all()
        assert_right(model, lowered, [a, b, c])
        assert_right(model, lowered, [big, big, large])


def test_int16_products_wrap_before_they_are_divided() -> None:
    inputs = [tensor(name, (64,), "int16") for name in ("a", "b")]
    model = model_of(inputs, lambda emit, a, b: emit(R.divide(emit(R.multiply(a, b)), b)))
    a, b = np.full(64, 32000, "int16"), np.full(64, 3, "int16")
    wrapped = int(np.array(32000 * 3, "int64").astype("int16"))
    for lowered in variants(model).values():
        np.testing.assert_array_equal(outputs_of(model, lowered, [a, b])[0], np.full(64, int(wrapped / 3), "int16"))


def test_a_function_named_fused_and_nested_tuples() -> None:
    """TVM's FuseTIR aborts on a user's function of this name."""
    from tvm import te

    source = te.placeholder((4, 8), name="source")
    program = te.create_prim_func([source, te.compute((4, 8), lambda i, j: source[i, j] + 1.0, name="result")])
    builder = relax.BlockBuilder()
    x = tensor("x", (4, 8))
    fused = builder.add_func(program.with_attr("global_symbol", "fused"), "fused")
    with builder.function("main", [x]):
        with builder.dataflow():
            a = builder.emit(relax.call_tir(fused, [x], relax.TensorType([4, 8], "float32")))
            b = builder.emit(R.multiply(x, x))
            nested = builder.emit(relax.Tuple([relax.Tuple([a, b]), x]))
            inner = builder.emit(relax.TupleGetItem(nested, 0))
            result = builder.emit_output(R.exp(builder.emit(relax.TupleGetItem(inner, 0))))
        builder.emit_func_output(result)
    from workbench.models import load

    model = load(builder.get(), name="nested")
    for lowered in variants(model).values():
        assert_right(model, lowered, model.example_inputs())


def test_a_tensor_program_of_the_user_is_a_workload() -> None:
    from tvm import te

    source = te.placeholder((4, 8), name="source")
    scaled = te.compute((4, 8), lambda i, j: source[i, j] * 3.0, name="scaled")
    builder = relax.BlockBuilder()
    x = tensor("x", (4, 8))
    with builder.function("main", [x]):
        with builder.dataflow():
            program = builder.add_func(te.create_prim_func([source, scaled]).without_attr("global_symbol"), "triple")
            a = builder.emit(relax.call_tir(program, [x], relax.TensorType([4, 8], "float32")))
            result = builder.emit_output(R.exp(a))
        builder.emit_func_output(result)
    from workbench.models import load

    model = load(builder.get(), name="program")
    lowered = variants(model)
    assert ("call_tir:triple",) in [call.ops for call in lowered["unfused"].calls]
    [data] = model.example_inputs()
    for variant in lowered.values():
        assert_right(model, variant, [data])


def test_main_of_the_lowered_model_is_well_formed() -> None:
    model = zoo.build("encoder", **SMALL["encoder"])
    for lowered in variants(model).values():
        relax.analysis.well_formed(lowered.module)  # raises where it is not
        called = [call.function for call in lowered.calls]
        assert set(called) == {
            name.name_hint
            for name, function in lowered.module.functions_items()
            if isinstance(function, tvm.tirx.PrimFunc)
        }


def test_sorting_and_scanning_are_kernels() -> None:
    def body(emit, x):
        best = emit(R.topk(x, k=3, axis=1, ret_type="values"))
        return relax.Tuple([emit(R.sort(x, axis=1)), best, emit(R.cumsum(x, axis=1))])

    model = model_of([tensor("x", (5, 16))], body)
    [x] = model.example_inputs()
    expected = [np.sort(x, axis=1), -np.sort(-x, axis=1)[:, :3], np.cumsum(x.astype(np.float64), axis=1)]
    for lowered in (lower(model, plan_of(from_model(model)), "unfused"), lower_greedy(model)):
        for got, wanted in zip(outputs_of(model, lowered, [x]), expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
