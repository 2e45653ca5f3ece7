"""Norms and softmax a row at a time, against float64, with the operators that models put around them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from library_cases import Emit, all_parameters, host_targets, run_kernel, workload_of

import schedules
from workbench.kernels.build import compile_object, tvm_target
from workbench.kernels.workload import Workload
from workbench.targets import Target
from workbench.tvm_seam import relax, tvm

op = relax.op
NAME = "row_norm"
EPSILON = 1e-3
TARGETS = host_targets()
every_width = pytest.mark.parametrize("target", TARGETS, ids=lambda t: f"{t.vector_bits}bit")
# Shorter than a vector, one vector, vectors and a rest, several steps and a rest.
every_length = pytest.mark.parametrize("columns", [1, 3, 16, 33, 77, 256, 300])
Reference = Callable[..., np.ndarray]


def layer_norm(x: np.ndarray, scale: np.ndarray, shift: np.ndarray, axes: int = 1) -> np.ndarray:
    x, over = x.astype("float64"), tuple(range(-axes, 0))
    with np.errstate(all="ignore"):
        centred = x - x.mean(axis=over, keepdims=True)
        return centred / np.sqrt((centred**2).mean(axis=over, keepdims=True) + EPSILON) * scale + shift


def rms_norm(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    x = x.astype("float64")
    with np.errstate(all="ignore"):
        return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + EPSILON) * scale


def softmax(x: np.ndarray) -> np.ndarray:
    x = x.astype("float64")
    with np.errstate(all="ignore"):
        raised = np.exp(x - x.max(axis=-1, keepdims=True))
        return raised / raised.sum(axis=-1, keepdims=True)


def log_softmax(x: np.ndarray) -> np.ndarray:
    x = x.astype("float64")
    with np.errstate(all="ignore"):
        x = x - x.max(axis=-1, keepdims=True)
        return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def emit_layer_norm(builder: Any, values: Sequence[Any], axes: Sequence[int] = (-1,)) -> Any:
    x, scale, shift = values
    return builder.emit(op.nn.layer_norm(x, scale, shift, axes=[*axes], epsilon=EPSILON))


def emit_rms_norm(builder: Any, values: Sequence[Any]) -> Any:
    return builder.emit(op.nn.rms_norm(*values, axes=[-1], epsilon=EPSILON))


def emit_softmax(builder: Any, values: Sequence[Any]) -> Any:
    return builder.emit(op.nn.softmax(values[0], axis=-1))


def emit_log_softmax(builder: Any, values: Sequence[Any]) -> Any:
    return builder.emit(op.nn.log_softmax(values[0], axis=-1))


# operator -> (emit, reference, number of [columns] operands after x)
OPERATORS: dict[str, tuple[Emit, Reference, int]] = {
    "layer_norm": (emit_layer_norm, layer_norm, 2),
    "rms_norm": (emit_rms_norm, rms_norm, 1),
    "softmax": (emit_softmax, softmax, 0),
    "log_softmax": (emit_log_softmax, log_softmax, 0),
}
every_operator = pytest.mark.parametrize("operator", OPERATORS)


def scalar(value: float) -> Any:
    return relax.const(value, "float32")


def random(*shapes: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [(rng.standard_normal(shape) * 2 + 0.5).astype("float32") for shape in shapes]


def default(workload: Workload, target: Target) -> dict[str, int]:
    assert NAME in [entry.name for entry in schedules.for_workload(workload, target)]
    return all_parameters(workload, target, NAME)[0]


def check(workload: Workload, target: Target, parameters: dict, inputs: list, *wanted: np.ndarray) -> list[np.ndarray]:
    got = run_kernel(workload, target, NAME, parameters, *inputs)
    for array, expected in zip(got, wanted, strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=5e-6)
    return got


@every_width
@every_length
@every_operator
def test_every_row_length(target: Target, columns: int, operator: str) -> None:
    emit, reference, operands = OPERATORS[operator]
    shapes = [(5, columns), *[(columns,)] * operands]
    workload = workload_of(shapes, operands, emit)
    inputs = random(*shapes)
    check(workload, target, default(workload, target), inputs, reference(*inputs))


@every_operator
@pytest.mark.parametrize("columns", [100, 128])
def test_each_combination_of_parameters_gives_the_right_result(operator: str, columns: int) -> None:
    emit, reference, operands = OPERATORS[operator]
    shapes = [(67, columns), *[(columns,)] * operands]
    workload = workload_of(shapes, operands, emit)
    inputs = random(*shapes)
    combinations = all_parameters(workload, TARGETS[-1], NAME)
    assert 4 <= len(combinations) <= 30
    for parameters in combinations:
        check(workload, TARGETS[-1], parameters, inputs, reference(*inputs))


@every_width
@pytest.mark.parametrize("columns", [35, 64])
@pytest.mark.parametrize("operator", ["layer_norm", "rms_norm"])
def test_a_sum_that_is_used_again_is_an_output_too(target: Target, columns: int, operator: str) -> None:
    norm, reference, operands = OPERATORS[operator]

    def emit(builder: Any, values: list[Any]) -> Any:
        x, y, *rest = values
        total = builder.emit(op.add(x, y))
        return total, norm(builder, [total, *rest])

    shapes = [(2, 9, columns), (2, 9, columns), *[(columns,)] * operands]
    workload = workload_of(shapes, operands, emit)
    x, y, *rest = inputs = random(*shapes)
    total = x.astype("float64") + y
    check(workload, target, default(workload, target), inputs, total, reference(total, *rest))


def test_outputs_in_front_of_and_behind_the_norm() -> None:
    def emit(builder: Any, values: list[Any]) -> Any:
        x, y, scale, shift = values
        product = builder.emit(op.multiply(x, y))
        total = builder.emit(op.add(product, x))
        normed = emit_layer_norm(builder, [total, scale, shift])
        again = builder.emit(op.add(builder.emit(op.nn.silu(normed)), total))
        return again, product, normed, builder.emit(op.nn.relu(total))

    shapes = [(7, 45), (7, 45), (45,), (45,)]
    workload = workload_of(shapes, 2, emit)
    x, y, scale, shift = inputs = random(*shapes)
    product = x.astype("float64") * y
    total = product + x
    normed = layer_norm(total, scale, shift)
    again = normed / (1 + np.exp(-normed)) + total
    check(workload, TARGETS[-1], default(workload, TARGETS[-1]), inputs, again, product, normed, np.maximum(total, 0))


def test_what_goes_in_may_be_used_behind_and_needs_no_copy() -> None:
    def emit(builder: Any, values: list[Any]) -> Any:
        x, scale = values
        return builder.emit(op.nn.relu(x)), builder.emit(op.add(x, emit_rms_norm(builder, [x, scale])))

    workload = workload_of([(11, 50), (50,)], 1, emit)
    x, scale = inputs = random((11, 50), (50,))
    check(workload, TARGETS[-1], default(workload, TARGETS[-1]), inputs, np.maximum(x, 0), x + rms_norm(x, scale))


@every_width
@pytest.mark.parametrize("mask_shape", [(1, 1, 37, 37), (37,), (2, 1, 1, 37), (2, 3, 37, 37), (3, 37, 1)], ids=str)
def test_scaled_softmax_with_broadcast_mask(target: Target, mask_shape: tuple[int, ...]) -> None:
    def emit(builder: Any, values: list[Any]) -> Any:
        scaled = builder.emit(op.multiply(values[0], scalar(0.125)))
        return emit_softmax(builder, [builder.emit(op.add(scaled, values[1]))])

    workload = workload_of([(2, 3, 37, 37), mask_shape], 0, emit)
    x, mask = inputs = random((2, 3, 37, 37), mask_shape)
    wanted = softmax(x.astype("float64") * 0.125 + mask)
    check(workload, target, default(workload, target), inputs, wanted)


@every_width
@pytest.mark.parametrize("columns", [48, 61])
def test_where_with_minus_infinity(target: Target, columns: int) -> None:
    def emit(builder: Any, values: list[Any]) -> Any:
        return emit_softmax(builder, [builder.emit(op.where(values[1], values[0], values[2]))])

    shapes = [(2, 9, columns), (9, columns), ()]
    workload = workload_of(shapes, 0, emit, ["float32", "bool", "float32"])
    [x] = random((2, 9, columns))
    mask = np.random.default_rng(1).random((9, columns)) < 0.5
    mask[3] = False
    infinity = np.array(-np.inf, "float32")
    wanted = softmax(np.where(mask, x, -np.inf))
    [got] = check(workload, target, default(workload, target), [x, mask, infinity], wanted)
    assert np.isnan(got[:, 3]).all()
    kept = np.delete(got, 3, axis=1)
    assert (kept[:, ~np.delete(mask, 3, axis=0)] == 0).all()


@every_width
@every_operator
@pytest.mark.parametrize("column", [0, 35, 36], ids=lambda column: f"column {column}")
def test_nan_and_infinity_reach_what_they_reach_in_numpy(target: Target, operator: str, column: int) -> None:
    emit, reference, operands = OPERATORS[operator]
    shapes = [(7, 37), *[(37,)] * operands]
    workload = workload_of(shapes, operands, emit)
    x, *rest = random(*shapes)
    x[1, column], x[2, column], x[3, column] = np.nan, np.inf, -np.inf
    x[4] = -np.inf
    x[5, column], x[5, (column + 1) % 37] = np.inf, -np.inf
    wanted = reference(x, *rest)
    [got] = check(workload, target, default(workload, target), [x, *rest], wanted)
    assert np.isnan(got[1]).all()
    assert np.isfinite(got[[0, 6]]).all()


@every_operator
def test_a_large_common_part_does_not_cost_the_small_differences(operator: str) -> None:
    """The variance of x + 4096 is that of x: E[x^2] - E[x]^2 in float32 would lose it."""
    emit, reference, operands = OPERATORS[operator]
    shapes = [(6, 100), *[(100,)] * operands]
    workload = workload_of(shapes, operands, emit)
    x, *rest = random(*shapes)
    x += np.float32(4096)
    [got] = run_kernel(workload, TARGETS[-1], NAME, default(workload, TARGETS[-1]), x, *rest)
    # The mean is off by at most a few units in the last place of 4096, which are 5e-4 / 2 each.
    np.testing.assert_allclose(got, reference(x, *rest), rtol=1e-4, atol=2e-3)


@pytest.mark.parametrize("trailing", [1, 2, 3])
def test_several_normalised_axes(trailing: int) -> None:
    shape = (3, 4, 5, 7)
    inner = shape[-trailing:]

    def emit(builder: Any, values: list[Any]) -> Any:
        return emit_layer_norm(builder, values, range(-trailing, 0))

    workload = workload_of([shape, inner, inner], 2, emit)
    inputs = random(shape, inner, inner)
    check(workload, TARGETS[-1], default(workload, TARGETS[-1]), inputs, layer_norm(*inputs, axes=trailing))


def test_one_row_and_reshapes_around() -> None:
    def emit(builder: Any, values: list[Any]) -> Any:
        rows = builder.emit(op.reshape(values[0], (6, 50)))
        return builder.emit(op.reshape(emit_softmax(builder, [rows]), (2, 3, 50)))

    workload = workload_of([(300,)], 0, emit)
    [x] = random((300,))
    wanted = softmax(x.reshape(6, 50)).reshape(2, 3, 50)
    check(workload, TARGETS[-1], default(workload, TARGETS[-1]), [x], wanted)
    single = workload_of([(300,)], 0, emit_log_softmax)
    check(single, TARGETS[-1], default(single, TARGETS[-1]), [x], log_softmax(x))


def test_long_rows() -> None:
    workload = workload_of([(3, 40003)], 0, emit_softmax)
    [x] = random((3, 40003))
    check(workload, TARGETS[-1], default(workload, TARGETS[-1]), [x * 3], softmax(x * 3))


def test_exact_functions_give_the_same() -> None:
    workload = workload_of([(4, 70)], 0, emit_softmax)
    [x] = random((4, 70))
    target = TARGETS[-1].with_exact_math(True)
    check(workload, target, default(workload, target), [x], softmax(x))


@every_width
@every_operator
def test_sums_stay_in_registers_of_full_length(target: Target, operator: str) -> None:
    emit, _, operands = OPERATORS[operator]
    workload = workload_of([(64, 16384), *[(16384,)] * operands], operands, emit)  # too long to unroll in full
    module = schedules.get(NAME).apply(workload, target, default(workload, target))
    assert compile_object(module, target)
    text = tvm.tirx.build(module, target=tvm_target(target)).inspect_source("ll")
    lanes = target.vector_bits // 32
    # An accumulator that is carried from step to step, and what is added to it; LLVM may put flags before the type.
    assert re.search(rf"= phi [a-z ]*<{lanes} x float>", text)
    assert re.search(rf"= fadd [a-z ]*<{lanes} x float>", text)


def test_what_it_does_not_serve() -> None:
    def served(shapes: list[tuple[int, ...]], emit: Emit, dtype: str = "float32") -> bool:
        workload = workload_of(shapes, 0, emit, [dtype] * len(shapes))
        return NAME in [entry.name for entry in schedules.for_workload(workload, TARGETS[-1])]

    def over(*axes: int) -> Emit:
        return lambda builder, values: emit_layer_norm(builder, values, axes)

    def twice(builder: Any, values: list[Any]) -> Any:
        return emit_softmax(builder, [emit_softmax(builder, values)])

    def transposed(builder: Any, values: list[Any]) -> Any:
        return emit_softmax(builder, [builder.emit(op.permute_dims(values[0]))])

    def with_matmul(builder: Any, values: list[Any]) -> Any:
        return emit_softmax(builder, [builder.emit(op.matmul(values[0], values[1]))])

    def widened(builder: Any, values: list[Any]) -> Any:
        return builder.emit(op.add(emit_softmax(builder, values), values[1]))

    def first_axis(builder: Any, values: list[Any]) -> Any:
        return builder.emit(op.nn.softmax(values[0], axis=0))

    assert served([(8, 9)], emit_softmax)
    assert served([(8, 9), (9,), (9,)], over(-1))
    assert not served([(8, 9), (8,), (8,)], over(0))
    assert not served([(8, 9)], first_axis)
    assert not served([(8, 9)], twice)
    assert not served([(8, 9)], transposed)
    assert not served([(8, 9), (9, 9)], with_matmul)
    assert not served([(8, 9), (3, 8, 9)], widened)
    assert not served([(8, 9)], emit_softmax, "float16")
    assert not served([(8, 9), (8, 9)], lambda builder, values: builder.emit(op.add(*values)))
