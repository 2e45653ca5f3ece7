"""Several matmuls in one kernel, against float64, at sizes that no tile divides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from library_cases import Emit, all_parameters, host_targets, run_kernel, workload_of
from scipy import special

import schedules
from workbench import targets
from workbench.kernels.workload import Workload
from workbench.tvm_seam import relax

op = relax.op
NAME = "multi_matmul"
TARGETS = host_targets()
every_width = pytest.mark.parametrize("target", TARGETS, ids=lambda t: f"{t.vector_bits}bit")


def swiglu(builder: Any, values: list[Any]) -> Any:
    x, gate, up = values
    gated = builder.emit(op.nn.silu(builder.emit(op.matmul(x, gate))))
    return builder.emit(op.multiply(gated, builder.emit(op.matmul(x, up))))


def projections(count: int) -> Emit:
    def emit(builder: Any, values: list[Any]) -> Any:
        x, parameters = values[0], values[1:]
        made = []
        for weight, bias in zip(parameters[::2], parameters[1::2], strict=True):
            made.append(builder.emit(op.add(builder.emit(op.matmul(x, weight)), bias)))
        return tuple(made[:count])

    return emit


def arrays(workload: Workload, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    specs = workload.args[: len(workload.args) - workload.num_outputs]
    return [rng.standard_normal(spec.shape).astype(spec.dtype) for spec in specs]


def check(workload: Workload, target: targets.Target, parameters: dict, inputs: list, wanted: list) -> list:
    """Error in proportion to the terms that each sum has."""
    got = run_kernel(workload, target, NAME, parameters, *inputs)
    for result, exact in zip(got, wanted, strict=True):
        scale = np.abs(exact[np.isfinite(exact)]).max()
        np.testing.assert_allclose(result, exact, rtol=2e-5, atol=2e-6 * scale)
    return got


def default(workload: Workload, target: targets.Target) -> dict[str, int]:
    return all_parameters(workload, target, NAME)[0]


@every_width
@pytest.mark.parametrize("constants", [2, 0], ids=["weights packed at load", "weights packed in the kernel"])
def test_swiglu_at_odd_sizes(target: targets.Target, constants: int) -> None:
    workload = workload_of([(37, 65), (65, 130), (65, 130)], constants, swiglu)
    x, gate, up = inputs = arrays(workload)
    a, b = x.astype("float64") @ gate, x.astype("float64") @ up
    check(workload, target, default(workload, target), inputs, [a * special.expit(a) * b])


@every_width
def test_query_key_value_with_fewer_key_heads(target: targets.Target) -> None:
    shapes = [(2, 19, 65), (65, 130), (130,), (65, 33), (33,), (65, 33), (33,)]
    workload = workload_of(shapes, 6, projections(3))
    inputs = arrays(workload)
    x = inputs[0].astype("float64")
    wanted = [x @ inputs[i] + inputs[i + 1] for i in (1, 3, 5)]
    check(workload, target, default(workload, target), inputs, wanted)


def test_every_kind_of_tail() -> None:
    def emit(builder: Any, values: list[Any]) -> Any:
        x, first, second, third, bias, residual, row = values
        a, b, c = (builder.emit(op.matmul(x, weight)) for weight in (first, second, third))
        a = builder.emit(op.nn.gelu(builder.emit(op.add(bias, a))))
        a = builder.emit(op.add(a, residual))
        b = builder.emit(op.multiply(builder.emit(op.nn.relu(b)), relax.const(0.25, "float32")))
        b = builder.emit(op.clip(builder.emit(op.subtract(b, row)), -1.5, 2.0))
        return a, b, c

    shapes = [(3, 7, 20), (20, 48), (20, 9), (20, 16), (48,), (3, 7, 48), (7, 1)]
    workload = workload_of(shapes, 0, emit)
    inputs = arrays(workload)
    x, first, second, third, bias, residual, row = (array.astype("float64") for array in inputs)
    biased = x @ first + bias
    gelu = biased * special.ndtr(biased)
    wanted = [gelu + residual, np.clip(np.maximum(x @ second, 0) * 0.25 - row, -1.5, 2.0), x @ third]
    check(workload, TARGETS[-1], default(workload, TARGETS[-1]), inputs, wanted)


def test_intermediate_results_that_are_outputs_too() -> None:
    def emit(builder: Any, values: list[Any]) -> Any:
        x, first, second = values
        a, b = builder.emit(op.matmul(x, first)), builder.emit(op.matmul(x, second))
        return builder.emit(op.add(a, b)), a

    workload = workload_of([(5, 12), (12, 31), (12, 31)], 2, emit)
    x, first, second = inputs = arrays(workload)
    a = x.astype("float64") @ first
    check(workload, TARGETS[-1], default(workload, TARGETS[-1]), inputs, [a + x.astype("float64") @ second, a])


@every_width
def test_each_parameter_value_gives_the_right_result(target: targets.Target) -> None:
    workload = workload_of([(130, 40), (40, 200), (40, 200)], 2, swiglu)
    x, gate, up = inputs = arrays(workload)
    a, b = x.astype("float64") @ gate, x.astype("float64") @ up
    first, *others = all_parameters(workload, target, NAME)
    seen = {key: {value} for key, value in first.items()}
    for chosen in [first, *others]:
        new = [key for key, value in chosen.items() if value not in seen[key]]
        if chosen is first or new:
            for key in new:
                seen[key].add(chosen[key])
            check(workload, target, chosen, inputs, [a * special.expit(a) * b])
    assert all(len(values) > 1 for values in seen.values())


@pytest.mark.parametrize("rows", [1, 2, 13])
def test_few_rows(rows: int) -> None:
    workload = workload_of([(rows, 64), (64, 96), (96,), (64, 17), (17,)], 4, projections(2))
    inputs = arrays(workload)
    x = inputs[0].astype("float64")
    wanted = [x @ inputs[1] + inputs[2], x @ inputs[3] + inputs[4]]
    check(workload, TARGETS[-1], default(workload, TARGETS[-1]), inputs, wanted)


def test_nan_and_infinity_stay_in_their_row() -> None:
    workload = workload_of([(11, 21), (21, 35), (35,), (21, 35), (35,)], 4, projections(2))
    inputs = arrays(workload)
    inputs[0][3, 4], inputs[0][10, 20] = np.nan, np.inf
    x = inputs[0].astype("float64")
    wanted = [x @ inputs[1] + inputs[2], x @ inputs[3] + inputs[4]]
    got = check(workload, TARGETS[-1], default(workload, TARGETS[-1]), inputs, wanted)
    assert np.isnan(got[0][3]).all()
    assert np.isinf(got[0][10]).all()


def refused(shapes: list[tuple[int, ...]], emit: Emit, dtype: str = "float32") -> bool:
    workload = workload_of(shapes, 0, emit, [dtype] * len(shapes))
    return NAME not in [entry.name for entry in schedules.for_workload(workload, TARGETS[-1])]


def test_what_it_does_not_serve() -> None:
    def emit_with(body: Any) -> Emit:
        return lambda builder, values: body(lambda call: builder.emit(call), values)

    square = [(8, 8)] * 3
    assert refused(square, emit_with(lambda e, v: e(op.add(e(op.matmul(v[0], v[1])), v[2])))), "one matmul"
    assert refused(square, emit_with(lambda e, v: e(op.matmul(e(op.matmul(v[0], v[1])), v[2])))), "a chain"
    assert refused(square, emit_with(lambda e, v: e(op.add(e(op.matmul(v[0], v[1])), e(op.matmul(v[2], v[1])))))), (
        "two left inputs"
    )
    assert refused(
        square,
        emit_with(lambda e, v: e(op.nn.softmax(e(op.add(e(op.matmul(v[0], v[1])), e(op.matmul(v[0], v[2]))))))),
    ), "a reduction in the tail"
    assert refused(
        square, emit_with(lambda e, v: e(op.add(e(op.add(e(op.matmul(v[0], v[1])), e(op.matmul(v[0], v[2])))), v[1])))
    ), "a weight that is read element by element"
    assert refused(square, swiglu, "float16"), "float16"
    assert refused(
        [(2, 8, 8), (2, 8, 8), (2, 8, 8)],
        emit_with(lambda e, v: e(op.add(e(op.matmul(v[0], v[1])), e(op.matmul(v[0], v[2]))))),
    ), "batched weights"


def test_one_weight_packed_at_load_and_one_in_the_kernel() -> None:
    workload = workload_of([(9, 33), (33, 50), (33, 50)], 1, swiglu)
    x, gate, up = inputs = arrays(workload)
    a, b = x.astype("float64") @ gate, x.astype("float64") @ up
    check(workload, TARGETS[-1], default(workload, TARGETS[-1]), inputs, [a * special.expit(a) * b])


def test_input_that_is_also_read_by_a_tail_and_a_weight_used_twice() -> None:
    def emit(builder: Any, values: list[Any]) -> Any:
        x, first, second = values
        a = builder.emit(op.add(builder.emit(op.matmul(x, first)), x))
        b = builder.emit(op.tanh(builder.emit(op.matmul(x, first))))
        c = builder.emit(op.subtract(builder.emit(op.matmul(x, second)), b))
        return a, c

    workload = workload_of([(9, 33), (33, 33), (33, 33)], 2, emit)
    x, first, second = inputs = arrays(workload)
    a, c = x.astype("float64") @ first, x.astype("float64") @ second
    check(workload, TARGETS[-1], default(workload, TARGETS[-1]), inputs, [a + x, c - np.tanh(a)])
