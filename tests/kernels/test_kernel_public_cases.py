"""Publicly reported inputs that compilers refused, crashed on or got wrong, compiled and compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_models import assert_right, constant, model_of, outputs_of, target, tensor, variants

from workbench.errors import SymbolicShapeError
from workbench.fusion import plan
from workbench.fusion.constraints import Constraints
from workbench.graph import from_model
from workbench.kernels import lower
from workbench.models import Model, load
from workbench.reference import compare, evaluate
from workbench.tvm_seam import relax, tvm

R = relax.op
Emit = Callable[[Any], Any]
HALVES = np.array([0.5, 1.5, 2.5, 3.5, -0.5, -1.5, -2.5, 2.4999998], "float32")


def trees(levels: int, rows: int = 64, roots: int = 10) -> Model:
    """Decision trees walked by table lookups."""

    def body(emit: Emit, value: Any, index: Any) -> Any:
        for level in range(levels):
            threshold = emit(R.reshape(emit(R.take(constant((roots << level,), level), index, axis=0)), (rows, 1)))
            right = emit(R.astype(emit(R.greater_equal(value, threshold)), "int64"))
            doubled = emit(R.multiply(index, relax.const(2, "int64")))
            index = emit(R.add(doubled, emit(R.reshape(right, (rows,)))))
        return emit(R.take(constant((roots << levels,), levels), index, axis=0))

    return model_of([tensor("value", (rows, 1)), tensor("index", (rows,), "int64")], body)


@pytest.mark.parametrize("limit", [1, 4, 15, None])
def test_table_lookups_are_right_at_every_size_of_kernel(limit: int | None) -> None:
    """https://github.com/microsoft/hummingbird/issues/232"""
    model = trees(levels=4)
    made = plan(from_model(model), target(), constraints=Constraints(max_nodes=limit))
    assert limit is None or max(len(group.nodes) for group in made.groups) <= limit
    assert_right(model, lower(model, made, "planned"), model.example_inputs())


def test_a_long_sum_of_many_tensors_is_right_in_kernels_of_few_arguments() -> None:
    """https://github.com/pytorch/pytorch/issues/93802"""

    def body(emit: Emit, *terms: Any) -> Any:
        total = terms[0]
        for term in terms[1:]:
            total = emit(R.add(total, term))
        return total

    model = model_of([tensor(f"i{index}", (16,)) for index in range(310)], body)
    lowered = lower(model, plan(from_model(model), target()), "planned")
    assert len(lowered.calls) < 15
    assert_right(model, lowered, model.example_inputs())


def matched_mid_graph(rows: int | None) -> Any:
    """Elementwise work before and after a cast to a shape with a new symbol; ``rows`` None: unknown."""
    rows_or_symbol = tvm.tirx.Var("rows", "int64") if rows is None else rows
    x = relax.Var("x", relax.TensorType([rows_or_symbol, 8], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            before = builder.emit(R.exp(builder.emit(R.add(x, relax.const(1.0, "float32")))))
            matched = builder.match_cast(before, relax.TensorType([tvm.tirx.Var("s1", "int64"), 8], "float32"))
            after = builder.emit(R.subtract(builder.emit(R.multiply(matched, matched)), matched))
            result = builder.emit_output(R.nn.relu(after))
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.parametrize(("rows", "batch"), [(None, 4), (4, None)])
def test_a_symbol_that_is_defined_mid_graph_is_resolved_where_the_shape_is_known(
    rows: int | None, batch: int | None
) -> None:
    """https://github.com/apache/tvm/issues/20195"""
    model = load(matched_mid_graph(rows), batch=batch, name="matched")
    for lowered in variants(model).values():
        assert_right(model, lowered, model.example_inputs())
    planned = lower(model, plan(from_model(model), target()), "planned")
    assert len(planned.calls) == 1  # no cast is left to stand between the two halves
    assert_right(model, planned, model.example_inputs())


def test_a_symbol_that_is_defined_mid_graph_of_unknown_rows_is_refused_by_name() -> None:
    """https://github.com/apache/tvm/issues/20195"""
    with pytest.raises(SymbolicShapeError, match="'rows' has no size; give a size with --batch"):
        load(matched_mid_graph(None), name="matched")


def test_halves_are_rounded_to_even_in_kernels_and_when_folded() -> None:
    """https://github.com/apache/tvm/pull/19368"""
    expected = [0, 2, 2, 4, 0, -2, -2, 2]
    folded = model_of([tensor("x", (8,))], lambda emit, x: emit(R.add(x, emit(R.round(relax.const(HALVES))))))
    assert [node.op for node in from_model(folded).nodes] == ["add"]
    compiled = model_of(
        [tensor("x", (8,)), tensor("y", (8,))], lambda emit, x, y: emit(R.add(x, emit(R.round(emit(R.negative(y))))))
    )
    zeros = np.zeros(8, "float32")
    for model, inputs in ((folded, [zeros]), (compiled, [zeros, -HALVES])):
        for lowered in variants(model).values():
            np.testing.assert_array_equal(outputs_of(model, lowered, inputs)[0], expected)


@pytest.mark.parametrize("scale", [1e2, 1e3])
def test_a_fused_residual_layer_norm_in_half_precision_is_as_exact_as_the_unfused_one(scale: float) -> None:
    """https://github.com/microsoft/onnxruntime/issues/17689: an error of 9.77 fused, 0.39 unfused."""
    gamma, beta = constant((768,), 1, "float16"), constant((768,), 2, "float16")
    inputs = [tensor(name, (1, 128, 768), "float16") for name in ("x", "y")]
    model = model_of(
        inputs, lambda emit, x, y: emit(R.nn.layer_norm(emit(R.add(x, y)), gamma, beta, axes=[-1], epsilon=1e-5))
    )
    random = np.random.default_rng(0)
    data = [(random.uniform(0.1, 1.0, (1, 128, 768)) * scale).astype("float16") for _ in inputs]
    graph = from_model(model)
    [expected], [native] = evaluate(graph, data, "float64"), evaluate(graph, data, "native")
    errors = {}
    for name, lowered in {**variants(model), "planned": lower(model, plan(graph, target()), "planned")}.items():
        [actual] = outputs_of(model, lowered, data)
        reported = compare(actual, expected, native)
        assert reported.correct, reported.message
        errors[name] = np.abs(actual.astype("float64") - expected).max()
        assert reported.max_abs_error == pytest.approx(errors[name])
    assert max(errors["joined"], errors["planned"]) <= 2 * errors["unfused"]
