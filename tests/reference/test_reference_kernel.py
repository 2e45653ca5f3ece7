"""Seeded references of kernels."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from reference_cases import graph_of, module_of

from workbench.errors import KernelError
from workbench.reference import compare_all, kernel_reference
from workbench.tvm_seam import relax, tvm

te, topi = tvm.te, tvm.topi
R = relax.op


def test_reference_of_a_prim_func_is_what_numpy_makes_of_its_inputs() -> None:
    a, b = te.placeholder((12, 20)), te.placeholder((20, 9))
    func = te.create_prim_func([a, b, topi.nn.matmul(a, b)])
    found = kernel_reference(func, seed=3)
    assert [x.shape for x in found.inputs] == [(12, 20), (20, 9)]
    assert all(x.dtype == np.float32 for x in found.inputs)
    expected = found.inputs[0].astype(np.float64) @ found.inputs[1]
    np.testing.assert_allclose(found.reference64[0], expected, rtol=1e-12)
    assert found.native[0].dtype == np.float32
    assert compare_all([(found.inputs[0] @ found.inputs[1])], found.reference64, found.native).correct


def test_seeds_repeat_and_differ() -> None:
    x = te.placeholder((50,))
    func = te.create_prim_func([x, topi.exp(x)])
    first, again, other = (kernel_reference(func, seed=s).inputs[0] for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("rows", [100, 3, 1])
def test_integers_are_valid_indices(rows: int) -> None:
    x, i = te.placeholder((rows, 20)), te.placeholder((30,), "int64")
    func = te.create_prim_func([x, i, topi.take(x, i, 0, mode="fast")])
    found = kernel_reference(func)
    index = found.inputs[1]
    assert index.min() >= 0
    assert index.max() < min(8, rows)
    np.testing.assert_array_equal(found.native[0], found.inputs[0][index])


def test_inputs_become_positive_where_values_would_be_nan() -> None:
    x, v = te.placeholder((30, 4)), te.placeholder((4,))
    func = te.create_prim_func([x, v, te.compute((30, 4), lambda i, j: x[i, j] * tvm.tirx.rsqrt(v[j]))])
    found = kernel_reference(func)
    assert np.isfinite(found.reference64[0]).all()
    np.testing.assert_allclose(found.reference64[0], found.inputs[0] / np.sqrt(found.inputs[1].astype(np.float64)))


def _over_own_sum(rows: int, columns: int) -> tvm.tirx.PrimFunc:
    x = te.placeholder((rows, columns))
    return te.create_prim_func([x, topi.divide(x, topi.sum(x, axis=1, keepdims=True))])


@pytest.mark.parametrize("seed", range(5))
def test_right_kernels_pass_where_sums_of_signed_numbers_are_divided_by(seed: int) -> None:
    found = kernel_reference(_over_own_sum(2048, 384), seed)
    x = found.inputs[0]
    pairwise = x / x.sum(axis=1, keepdims=True)
    backwards = x / np.cumsum(x[:, ::-1], axis=1, dtype=np.float32)[:, -1:]
    for right in (pairwise, backwards):
        assert compare_all([right], found.reference64, found.native).correct
    half = x / x.sum(axis=1, keepdims=True).astype(np.float16).astype(np.float32)
    assert not compare_all([half], found.reference64, found.native).correct


def test_inputs_keep_their_signs_where_conditions_are_alike() -> None:
    a, b = te.placeholder((64, 200)), te.placeholder((200, 64))
    for func in (te.create_prim_func([a, b, topi.nn.matmul(a, b)]), te.create_prim_func([a, topi.nn.softmax(a)])):
        assert kernel_reference(func).inputs[0].min() < -1


def test_bools_are_both() -> None:
    c, x = te.placeholder((64,), "bool"), te.placeholder((64,))
    func = te.create_prim_func([c, x, te.compute((64,), lambda i: tvm.tirx.Select(c[i], x[i], -x[i]))])
    found = kernel_reference(func)
    assert 0 < found.inputs[0].sum() < 64


def test_weights_of_a_workload_are_scaled_by_their_fan_in() -> None:
    a, b = te.placeholder((12, 400)), te.placeholder((400, 900))
    func = te.create_prim_func([a, b, topi.nn.matmul(a, b)])
    workload = SimpleNamespace(module=tvm.IRModule({"main": func}), layout_free=(1,), num_outputs=1, graph=None)
    found = kernel_reference(workload)
    assert abs(found.inputs[0].std() - 1) < 0.05
    assert abs(found.inputs[1].std() - 1 / 20) < 0.005
    assert 0.8 < found.native[0].std() < 1.2


def test_operators_stand_in_for_a_packed_program() -> None:
    def build(x):
        return R.sort(x, 1)

    array = np.zeros((6, 5), np.float32)
    graph = graph_of(module_of(build, [array]))
    x = te.placeholder((6, 5))
    func = te.create_prim_func([x, topi.sort(x, 1)])
    with pytest.raises(KernelError, match="packed function"):
        kernel_reference(func)
    workload = SimpleNamespace(module=tvm.IRModule({"main": func}), layout_free=(), num_outputs=1, graph=graph)
    found = kernel_reference(workload)
    np.testing.assert_array_equal(found.native[0], np.sort(found.inputs[0], 1))


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(KernelError, match="PrimFunc"):
        kernel_reference(3)
