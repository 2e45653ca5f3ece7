"""Evaluation of whole graphs: precisions, unsupported operators, what is refused."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from reference_cases import graph_of, module_of

from workbench.errors import InputError, UnsupportedOperator
from workbench.reference import evaluate, evaluate_all, supported, unsupported
from workbench.tvm_seam import relax, tvm

R = relax.op


def test_round_takes_halves_to_even() -> None:
    """As NumPy, ONNX and PyTorch do, whether the operand is a constant or a parameter."""
    halves = np.array([0.5, 1.5, 2.5, -0.5, -1.5], np.float32)
    (out,) = evaluate(graph_of(module_of(R.round, [halves])), [halves])
    np.testing.assert_array_equal(out, torch.round(torch.from_numpy(halves)).numpy())
    x = tvm.te.placeholder((5,))
    from workbench.reference import evaluate_prim_func

    func = tvm.te.create_prim_func([x, tvm.topi.round(x)])
    np.testing.assert_array_equal(evaluate_prim_func(func, [halves])[0], [0, 2, 2, 0, -2])


def test_float64_keeps_every_intermediate_wide() -> None:
    x = np.array([1.0, 2.0], np.float16)

    def build(v):
        return R.subtract(R.add(v, relax.const(2.0**-12, "float16")), v)

    graph = graph_of(module_of(build, [x]))
    values = evaluate_all(graph, [x])
    assert all(v.dtype == np.float64 for v in values.values())
    np.testing.assert_array_equal(values[graph.outputs[0]], [2.0**-12] * 2)
    (native,) = evaluate(graph, [x], "native")
    assert native.dtype == np.float16
    np.testing.assert_array_equal(native, [0, 0])


def test_bfloat16_rounds_at_every_step() -> None:
    kind = np.dtype(ml_dtypes.bfloat16)
    x = np.array([1.0, 3.0], kind)
    graph = graph_of(module_of(lambda v: R.multiply(R.exp(v), v), [x]))
    (native,) = evaluate(graph, [x], "native")
    want = torch.from_numpy(x.astype(np.float32)).bfloat16()
    expected = (torch.exp(want) * want).float().numpy()
    assert native.dtype == kind
    np.testing.assert_array_equal(native.astype(np.float32), expected)


def test_int8_wraps_in_both_precisions() -> None:
    x = np.array([127, -128, 100], np.int8)
    graph = graph_of(module_of(lambda v: R.add(v, v), [x]))
    for precision in ("float64", "native"):
        np.testing.assert_array_equal(evaluate(graph, [x], precision)[0], np.array([-2, 0, -56], np.int8))


def test_float16_model_equals_pytorch_in_float16_to_a_rounding() -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float16) for s in ((8, 16), (16, 4)))
    graph = graph_of(module_of(lambda a, b: R.nn.relu(R.matmul(a, b)), [x, w]))
    (native,) = evaluate(graph, [x, w], "native")
    want = torch.relu(torch.from_numpy(x).float() @ torch.from_numpy(w).float()).numpy()
    np.testing.assert_allclose(native.astype(np.float32), want, rtol=0.01, atol=0.02)


def test_outputs_that_are_inputs_items_and_constants() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)

    def build(v):
        return relax.Tuple([v, relax.const(np.float32([4]), "float32")])

    out = evaluate(graph_of(module_of(build, [x])), [x])
    np.testing.assert_array_equal(out[0], x)
    np.testing.assert_array_equal(out[1], [4])


def test_an_unknown_operator_is_named() -> None:
    x = np.zeros((1, 2, 3), np.float32)
    graph = graph_of(module_of(lambda v: R.image.affine_grid(v, (4, 5)), [x]))
    assert not supported("image.affine_grid")
    assert supported("nn.softmax")
    assert [node.op for node in unsupported(graph)] == ["image.affine_grid"]
    with pytest.raises(UnsupportedOperator, match=r"image\.affine_grid"):
        evaluate(graph, [x])


def test_a_users_program_is_interpreted_and_one_that_cannot_be_is_named() -> None:
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)

    def graph(make):
        var = relax.Var("x", relax.TensorType(x.shape, "float32"))
        builder = relax.BlockBuilder()
        with builder.function("main", [var]):
            with builder.dataflow():
                out = builder.emit_output(builder.emit_te(make, var, primfunc_name_hint="mine"))
            builder.emit_func_output(out)
        return graph_of(builder.get())

    np.testing.assert_allclose(evaluate(graph(tvm.topi.tanh), [x])[0], np.tanh(x.astype(np.float64)), rtol=1e-12)
    sorting = graph(tvm.topi.sort)
    assert unsupported(sorting) == []
    with pytest.raises(UnsupportedOperator, match=r"call_tir:mine.*packed"):
        evaluate(sorting, [x])


def test_inputs_that_do_not_fit_are_refused() -> None:
    x = np.zeros((2, 3), np.float32)
    graph = graph_of(module_of(R.exp, [x]))
    with pytest.raises(InputError, match="1 inputs"):
        evaluate(graph, [])
    with pytest.raises(InputError, match=r"float32\[2, 3\]"):
        evaluate(graph, [x.T])
    with pytest.raises(InputError, match="float64"):
        evaluate(graph, [x.astype(np.float64)])


def test_inputs_are_not_written_to() -> None:
    x, i, u = np.zeros((3, 4), np.float32), np.array([[1, 1, 1, 1]]), np.ones((1, 4), np.float32)
    graph = graph_of(module_of(lambda a, b, c: R.scatter_elements(a, b, c, 0, "add"), [x, i, u]))
    (out,) = evaluate(graph, [x, i, u], "native")
    assert out[1].sum() == 4
    assert x.sum() == 0
