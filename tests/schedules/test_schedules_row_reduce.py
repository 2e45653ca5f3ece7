"""Reductions over rows, one behind the other, against float64: what models write out instead of naming it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from library_cases import Emit, all_parameters, host_targets, run_kernel, workload_of

import schedules
from workbench.kernels.workload import Workload
from workbench.targets import Target
from workbench.tvm_seam import relax

op = relax.op
NAME = "row_reduce"
EPSILON = 1e-3
TARGETS = host_targets()
every_width = pytest.mark.parametrize("target", TARGETS, ids=lambda t: f"{t.vector_bits}bit")
# Shorter than a vector, one vector, vectors and a rest, several steps and a rest.
every_length = pytest.mark.parametrize("columns", [1, 3, 16, 33, 77, 256, 300])
Reference = Callable[..., Sequence[np.ndarray]]


def over_rows(function: Any) -> Any:
    return lambda x: function(x, axis=-1, keepdims=True)


total, mean, largest, smallest = map(over_rows, (np.sum, np.mean, np.max, np.min))


def scalar(value: float) -> Any:
    return relax.const(value, "float32")


def reduced(builder: Any, kind: Any, x: Any, *, keepdims: bool = True, axes: Sequence[int] | None = (-1,)) -> Any:
    return builder.emit(kind(x, axis=axes and [*axes], keepdims=keepdims))


def emit_divided(builder: Any, values: Sequence[Any]) -> Any:
    return builder.emit(op.divide(values[0], reduced(builder, op.sum, values[0])))


def emit_softmax(builder: Any, values: Sequence[Any]) -> Any:
    shifted = builder.emit(op.subtract(values[0], reduced(builder, op.max, values[0])))
    return emit_divided(builder, [builder.emit(op.exp(shifted))])


def softmax(x: np.ndarray) -> np.ndarray:
    raised = np.exp(x - largest(x))
    return raised / total(raised)


def emit_layer_norm(builder: Any, values: Sequence[Any]) -> Any:
    x, scale, shift = values
    centred = builder.emit(op.subtract(x, reduced(builder, op.mean, x)))
    squared = builder.emit(op.power(centred, scalar(2.0)))
    deviation = builder.emit(op.sqrt(builder.emit(op.add(reduced(builder, op.mean, squared), scalar(EPSILON)))))
    normal = builder.emit(op.divide(centred, deviation))
    return builder.emit(op.add(builder.emit(op.multiply(normal, scale)), shift))


def layer_norm(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    centred = x - mean(x)
    return centred / np.sqrt(mean(centred**2) + EPSILON) * scale + shift


def emit_rms_norm(builder: Any, values: Sequence[Any]) -> Any:
    x, scale = values
    squared = builder.emit(op.square(x))
    root = builder.emit(op.rsqrt(builder.emit(op.add(reduced(builder, op.mean, squared), scalar(EPSILON)))))
    return builder.emit(op.multiply(builder.emit(op.multiply(x, root)), scale))


def emit_range(builder: Any, values: Sequence[Any]) -> Any:
    """Several reductions in one pass, results of one element a row, and one of full size."""
    x = values[0]
    low, high = reduced(builder, op.min, x), reduced(builder, op.max, x)
    width = builder.emit(op.subtract(high, low))
    unit = builder.emit(op.divide(builder.emit(op.subtract(x, low)), width))
    return width, unit, reduced(builder, op.sum, x, keepdims=False), reduced(builder, op.mean, x, keepdims=False)


def spread(x: np.ndarray) -> Sequence[np.ndarray]:
    width = largest(x) - smallest(x)
    with np.errstate(invalid="ignore"):
        return width, (x - smallest(x)) / width, x.sum(axis=-1), x.mean(axis=-1)


# name -> (emit, reference, number of [columns] operands after x)
WRITTEN_OUT: dict[str, tuple[Emit, Reference, int]] = {
    "sum_divide": (emit_divided, lambda x: [x / total(x)], 0),
    "softmax": (emit_softmax, lambda x: [softmax(x)], 0),
    "layer_norm": (emit_layer_norm, lambda *values: [layer_norm(*values)], 2),
    "rms_norm": (emit_rms_norm, lambda x, scale: [x / np.sqrt(mean(x**2) + EPSILON) * scale], 1),
    "range": (emit_range, spread, 0),
}
every_program = pytest.mark.parametrize("program", WRITTEN_OUT)
REDUCTIONS = {"sum": np.sum, "mean": np.mean, "prod": np.prod, "max": np.max, "min": np.min}
every_reduction = pytest.mark.parametrize("kind", REDUCTIONS)


def random(*shapes: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [(rng.random(shape) + 0.25).astype("float32") for shape in shapes]


def is_served(workload: Workload) -> bool:
    return NAME in [entry.name for entry in schedules.for_workload(workload, TARGETS[-1])]


def check(
    workload: Workload,
    target: Target,
    inputs: list,
    wanted: Sequence[np.ndarray],
    parameters: dict[str, int] | None = None,
) -> None:
    assert is_served(workload)
    if parameters is None:
        parameters = all_parameters(workload, target, NAME)[0]
    got = run_kernel(workload, target, NAME, parameters, *inputs)
    assert len(got) == len(wanted)
    for array, expected in zip(got, wanted, strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=5e-6)


def exact(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    return [array.astype("float64") for array in inputs]


@every_width
@every_length
@every_program
def test_every_row_length(target: Target, columns: int, program: str) -> None:
    emit, reference, operands = WRITTEN_OUT[program]
    shapes = [(5, columns), *[(columns,)] * operands]
    inputs = random(*shapes)
    check(workload_of(shapes, operands, emit), target, inputs, reference(*exact(inputs)))


@every_program
@pytest.mark.parametrize("columns", [100, 128])
def test_each_combination_of_parameters_gives_the_right_result(program: str, columns: int) -> None:
    emit, reference, operands = WRITTEN_OUT[program]
    shapes = [(67, columns), *[(columns,)] * operands]
    workload = workload_of(shapes, operands, emit)
    inputs = random(*shapes)
    combinations = all_parameters(workload, TARGETS[-1], NAME)
    assert 4 <= len(combinations) <= 30
    for parameters in combinations:
        check(workload, TARGETS[-1], inputs, reference(*exact(inputs)), parameters)


@every_width
@every_reduction
@pytest.mark.parametrize("column", [0, 35, 36], ids=lambda column: f"column {column}")
def test_nan_and_infinity_reach_what_they_reach_in_numpy(target: Target, kind: str, column: int) -> None:
    def emit(builder: Any, values: list[Any]) -> Any:
        return reduced(builder, getattr(op, kind), values[0], keepdims=False)

    [x] = random((8, 37))
    x[1, column], x[2, column], x[3, column] = np.nan, np.inf, -np.inf
    x[4], x[5] = -np.inf, np.inf
    x[6, column], x[6, (column + 1) % 37] = np.inf, -np.inf
    x[7, column], x[7, (column + 36) % 37] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        wanted = REDUCTIONS[kind](x.astype("float64"), axis=-1)
    assert np.isnan(wanted[[1, 7]]).all()
    check(workload_of([(8, 37)], 0, emit), target, [x], [wanted])


@pytest.mark.parametrize("trailing", [1, 2, 3])
@every_reduction
def test_several_reduced_axes(kind: str, trailing: int) -> None:
    def emit(builder: Any, values: list[Any]) -> Any:
        return reduced(builder, getattr(op, kind), values[0], keepdims=False, axes=range(-trailing, 0))

    [x] = random((3, 4, 2, 7))
    wanted = REDUCTIONS[kind](x.astype("float64"), axis=tuple(range(-trailing, 0)))
    check(workload_of([x.shape], 0, emit), TARGETS[-1], [x], [wanted])


def test_all_axes_and_a_reshaped_result() -> None:
    def emit(builder: Any, values: list[Any]) -> Any:
        everything = reduced(builder, op.sum, values[0], keepdims=False, axes=None)
        return builder.emit(op.divide(values[0], builder.emit(op.reshape(everything, (1, 1)))))

    [x] = random((6, 50))
    check(workload_of([x.shape], 0, emit), TARGETS[-1], [x], [x.astype("float64") / x.sum(dtype="float64")])


def test_reshapes_in_front_and_behind() -> None:
    def emit(builder: Any, values: list[Any]) -> Any:
        rows = builder.emit(op.reshape(values[0], (6, 50)))
        return builder.emit(op.reshape(emit_softmax(builder, [rows]), (2, 3, 50)))

    [x] = random((300,))
    check(workload_of([x.shape], 0, emit), TARGETS[-1], [x], [softmax(exact([x])[0].reshape(2, 3, 50))])


def test_a_value_of_the_row_is_an_output_and_used_behind_a_reduction() -> None:
    def emit(builder: Any, values: list[Any]) -> Any:
        x, y = values
        product = builder.emit(op.multiply(x, y))
        highest = reduced(builder, op.max, product)
        raised = builder.emit(op.exp(builder.emit(op.subtract(product, highest))))
        weight = builder.emit(op.divide(raised, reduced(builder, op.sum, raised)))
        weighted = reduced(builder, op.sum, builder.emit(op.multiply(weight, y)), keepdims=False)
        return product, weighted, weight

    x, y = inputs = random((9, 61), (9, 61))
    product = x.astype("float64") * y
    weight = softmax(product)
    check(workload_of([x.shape, y.shape], 0, emit), TARGETS[-1], inputs, [product, (weight * y).sum(-1), weight])


@every_width
@pytest.mark.parametrize("columns", [48, 61])
def test_a_mask_where_rows_are_left_out_in_full(target: Target, columns: int) -> None:
    def emit(builder: Any, values: list[Any]) -> Any:
        return emit_softmax(builder, [builder.emit(op.where(values[1], values[0], values[2]))])

    [x] = random((2, 9, columns))
    mask = np.random.default_rng(1).random((9, columns)) < 0.5
    mask[3] = False
    infinity = np.array(-np.inf, "float32")
    workload = workload_of([x.shape, mask.shape, ()], 0, emit, ["float32", "bool", "float32"])
    with np.errstate(invalid="ignore"):
        wanted = softmax(np.where(mask, x.astype("float64"), -np.inf))
    assert np.isnan(wanted[:, 3]).all()
    check(workload, target, [x, mask, infinity], [wanted])


def test_long_rows() -> None:
    [x] = random((3, 40003))
    check(workload_of([x.shape], 0, emit_softmax), TARGETS[-1], [x * 3], [softmax(exact([x * 3])[0])])


def test_what_it_does_not_serve() -> None:
    def served(emit: Emit, *shapes: tuple[int, ...], dtype: str = "float32") -> bool:
        return is_served(workload_of(shapes, 0, emit, [dtype] * len(shapes)))

    def first_axis(builder: Any, values: list[Any]) -> Any:
        return reduced(builder, op.sum, values[0], axes=[0])

    def transposed(builder: Any, values: list[Any]) -> Any:
        return emit_divided(builder, [builder.emit(op.permute_dims(values[0]))])

    def two_sizes(builder: Any, values: list[Any]) -> Any:
        return reduced(builder, op.sum, reduced(builder, op.sum, values[0], keepdims=False), keepdims=False)

    def widened(builder: Any, values: list[Any]) -> Any:
        return builder.emit(op.add(emit_divided(builder, values), values[1]))

    def other_row(builder: Any, values: list[Any]) -> Any:
        """Each row is divided by all rows' sums in turn: columns and rows are as many."""
        return builder.emit(op.divide(values[0], reduced(builder, op.sum, values[0], keepdims=False)))

    def with_matmul(builder: Any, values: list[Any]) -> Any:
        return emit_divided(builder, [builder.emit(op.matmul(*values))])

    assert served(emit_divided, (8, 9))
    assert not served(emit_divided, (8, 9), dtype="float16")
    assert not served(first_axis, (8, 9))
    assert not served(transposed, (8, 9))
    assert not served(two_sizes, (8, 9))
    assert not served(widened, (8, 9), (3, 8, 9))
    assert not served(other_row, (9, 9))
    assert not served(with_matmul, (8, 9), (9, 9))
    assert not served(lambda builder, values: builder.emit(op.add(*values)), (8, 9), (8, 9))


@pytest.mark.parametrize("exponent", [0.5, -1.0])
def test_other_powers_than_square_and_cube_are_not_served(exponent: float) -> None:
    def emit(builder: Any, values: list[Any]) -> Any:
        return reduced(builder, op.sum, builder.emit(op.power(values[0], scalar(exponent))))

    assert not is_served(workload_of([(8, 9)], 0, emit))
