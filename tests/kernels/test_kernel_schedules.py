"""Applying schedules: the default one on many kinds of operators, traces, and what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kernel_models import DEFAULT, assert_right, constant, model_of, target, tensor, variants

from workbench.errors import KernelError
from workbench.kernels import schedule_workload
from workbench.store.record import ScheduleSpec
from workbench.tvm_seam import relax, tvm

R = relax.op

OPERATORS: dict[str, tuple[list[Any], Callable[..., Any]]] = {
    "transpose": ([("x", (6, 10))], lambda emit, x: emit(R.permute_dims(x))),
    "odd sizes": ([("x", (7, 13))], lambda emit, x: emit(R.tanh(x))),
    "one row": ([("x", (1, 4096))], lambda emit, x: emit(R.exp(x))),
    "row sums": ([("x", (64, 300))], lambda emit, x: emit(R.sum(x, axis=[1]))),
    "column sums": ([("x", (300, 64))], lambda emit, x: emit(R.sum(x, axis=[0]))),
    "sum of all": ([("x", (40, 50))], lambda emit, x: emit(R.sum(x))),
    "argmax": ([("x", (20, 30))], lambda emit, x: emit(R.argmax(x, axis=1))),
    "softmax": ([("x", (33, 65))], lambda emit, x: emit(R.nn.softmax(x, axis=-1))),
    "layer norm": (
        [("x", (16, 96))],
        lambda emit, x: emit(R.nn.layer_norm(x, constant((96,), 1), constant((96,), 2), axes=[-1])),
    ),
    "matmul of transposed": (
        [("x", (32, 48)), ("y", (24, 48))],
        lambda emit, x, y: emit(R.matmul(x, emit(R.permute_dims(y)))),
    ),
    "batched matmul": ([("x", (3, 16, 8)), ("y", (3, 8, 20))], lambda emit, x, y: emit(R.matmul(x, y))),
    "convolution with padding": (
        [("x", (1, 8, 12, 12))],
        lambda emit, x: emit(R.nn.conv2d(x, constant((16, 8, 3, 3)), padding=(1, 1))),
    ),
    "depthwise, strided": (
        [("x", (1, 8, 12, 12))],
        lambda emit, x: emit(R.nn.conv2d(x, constant((8, 1, 3, 3)), strides=(2, 2), groups=8)),
    ),
    "max pool": ([("x", (1, 4, 12, 12))], lambda emit, x: emit(R.nn.max_pool2d(x, pool_size=(2, 2), strides=(2, 2)))),
    "average pool": (
        [("x", (1, 4, 12, 12))],
        lambda emit, x: emit(R.nn.avg_pool2d(x, pool_size=(3, 3), padding=(1, 1))),
    ),
    "concat": ([("x", (4, 8)), ("y", (4, 5))], lambda emit, x, y: emit(R.concat([x, y], axis=1))),
    "broadcast": ([("x", (4, 1, 8)), ("y", (6, 1))], lambda emit, x, y: emit(R.add(x, y))),
    "strided slice": ([("x", (10, 20))], lambda emit, x: emit(R.strided_slice(x, [1], [3], [19], [2]))),
    "cumulative sum": ([("x", (8, 16))], lambda emit, x: emit(R.cumsum(x, axis=1))),
    "matmul and what follows": (
        [("x", (32, 64))],
        lambda emit, x: emit(R.nn.gelu(emit(R.add(emit(R.matmul(x, constant((64, 96)))), constant((96,)))))),
    ),
    "shared elementwise producer": (
        [("x", (64, 64))],
        lambda emit, x: relax.Tuple([a := emit(R.exp(x)), emit(R.add(a, x)), emit(R.sum(a, axis=[1]))]),
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_the_default_schedule_keeps_the_result(name: str) -> None:
    inputs, body = OPERATORS[name]
    model = model_of([tensor(label, shape) for label, shape in inputs], body)
    assert_right(model, variants(model)["joined"], model.example_inputs(1))


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "int32", "int64", "uint8"])
def test_the_default_schedule_serves_other_types(dtype: str) -> None:
    model = model_of(
        [tensor("x", (24, 40), dtype), tensor("y", (24, 40), dtype)],
        lambda emit, x, y: emit(R.multiply(emit(R.add(x, y)), y)),
    )
    assert_right(model, variants(model)["joined"], model.example_inputs(1))


def test_gathering_rows_is_right() -> None:
    model = model_of([tensor("ids", (5,), "int64")], lambda emit, ids: emit(R.take(constant((8, 16)), ids, axis=0)))
    assert_right(model, variants(model)["unfused"], model.example_inputs())


def loops(module: Any, kind: int) -> int:
    from workbench.tvm_seam import tvm_ffi

    found: list[Any] = []
    tvm_ffi.structural_walk(module["main"].body, (tvm.tirx.For, lambda loop: found.append(int(loop.kind))))
    return found.count(kind)


def test_the_default_schedule_inlines_vectorises_and_runs_in_parallel() -> None:
    model = model_of(
        [tensor("x", (256, 256)), tensor("y", (256, 256))],
        lambda emit, x, y: emit(R.multiply(emit(R.tanh(emit(R.add(x, y)))), y)),
    )
    [workload] = variants(model)["joined"].workloads.values()
    scheduled = schedule_workload(workload, target(), DEFAULT)
    kind = tvm.tirx.ForKind
    assert (loops(scheduled, kind.PARALLEL), loops(scheduled, kind.VECTORIZED)) == (1, 1)
    schedule = tvm.s_tir.Schedule(scheduled)
    assert len(schedule.get_child_blocks(schedule.get_sblock("root"))) == 1
    assert loops(workload.module, kind.PARALLEL) == 0, "the workload itself must not change"


def test_small_kernels_stay_on_one_thread() -> None:
    model = model_of([tensor("x", (8, 8))], lambda emit, x: emit(R.exp(x)))
    [workload] = variants(model)["joined"].workloads.values()
    assert loops(schedule_workload(workload, target(), DEFAULT), tvm.tirx.ForKind.PARALLEL) == 0


@pytest.mark.parametrize(
    "spec",
    [
        ScheduleSpec("trace", "x", [[["GetSBlock", [], ["nowhere", "main"], ["b0"]]], []]),
        ScheduleSpec("trace", "x", [["nonsense"]]),
        ScheduleSpec("trace", "x", {"a": 1}),
        ScheduleSpec("something", "x", {}),  # type: ignore[arg-type]
        ScheduleSpec("library", "no_such_schedule", {}),
    ],
)
def test_a_schedule_that_does_not_fit_is_one_clear_line(spec: ScheduleSpec) -> None:
    model = model_of([tensor("x", (8, 8))], lambda emit, x: emit(R.exp(x)))
    [workload] = variants(model)["joined"].workloads.values()
    with pytest.raises(KernelError, match="exp") as caught:
        schedule_workload(workload, target(), spec)
    assert "\n" not in str(caught.value)
