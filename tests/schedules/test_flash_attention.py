"""Attention in one kernel, against softmax in float64, in the spellings that models have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from library_cases import Emit, all_parameters, host_targets, run_kernel, workload_of

import schedules
from workbench import targets
from workbench.kernels.workload import Workload
from workbench.tvm_seam import relax

op = relax.op
NAME = "attention"
TARGETS = host_targets()
every_width = pytest.mark.parametrize("target", TARGETS, ids=lambda t: f"{t.vector_bits}bit")
Tail = Callable[[Any, Any, list[Any]], Any]


def scalar(value: float) -> Any:
    return relax.const(value, "float32")


def scaled(builder: Any, scores: Any, rest: list[Any]) -> Any:
    return builder.emit(op.multiply(scores, scalar(0.125)))


def core(tail: Tail = scaled) -> Emit:
    """q, k, v [.., S, D] and what the tail needs -> softmax(tail(q @ k^T)) @ v."""

    def emit(builder: Any, values: list[Any]) -> Any:
        q, k, v, *rest = values
        rank = len(k.ty.shape)
        turned = builder.emit(op.permute_dims(k, [*range(rank - 2), rank - 1, rank - 2]))
        scores = tail(builder, builder.emit(op.matmul(q, turned)), rest)
        return builder.emit(op.matmul(builder.emit(op.nn.softmax(scores, axis=-1)), v))

    return emit


def softmax(scores: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return raised / raised.sum(axis=-1, keepdims=True)


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float = 0.125, mask: Any = 0.0) -> np.ndarray:
    q, k, v = (array.astype("float64") for array in (q, k, v))
    with np.errstate(all="ignore"):
        return softmax(q @ k.swapaxes(-1, -2) * scale + mask) @ v


def arrays(workload: Workload, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [
        rng.random(spec.shape) < 0.6
        if spec.dtype == "bool"
        else np.asarray(rng.standard_normal(spec.shape), spec.dtype)
        for spec in workload.args[:-1]
    ]


def check(workload: Workload, target: targets.Target, parameters: dict, inputs: list, wanted: np.ndarray) -> np.ndarray:
    [got] = run_kernel(workload, target, NAME, parameters, *inputs)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=3e-6)
    return got


def default(workload: Workload, target: targets.Target) -> dict[str, int]:
    assert NAME in [entry.name for entry in schedules.for_workload(workload, target)]
    return all_parameters(workload, target, NAME)[0]


@every_width
@pytest.mark.parametrize(
    ("q", "kv", "columns"),
    [
        ((1, 3, 77, 64), (1, 3, 77, 64), 64),
        ((2, 2, 45, 33), (2, 2, 101, 33), 47),
        ((4, 130, 128), (4, 70, 128), 128),
        ((5, 32), (1, 32), 32),
    ],
    ids=["S=77", "other lengths and head sizes", "no batch dimension", "one key"],
)
def test_plain(target: targets.Target, q: tuple[int, ...], kv: tuple[int, ...], columns: int) -> None:
    workload = workload_of([q, kv, (*kv[:-1], columns)], 0, core())
    inputs = arrays(workload)
    check(workload, target, default(workload, target), inputs, attend(*inputs))


@every_width
def test_each_parameter_value_gives_the_right_result(target: targets.Target) -> None:
    workload = workload_of([(1, 2, 150, 40)] * 3, 0, core())
    inputs = arrays(workload)
    wanted = attend(*inputs)
    first, *others = all_parameters(workload, target, NAME)
    seen = {key: {value} for key, value in first.items()}
    for chosen in [first, *others]:
        new = [key for key, value in chosen.items() if value not in seen[key]]
        if chosen is first or new:
            for key in new:
                seen[key].add(chosen[key])
            check(workload, target, chosen, inputs, wanted)
    assert all(len(values) > 1 for values in seen.values())


def test_heads_split_and_joined_by_layout_operators() -> None:
    batch, queries, keys, heads, size = 2, 37, 53, 3, 32

    def emit(builder: Any, values: list[Any]) -> Any:
        def split(x: Any) -> Any:
            extent = int(x.ty.shape[1])
            return builder.emit(
                op.permute_dims(builder.emit(op.reshape(x, (batch, extent, heads, size))), [0, 2, 1, 3])
            )

        q, k, v = (split(value) for value in values)
        q = builder.emit(op.multiply(q, scalar(0.3)))
        joined = builder.emit(op.permute_dims(core(lambda b, s, r: s)(builder, [q, k, v]), [0, 2, 1, 3]))
        return builder.emit(op.reshape(joined, (batch, queries, heads * size)))

    width = heads * size
    workload = workload_of([(batch, queries, width), (batch, keys, width), (batch, keys, width)], 0, emit)
    inputs = arrays(workload)
    q, k, v = (x.reshape(batch, -1, heads, size).transpose(0, 2, 1, 3) for x in inputs)
    wanted = attend(q, k, v, 0.3).transpose(0, 2, 1, 3).reshape(batch, queries, width)
    check(workload, TARGETS[-1], default(workload, TARGETS[-1]), inputs, wanted)


def test_batch_and_heads_merged_by_reshapes_on_both_sides_of_softmax() -> None:
    def emit(builder: Any, values: list[Any]) -> Any:
        q, k, v = (builder.emit(op.reshape(value, (6, 19, 32))) for value in values)
        scores = builder.emit(op.matmul(q, builder.emit(op.permute_dims(k, [0, 2, 1]))))
        scores = builder.emit(op.divide(builder.emit(op.reshape(scores, (2, 3, 19, 19))), scalar(8.0)))
        weights = builder.emit(op.reshape(builder.emit(op.nn.softmax(scores, axis=3)), (6, 19, 19)))
        return builder.emit(op.reshape(builder.emit(op.matmul(weights, v)), (2, 3, 19, 32)))

    workload = workload_of([(2, 3, 19, 32)] * 3, 0, emit)
    inputs = arrays(workload)
    check(workload, TARGETS[-1], default(workload, TARGETS[-1]), inputs, attend(*inputs))


def test_keys_that_come_transposed() -> None:
    def emit(builder: Any, values: list[Any]) -> Any:
        q, k, v = values
        scores = scaled(builder, builder.emit(op.matmul(q, k)), [])
        return builder.emit(op.matmul(builder.emit(op.nn.softmax(scores, axis=-1)), v))

    workload = workload_of([(2, 21, 32), (2, 32, 40), (2, 40, 32)], 0, emit)
    q, k, v = inputs = arrays(workload)
    check(workload, TARGETS[-1], default(workload, TARGETS[-1]), inputs, attend(q, k.swapaxes(1, 2), v))


@pytest.mark.parametrize("repeat", [False, True], ids=["broadcast", "repeat"])
def test_query_groups_share_keys_and_values(repeat: bool) -> None:
    def emit(builder: Any, values: list[Any]) -> Any:
        def shared(x: Any) -> Any:
            if repeat:
                return builder.emit(op.repeat(x, 3, 1))
            x = builder.emit(op.reshape(x, (2, 2, 1, 25, 32)))
            return builder.emit(op.reshape(builder.emit(op.broadcast_to(x, (2, 2, 3, 25, 32))), (2, 6, 25, 32)))

        q, k, v = values
        return core()(builder, [q, shared(k), shared(v)])

    workload = workload_of([(2, 6, 25, 32), (2, 2, 25, 32), (2, 2, 25, 32)], 0, emit)
    q, k, v = inputs = arrays(workload)
    wanted = attend(q, k.repeat(3, axis=1), v.repeat(3, axis=1))
    check(workload, TARGETS[-1], default(workload, TARGETS[-1]), inputs, wanted)


def add_mask(builder: Any, scores: Any, rest: list[Any]) -> Any:
    return builder.emit(op.add(scaled(builder, scores, rest), rest[0]))


@every_width
@pytest.mark.parametrize("mask_shape", [(1, 1, 77, 77), (77, 77), (2, 1, 1, 77), (2, 3, 77, 77)], ids=str)
def test_additive_mask_with_minus_infinity(target: targets.Target, mask_shape: tuple[int, ...]) -> None:
    workload = workload_of([(2, 3, 77, 32)] * 3 + [mask_shape], 0, core(add_mask))
    q, k, v, mask = arrays(workload)
    mask = np.where(np.random.default_rng(3).random(mask_shape) < 0.5, -np.inf, mask).astype("float32")
    mask[..., :66] = -np.inf  # whole blocks of keys before the first that counts
    mask[..., 70] = 0
    check(workload, target, default(workload, target), [q, k, v, mask], attend(q, k, v, mask=mask.astype("float64")))


def test_rows_without_any_key_are_nan_as_in_numpy() -> None:
    workload = workload_of([(1, 2, 40, 32)] * 3 + [(40, 40)], 0, core(add_mask))
    q, k, v, _ = arrays(workload)
    mask = np.zeros((40, 40), "float32")
    mask[7] = -np.inf
    got = check(workload, TARGETS[-1], default(workload, TARGETS[-1]), [q, k, v, mask], attend(q, k, v, mask=mask))
    assert np.isnan(got[:, :, 7]).all()
    assert np.isnan(got).sum() == got[:, :, 7].size


def test_where_mask_with_a_large_negative_number() -> None:
    def tail(builder: Any, scores: Any, rest: list[Any]) -> Any:
        return builder.emit(op.where(rest[0], scaled(builder, scores, rest), rest[1]))

    shapes = [(1, 2, 40, 32)] * 3 + [(1, 1, 40, 40), ()]
    workload = workload_of(shapes, 0, core(tail), ["float32"] * 3 + ["bool", "float32"])
    q, k, v, mask, _ = inputs = arrays(workload)
    inputs[4] = np.array(-1e9, "float32")
    mask[..., 5, :] = False  # all equal: the mean of v
    scores = np.where(mask, q.astype("float64") @ k.swapaxes(-1, -2) * 0.125, -1e9)
    check(workload, TARGETS[-1], default(workload, TARGETS[-1]), inputs, softmax(scores) @ v.astype("float64"))


def test_nan_and_infinity_reach_what_they_reach_in_numpy() -> None:
    workload = workload_of([(1, 2, 70, 32)] * 3, 0, core())
    q, _, v = inputs = arrays(workload)
    q[0, 0, 5, 3] = np.nan  # one row
    q[0, 1, 6, 0] = np.inf
    v[0, 1, 69, 2] = np.inf  # one column
    wanted = attend(*inputs)
    got = check(workload, TARGETS[-1], default(workload, TARGETS[-1]), inputs, wanted)
    assert np.isnan(got[0, 0, 5]).all()
    assert np.isfinite(got[0, 0, :5]).all()


def test_large_scores_do_not_overflow() -> None:
    workload = workload_of([(1, 1, 33, 32)] * 3, 0, core())
    q, k, v = arrays(workload)
    inputs = [q * 40, k * 40, v]
    [got] = run_kernel(workload, TARGETS[-1], NAME, default(workload, TARGETS[-1]), *inputs)
    # Scores of some 1000 carry an absolute error of 1e-4 in float32, which exp makes a relative one.
    np.testing.assert_allclose(got, attend(*inputs), atol=2e-3)


def test_exact_functions_give_the_same() -> None:
    workload = workload_of([(1, 2, 30, 32)] * 3, 0, core())
    inputs = arrays(workload)
    target = TARGETS[-1].with_exact_math(True)
    check(workload, target, default(workload, target), inputs, attend(*inputs))


def test_what_it_does_not_serve() -> None:
    def served(shapes: list[tuple[int, ...]], emit: Emit, dtype: str = "float32") -> bool:
        workload = workload_of(shapes, 0, emit, [dtype] * len(shapes))
        return NAME in [entry.name for entry in schedules.for_workload(workload, TARGETS[-1])]

    def softmax_over(axis: int) -> Emit:
        def emit(builder: Any, values: list[Any]) -> Any:
            scores = builder.emit(op.matmul(values[0], values[1]))
            return builder.emit(op.matmul(builder.emit(op.nn.softmax(scores, axis=axis)), values[2]))

        return emit

    def changed_weights(builder: Any, values: list[Any]) -> Any:
        weights = builder.emit(op.nn.softmax(builder.emit(op.matmul(values[0], values[1])), axis=-1))
        return builder.emit(op.matmul(builder.emit(op.multiply(weights, weights)), values[2]))

    square = [(2, 32, 32)] * 3
    assert served(square, softmax_over(-1))
    assert not served(square, softmax_over(1)), "softmax over queries"
    assert not served(square, changed_weights), "weights changed after softmax"
    assert not served(square, softmax_over(-1), "float16"), "float16"
    assert not served([(2, 8, 512)] * 3, core()), "head too large"
