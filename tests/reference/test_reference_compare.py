"""What the comparison accepts and what it rejects."""

from __future__ import annotations

import math
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from reference_cases import graph_of, module_of

from workbench.reference import compare, compare_all, evaluate
from workbench.reference.ops.contraction import narrow_matmul
from workbench.tvm_seam import relax

R = relax.op


def judge(build, arrays, actual):
    """Compares ``actual`` with the evaluation of a program."""
    graph = graph_of(module_of(build, arrays))
    return compare_all(actual, evaluate(graph, arrays), evaluate(graph, arrays, "native"))


def normal(*shape: int, seed: int = 0, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def serial_matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The plain loop: one term after the other, in the arrays' dtype."""
    total = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    for k in range(a.shape[1]):
        total = total + a[:, k, None] * b[None, k]
    return total


def polynomial_exp(x: np.ndarray) -> np.ndarray:
    """exp in float32 by range reduction and a polynomial of degree 6: about one unit in the last place off."""
    n = np.rint(x * np.float32(1 / math.log(2)))
    r = x - n * np.float32(0.693359375) + n * np.float32(2.12194440e-4)
    p = np.zeros_like(x)
    for c in (1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1.0, 1.0):
        p = p * r + np.float32(c)
    return np.ldexp(p, n.astype(np.int32)).astype(np.float32)


@pytest.mark.parametrize("depth", [16, 512, 4608])
def test_another_order_of_summation_is_right(depth: int) -> None:
    a, b = normal(40, depth), normal(depth, 30, seed=1)
    outcome = judge(R.matmul, [a, b], [serial_matmul(a, b)])
    assert outcome.correct, outcome.message
    assert 0 < outcome.max_abs_error < 1e-2


def test_lanes_of_a_long_mean_are_right() -> None:
    x = normal(1024, 768) + np.float32(3)
    lanes = x.reshape(-1, 8).sum(axis=0, dtype=np.float32).sum(dtype=np.float32) / np.float32(x.size)
    assert judge(lambda v: R.mean(v), [x], [np.asarray(lanes, np.float32)]).correct


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_accumulation_is_right(dtype: str) -> None:
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    a, b = normal(20, 512).astype(kind), normal(512, 24, seed=1).astype(kind)
    assert judge(R.matmul, [a, b], [narrow_matmul(a, b, kind)]).correct
    assert judge(R.matmul, [a, b], [serial_matmul(a, b)]).correct
    wide = (a.astype(np.float32) @ b.astype(np.float32)).astype(kind)
    assert judge(R.matmul, [a, b], [wide]).correct


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_inaccurate_native_sums_do_not_let_anything_pass(dtype: str) -> None:
    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    a, b = normal(64, 512).astype(kind), normal(512, 48, seed=1).astype(kind)
    wide = a.astype(np.float32) @ b.astype(np.float32)
    assert judge(R.matmul, [a, b], [wide.astype(kind)]).correct
    assert not judge(R.matmul, [a, b], [np.zeros_like(wide).astype(kind)]).correct
    assert not judge(R.matmul, [a, b], [np.roll(wide, 1, axis=1).astype(kind)]).correct
    half = a[:, :256].astype(np.float32) @ b[:256].astype(np.float32)
    assert not judge(R.matmul, [a, b], [half.astype(kind)]).correct


def test_polynomial_exponential_in_a_softmax_is_right() -> None:
    x = normal(64, 512) * np.float32(4)
    e = polynomial_exp(x - x.max(1, keepdims=True))
    total = np.zeros(64, np.float32)
    for k in range(512):
        total = total + e[:, k]
    outcome = judge(lambda v: R.nn.softmax(v, 1), [x], [e / total[:, None]])
    assert outcome.correct, outcome.message


def test_polynomial_exponential_alone_is_right() -> None:
    x = np.linspace(-20, 20, 4000, dtype=np.float32)
    assert judge(R.exp, [x], [polynomial_exp(x)]).correct


def test_coarse_exponential_is_wrong() -> None:
    x = np.linspace(-3, 3, 4000, dtype=np.float32)
    coarse = (np.exp(x.astype(np.float64)) * (1 + 3e-5)).astype(np.float32)
    assert not judge(R.exp, [x], [coarse]).correct


def test_reciprocal_instead_of_division_is_right_although_the_native_error_is_half_a_unit() -> None:
    x = np.arange(1, 200, dtype=np.float32)
    third = x * (np.float32(1) / np.float32(3))
    assert judge(lambda v: R.divide(v, relax.const(3.0, "float32")), [x], [third]).correct


def test_exact_native_result_leaves_room_for_a_legal_rounding() -> None:
    x = np.full(512, 0.25, np.float32)
    nearly = np.nextafter(x, np.float32(1))
    assert judge(lambda v: R.multiply(v, relax.const(1.0, "float32")), [x], [nearly]).correct


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_lost_term_is_wrong(dtype: str) -> None:
    a, b = normal(64, 512, dtype=dtype), normal(512, 48, seed=1, dtype=dtype)
    lost = (a[:, :-1].astype(np.float32) @ b[:-1].astype(np.float32)).astype(dtype)
    outcome = judge(R.matmul, [a, b], [lost])
    assert not outcome.correct
    assert "elements are off" in outcome.message


def test_a_lost_term_of_a_single_dot_product_is_wrong() -> None:
    a, b = normal(512), normal(512, seed=1)
    assert abs(a[3] * b[3]) > 0.05
    right = np.asarray(a @ b)
    lost = np.asarray(right - a[3] * b[3], np.float32)
    assert judge(R.matmul, [a, b], [right]).correct
    assert not judge(R.matmul, [a, b], [lost]).correct


@pytest.mark.parametrize("change", [lambda v: 0.0, lambda v: v * 1.001, lambda v: -v, lambda v: v + 1e-3])
def test_one_wrong_element_is_wrong(change) -> None:
    a, b = normal(128, 512), normal(512, 96, seed=1)
    out = a @ b
    assert abs(out[77, 31]) > 1
    out[77, 31] = change(out[77, 31])
    outcome = judge(R.matmul, [a, b], [out])
    assert not outcome.correct
    assert "[77, 31]" in outcome.message
    assert outcome.error_ratio > 1


def test_small_rows_are_judged_by_their_own_size() -> None:
    a, b = normal(8, 256), normal(256, 512, seed=1)
    a[3] *= 1e-6
    out = a @ b
    assert judge(R.matmul, [a, b], [out]).correct
    out[3] *= np.float32(1.001)
    assert not judge(R.matmul, [a, b], [out]).correct


def test_shape_dtype_and_count() -> None:
    x = normal(3, 4)
    assert "shape" in compare(x.T, x, x).message
    assert "dtype" in compare(x.astype(np.float64), x, x).message
    assert "outputs" in compare_all([x], [x, x], [x, x]).message
    assert compare_all([x, x], [x, x], [x, x]).correct
    assert "output 1" in compare_all([x, x + 1], [x, x], [x, x]).message


def test_integers_and_bools_must_be_equal() -> None:
    x = np.arange(6, dtype=np.int32)
    y = x.copy()
    y[4] += 1
    assert compare(x, x, x).correct
    outcome = compare(y, x, x)
    assert not outcome.correct
    assert "[4]: 5 instead of 4" in outcome.message
    assert not compare(x > 2, x > 3, x > 3).correct


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("operator", ["maximum", "minimum", "relu", "clip"])
def test_nan_must_stay(dtype: str, operator: str) -> None:
    """A NaN operand gives NaN whichever side it is on, as NumPy and ONNX demand."""
    a, b = np.array([np.nan, 1], dtype), np.array([1, np.nan], dtype)
    if operator in ("maximum", "minimum"):
        build, arrays = getattr(R, operator), [a, b]
        right, lost = np.array([np.nan, np.nan], dtype), np.array([1, 1], dtype)
    else:
        build = R.nn.relu if operator == "relu" else lambda v: R.clip(v, 0, 6)
        arrays, right, lost = [a], np.array([np.nan, 1], dtype), np.array([0, 1], dtype)
    assert judge(build, arrays, [right]).correct
    outcome = judge(build, arrays, [lost])
    assert not outcome.correct
    assert "NaN" in outcome.message
    assert not judge(build, arrays, [right[::-1].copy()]).correct or operator in ("maximum", "minimum")


def test_signs_of_infinities_count() -> None:
    x = np.array([np.inf, -np.inf, 1], np.float32)
    assert judge(R.negative, [x], [-x]).correct
    assert not judge(R.negative, [x], [np.abs(x)]).correct


def test_int8_product_wraps_before_it_is_widened() -> None:
    """127 * 127 is 1 in int8; a kernel that computes in int64 is wrong."""
    a = np.array([127, 5], np.int8)
    scale = np.array([1000, 1000], np.int64)

    def build(x, y):
        return R.multiply(R.astype(R.multiply(x, x), "int64"), y)

    assert judge(build, [a, scale], [np.array([1000, 25_000])]).correct
    assert not judge(build, [a, scale], [np.array([127 * 127 * 1000, 25_000])]).correct


def test_float16_overflow_times_zero_is_nan() -> None:
    """A kernel that keeps the product in float32 gives 0 where float16 gives NaN."""
    x, zero = np.array([300, 2], np.float16), np.array([0, 0], np.float16)

    def build(a, b):
        return R.multiply(R.multiply(a, a), b)

    assert judge(build, [x, zero], [np.array([np.nan, 0], np.float16)]).correct
    assert not judge(build, [x, zero], [np.array([0, 0], np.float16)]).correct


def test_float16_overflow_may_round_either_way_at_the_limit() -> None:
    limit = np.array([65504.0], np.float16)
    assert compare(np.array([np.inf], np.float16), np.array([65519.0]), limit).correct
    assert not compare(np.array([np.inf], np.float16), np.array([60000.0]), np.array([60000.0], np.float16)).correct


def test_a_float16_product_that_a_multiply_add_keeps_finite_is_right() -> None:
    exact, native = np.full(300, 30000.0), np.full(300, np.inf, "float16")
    assert compare(np.full(300, 30000, "float16"), exact, native).correct
    assert compare(native, exact, native).correct
    assert not compare(np.full(300, 29000, "float16"), exact, native).correct
    assert not compare(np.full(300, 60000, "float16"), np.full(300, 90000.0), native).correct
    assert not compare(-native, exact, native).correct


def test_a_row_whose_native_error_happens_to_be_small_has_the_room_of_the_others() -> None:
    """One rounding, of the sum that a row is divided by, is behind all errors of the row."""
    rng = np.random.default_rng(0)
    exact = rng.uniform(0.5, 1.5, (64, 512))
    off = rng.normal(0, 1e-6, (64, 1))
    native = exact * (1 + off)
    native[0] = exact[0]
    assert compare((exact * (1 - off)).astype("float32"), exact, native.astype("float32")).correct
    coarse = exact * (1 + np.where(np.arange(64) == 0, 3e-5, 0)[:, None])
    assert not compare(coarse.astype("float32"), exact, native.astype("float32")).correct


def test_float64_outputs_may_differ_in_the_order_of_sums() -> None:
    a, b = normal(30, 512, dtype="float64"), normal(512, 20, seed=1, dtype="float64")
    assert judge(R.matmul, [a, b], [serial_matmul(a, b)]).correct
    assert not judge(R.matmul, [a, b], [serial_matmul(a, b) * (1 + 1e-7)]).correct


def test_empty_and_zero_arrays() -> None:
    empty, zeros = np.zeros((0, 3), np.float32), np.zeros((4, 3), np.float32)
    assert compare(empty, empty, empty).correct
    assert compare(zeros, zeros, zeros).correct
    assert not compare(zeros + np.float32(1e-20), zeros, zeros).correct


def test_a_measuring_process_needs_no_tvm() -> None:
    code = (
        "import sys; import workbench.reference.compare; "
        "sys.exit(any(m in sys.modules for m in ('tvm', 'scipy', 'tvm_ffi')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_channel_of_which_a_relu_leaves_one_element_is_not_judged_by_that_elements_luck() -> None:
    """conv + batch norm + ReLU: cancellation amplifies the error, and NumPy was lucky in the only element left."""
    rng = np.random.default_rng(0)
    reference = np.maximum(rng.standard_normal((4, 28, 28)), 0)
    reference[1] = 0
    reference[1, 7, 7] = 0.0117571142
    native = reference.astype("float32") + (reference > 0) * rng.normal(0, 1e-6, reference.shape).astype("float32")
    native[1, 7, 7] = np.float32(0.0117571142 + 2e-8)
    actual = native.copy()
    actual[1, 7, 7] = 0.011755703
    assert compare(actual, reference, native).correct
    actual[1, 7, 7] = 0.0125
    assert not compare(actual, reference, native).correct
    actual[1, 7, 7] = native[1, 7, 7]
    actual[1, 3, 3] = 1e-3  # where the ReLU gives zero
    assert not compare(actual, reference, native).correct
