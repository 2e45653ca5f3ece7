"""The tensor program interpreter against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
from reference_cases import graph_of, module_of
from tvm.script import tirx as T

from workbench.errors import KernelError
from workbench.reference import compare_all, evaluate, evaluate_prim_func, tir_block, tir_domain, tir_reduce
from workbench.tvm_seam import relax, tvm

te, topi = tvm.te, tvm.topi


def normal(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def run(tensors, *arrays: np.ndarray, dtype: str = "float64") -> list[np.ndarray]:
    return evaluate_prim_func(te.create_prim_func(tensors), arrays, dtype)


def test_matmul_bias_relu() -> None:
    a, b, c = te.placeholder((65, 33)), te.placeholder((33, 47)), te.placeholder((47,))
    arrays = normal(65, 33), normal(33, 47, seed=1), normal(47, seed=2)
    program = [a, b, c, topi.nn.relu(topi.add(topi.nn.matmul(a, b), c))]
    expected = np.maximum(arrays[0].astype(np.float64) @ arrays[1] + arrays[2], 0)
    np.testing.assert_allclose(run(program, *arrays)[0], expected, rtol=1e-12)
    (native,) = run(program, *arrays, dtype="native")
    assert native.dtype == np.float32
    np.testing.assert_allclose(native, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("piece", [64, 1000, 1 << 24])
def test_pieces_of_a_domain_make_the_same(monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(tir_domain, "PIECE", piece)
    monkeypatch.setattr(tir_reduce, "PIECE", piece)
    monkeypatch.setattr(tir_reduce, "ELEMENTWISE_PIECE", piece)
    monkeypatch.setattr(tir_block, "ELEMENTWISE_PIECE", piece)
    x, w = te.placeholder((2, 6, 9, 8)), te.placeholder((4, 6, 3, 3))
    arrays = normal(2, 6, 9, 8), normal(4, 6, 3, 3, seed=1)
    conv = topi.nn.conv2d(x, w, 2, 1, 1)
    (out,) = run([x, w, topi.nn.softmax(conv, axis=1)], *arrays)
    padded = np.pad(arrays[0].astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = np.zeros((2, 4, 5, 4))
    for i in range(5):
        for j in range(4):
            window = padded[:, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3]
            expected[:, :, i, j] = np.einsum("ncab,ocab->no", window, arrays[1])
    np.testing.assert_allclose(out, scipy.special.softmax(expected, axis=1), rtol=1e-11)


def test_argmax_with_ties_takes_the_first() -> None:
    x = te.placeholder((5, 40))
    array = np.random.default_rng(0).integers(0, 5, (5, 40)).astype(np.float32)
    (out,) = run([x, topi.argmax(x, 1)], array)
    np.testing.assert_array_equal(out, array.argmax(1))
    assert out.dtype == np.int32


def test_reductions_other_than_sums() -> None:
    x = te.placeholder((4, 7, 3))
    array = normal(4, 7, 3)
    for make, expected in (
        (topi.max, np.max),
        (topi.min, np.min),
        (topi.prod, np.prod),
        (topi.sum, np.sum),
    ):
        (out,) = run([x, make(x, axis=(0, 2))], array)
        np.testing.assert_allclose(out, expected(array.astype(np.float64), axis=(0, 2)), rtol=1e-12)
    flags = te.placeholder((4, 7), "bool")
    truth = np.random.default_rng(1).integers(0, 5, (4, 7)) > 0
    np.testing.assert_array_equal(run([flags, topi.all(flags, axis=1)], truth)[0], truth.all(1))
    np.testing.assert_array_equal(run([flags, topi.any(flags, axis=1)], truth)[0], truth.any(1))


def test_scan_and_gather_and_scatter() -> None:
    x, i = te.placeholder((6, 5)), te.placeholder((4,), "int64")
    array, index = normal(6, 5), np.array([5, 0, 3, 3])
    np.testing.assert_allclose(run([x, topi.cumsum(x, 1)], array)[0], array.astype(np.float64).cumsum(1), rtol=1e-12)
    np.testing.assert_array_equal(run([x, i, topi.take(x, i, 0, mode="clip")], array, index)[0], array[index])


def test_an_index_out_of_bounds_is_an_error() -> None:
    x, i = te.placeholder((6,)), te.placeholder((2,), "int64")
    program = te.create_prim_func([x, i, te.compute((2,), lambda k: x[i[k]])])
    with pytest.raises(KernelError, match="without a guard"):
        evaluate_prim_func(program, [normal(6), np.array([1, 9])])


def test_padding_reads_only_where_its_condition_holds() -> None:
    x = te.placeholder((4, 5))
    (out,) = run([x, topi.nn.pad(x, (1, 0), (2, 3), 7.0)], normal(4, 5), dtype="native")
    np.testing.assert_array_equal(out, np.pad(normal(4, 5), ((1, 2), (0, 3)), constant_values=7))


def test_integer_arithmetic_wraps_and_truncates() -> None:
    x, y = te.placeholder((4,), "int8"), te.placeholder((4,), "int8")
    a, b = np.array([127, -128, -7, 7], np.int8), np.array([127, 2, 2, -2], np.int8)
    (product,) = run([x, y, te.compute((4,), lambda i: (x[i] * y[i]).astype("int64"))], a, b)
    np.testing.assert_array_equal(product, [1, 0, -14, -14])
    (quotient,) = run([x, y, te.compute((4,), lambda i: tvm.tirx.truncdiv(x[i], y[i]))], a, b)
    np.testing.assert_array_equal(quotient, [1, -64, -3, -3])
    (floored,) = run([x, y, te.compute((4,), lambda i: tvm.tirx.floordiv(x[i], y[i]))], a, b)
    np.testing.assert_array_equal(floored, [1, -64, -4, -4])
    (rest,) = run([x, y, te.compute((4,), lambda i: tvm.tirx.floormod(x[i], y[i]))], a, b)
    np.testing.assert_array_equal(rest, [0, 0, 1, -1])


def test_int8_sums_accumulate_in_int32() -> None:
    a, b = te.placeholder((9, 64), "int8"), te.placeholder((64, 8), "int8")
    k = te.reduce_axis((0, 64))
    c = te.compute((9, 8), lambda i, j: te.sum(a[i, k].astype("int32") * b[k, j].astype("int32"), axis=k))
    x = np.random.default_rng(0).integers(-128, 128, (9, 64)).astype(np.int8)
    y = np.random.default_rng(1).integers(-128, 128, (64, 8)).astype(np.int8)
    (out,) = run([a, b, c], x, y)
    np.testing.assert_array_equal(out, x.astype(np.int64) @ y.astype(np.int64))
    assert out.dtype == np.int32


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sigmoid", "erf", "sqrt", "rsqrt", "floor", "ceil", "round"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_intrinsics(name: str, dtype: str) -> None:
    reference = {
        "sigmoid": scipy.special.expit,
        "erf": scipy.special.erf,
        "rsqrt": lambda v: 1 / np.sqrt(v),
        "round": np.rint,
    }
    function = reference.get(name) or getattr(np, name)
    x = te.placeholder((50,), dtype)
    array = (np.abs(normal(50)) + 0.5).astype(dtype)
    program = [x, te.compute((50,), lambda i: getattr(tvm.tirx, name)(x[i]))]
    exact = function(array.astype(np.float64))
    np.testing.assert_allclose(run(program, array)[0], exact, rtol=1e-12)
    (native,) = run(program, array, dtype="native")
    assert native.dtype == array.dtype
    np.testing.assert_allclose(native, exact, rtol=2 * float(np.finfo(dtype).eps))


def test_bit_casts_keep_the_bits_of_the_programs_dtype() -> None:
    x = te.placeholder((3,))
    array = np.array([1.0, -2.5, 3e-8], np.float32)
    (bits,) = run([x, te.compute((3,), lambda i: tvm.tirx.reinterpret("int32", x[i]))], array)
    np.testing.assert_array_equal(bits, array.view(np.int32))


def test_polynomial_exponential_is_near_the_real_one() -> None:
    x = te.placeholder((400,))
    array = np.linspace(-20, 20, 400, dtype=np.float32)
    (out,) = run([x, topi.fast_exp(x)], array, dtype="native")
    np.testing.assert_allclose(out, np.exp(array.astype(np.float64)), rtol=2e-6)


def test_nan_passes_through_max_and_min() -> None:
    x = te.placeholder((2,))
    array = np.array([np.nan, -1], np.float32)
    np.testing.assert_array_equal(run([x, topi.nn.relu(x)], array, dtype="native")[0], [np.nan, 0])


@T.prim_func(s_tir=True)
def predicated(x: T.Buffer((10,), "float32"), y: T.Buffer((10,), "float32"), total: T.Buffer((1,), "float32")):
    for a, b in T.grid(3, 4):
        with T.sblock("copy"):
            v = T.axis.spatial(10, a * 4 + b)
            T.where(a * 4 + b < 10)
            T.reads(x[v])
            T.writes(y[v])
            y[v] = x[v] * T.float32(2)
    for a, b in T.grid(3, 4):
        with T.sblock("sum"):
            z = T.axis.spatial(1, 0)
            v = T.axis.reduce(10, a * 4 + b)
            T.where(a * 4 + b < 10)
            T.reads(y[v])
            T.writes(total[z])
            with T.init():
                total[z] = T.float32(0)
            total[z] = total[z] + y[v]


def test_predicates_and_split_loops() -> None:
    array = normal(10)
    doubled, total = evaluate_prim_func(predicated, [array])
    np.testing.assert_allclose(doubled, 2 * array.astype(np.float64))
    np.testing.assert_allclose(total, [2 * array.astype(np.float64).sum()], rtol=1e-12)


@T.prim_func(s_tir=True)
def chained(x: T.Buffer((6,), "float32"), y: T.Buffer((6,), "float32")):
    for i in range(6):
        with T.sblock("first"):
            v = T.axis.spatial(6, i)
            y[v] = x[v] + T.float32(1)
    for i in range(5):
        with T.sblock("chain"):
            v = T.axis.spatial(5, i)
            y[v + 1] = y[v] * x[v + 1]


def test_a_block_that_reads_what_it_wrote_runs_in_order() -> None:
    array = normal(6)
    expected = array.astype(np.float64) + 1
    for i in range(5):
        expected[i + 1] = expected[i] * float(array[i + 1])
    np.testing.assert_allclose(evaluate_prim_func(chained, [array])[0], expected, rtol=1e-12)


@T.prim_func(s_tir=True)
def searched(x: T.Buffer((8,), "int32"), out: T.Buffer((1,), "int32")):
    with T.sblock("search"):
        T.reads(x[0:8])
        T.writes(out[0])
        out[0] = 0
        while x[out[0]] < 5:
            out[0] = out[0] + 1


def test_a_while_loop_runs() -> None:
    np.testing.assert_array_equal(evaluate_prim_func(searched, [np.arange(8, dtype=np.int32)])[0], [5])


def test_a_packed_call_is_named() -> None:
    x = te.placeholder((3, 5))
    program = te.create_prim_func([x, topi.sort(x)])
    with pytest.raises(KernelError, match="packed function"):
        evaluate_prim_func(program, [normal(3, 5)])


def test_arguments_that_do_not_fit() -> None:
    x = te.placeholder((3, 5))
    program = te.create_prim_func([x, topi.exp(x)])
    with pytest.raises(KernelError, match="shape"):
        evaluate_prim_func(program, [normal(5, 3)])
    with pytest.raises(KernelError, match="no array"):
        evaluate_prim_func(program, [])
    with pytest.raises(KernelError, match="more arrays"):
        evaluate_prim_func(program, [normal(3, 5), normal(3, 5)])


def test_a_fused_group_equals_its_operators() -> None:
    def build(x, w, g, b):
        op = relax.op
        return op.nn.layer_norm(op.add(x, op.nn.gelu(op.matmul(x, w))), g, b, [-1])

    arrays = [normal(20, 32), normal(32, 32, seed=1), normal(32, seed=2), normal(32, seed=3)]
    module = module_of(build, arrays)
    graph = graph_of(module)
    fused = tvm.ir.transform.Sequential(
        [
            relax.transform.LegalizeOps(),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FuseOps(),
            relax.transform.FuseTIR(),
        ]
    )(module)
    lowered = graph_of(fused)
    assert len(lowered.nodes) < len(graph.nodes)
    expected = evaluate(graph, arrays)
    np.testing.assert_allclose(evaluate(lowered, arrays)[0], expected[0], rtol=1e-9, atol=1e-10)
    natives = evaluate(lowered, arrays, "native"), evaluate(graph, arrays, "native")
    assert compare_all(natives[0], expected, natives[1]).correct


def test_kernels_that_tvm_compiles_are_right() -> None:
    """TVM's own code for the host, unscheduled, against the interpreter."""
    x, w = te.placeholder((64, 48)), te.placeholder((48, 32))
    program = te.create_prim_func([x, w, topi.nn.softmax(topi.tanh(topi.nn.matmul(x, w)))])
    arrays = [normal(64, 48), normal(48, 32, seed=1)]
    library = tvm.compile(tvm.IRModule({"main": program}), target="llvm")
    out = tvm.runtime.tensor(np.zeros((64, 32), np.float32))
    library["main"](*(tvm.runtime.tensor(a) for a in arrays), out)
    reference = evaluate_prim_func(program, arrays)
    assert compare_all([out.numpy()], reference, evaluate_prim_func(program, arrays, "native")).correct
    wrong = out.numpy().copy()
    wrong[5, 7] *= 1.01
    assert not compare_all([wrong], reference, evaluate_prim_func(program, arrays, "native")).correct
