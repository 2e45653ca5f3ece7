"""The contract of every library schedule, and the registry."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from library_cases import all_parameters, host_targets, workload_of

import schedules
from workbench.errors import InputError, KernelError
from workbench.targets import Target
from workbench.tvm_seam import relax, tvm, tvm_ffi

op = relax.op
TARGETS = host_targets()


def swiglu(builder: Any, values: list[Any]) -> Any:
    x, gate, up = values
    gated = builder.emit(op.nn.silu(builder.emit(op.matmul(x, gate))))
    return builder.emit(op.multiply(gated, builder.emit(op.matmul(x, up))))


def attention(builder: Any, values: list[Any]) -> Any:
    q, k, v = values
    return builder.emit(op.matmul(builder.emit(op.nn.softmax(builder.emit(op.matmul(q, k)), axis=-1)), v))


def residual_norm(builder: Any, values: list[Any]) -> Any:
    x, y, scale, shift = values
    return builder.emit(op.nn.layer_norm(builder.emit(op.add(x, y)), scale, shift, axes=[-1]))


def normalised(builder: Any, values: list[Any]) -> Any:
    total = builder.emit(op.sum(values[0], axis=[-1], keepdims=True))
    return builder.emit(op.divide(values[0], total))


SERVED = {
    "multi_matmul": [
        workload_of([(37, 65), (65, 130), (65, 130)], 2, swiglu),
        workload_of([(1, 8), (8, 3), (8, 3)], 0, swiglu),
        workload_of([(128, 512), (512, 1408), (512, 1408)], 2, swiglu),
    ],
    "attention": [
        workload_of([(2, 9, 32), (2, 32, 9), (2, 9, 32)], 0, attention),
        workload_of([(1, 8, 512, 64), (1, 8, 64, 512), (1, 8, 512, 64)], 0, attention),
    ],
    "row_norm": [
        workload_of([(3, 5), (3, 5), (5,), (5,)], 2, residual_norm),
        workload_of([(1024, 768), (1024, 768), (768,), (768,)], 2, residual_norm),
    ],
    "row_reduce": [
        workload_of([(3, 5)], 0, normalised),
        workload_of([(2048, 1024)], 0, normalised),
    ],
}
every_case = pytest.mark.parametrize(
    ("name", "case"), [(name, case) for name in SERVED for case in range(len(SERVED[name]))]
)


def test_every_entry_has_cases_here() -> None:
    assert set(schedules.names()) == set(SERVED)


def test_unknown_name() -> None:
    with pytest.raises(InputError, match="no library schedule 'nonsense'; there are attention, multi_matmul, row_norm"):
        schedules.get("nonsense")


def test_entries_are_found_by_kind_of_target() -> None:
    target = TARGETS[-1]
    for name, workloads in SERVED.items():
        for workload in workloads:
            assert [entry.name for entry in schedules.for_workload(workload, target)] == [name]
            assert schedules.for_workload(workload, dataclasses.replace(target, kind="cuda")) == []


def test_a_workload_without_a_graph_is_served_by_none() -> None:
    for name, workloads in SERVED.items():
        blind = dataclasses.replace(workloads[0], graph=None)
        assert not schedules.get(name).serves(blind)
        with pytest.raises(KernelError):
            schedules.get(name).apply(blind, TARGETS[-1], all_parameters(workloads[0], TARGETS[-1], name)[0])


@every_case
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: f"{t.vector_bits}bit")
def test_the_first_values_are_legal_and_combinations_are_few(name: str, case: int, target: Target) -> None:
    workload, entry = SERVED[name][case], schedules.get(name)
    space = entry.space(workload, target)
    assert entry.legal(workload, target, {key: values[0] for key, values in space.items()})
    assert all(len(set(values)) == len(values) for values in space.values())
    assert 1 <= len(all_parameters(workload, target, name)) <= 64


@every_case
def test_the_module_keeps_the_signature_and_nests_no_parallel_loops(name: str, case: int) -> None:
    workload, target = SERVED[name][case], TARGETS[-1]
    module = schedules.get(name).apply(workload, target, all_parameters(workload, target, name)[0])
    function = module["main"]
    assert function.attrs["global_symbol"] == "main"
    assert function.attrs["tirx.noalias"]
    signature = [(tuple(int(extent) for extent in p.shape), str(p.dtype)) for p in function.params]
    assert signature == [(spec.shape, spec.dtype) for spec in workload.args]
    parallel = []
    tvm_ffi.structural_walk(function.body, [(tvm.tirx.For, parallel.append)])
    loops = [loop for loop in parallel if loop.kind == tvm.tirx.ForKind.PARALLEL]
    assert loops
    for loop in loops:
        inner: list[Any] = []
        tvm_ffi.structural_walk(loop.body, [(tvm.tirx.For, inner.append)])
        assert all(other.kind != tvm.tirx.ForKind.PARALLEL for other in inner)


@every_case
def test_equal_parameters_give_equal_modules(name: str, case: int) -> None:
    workload, target = SERVED[name][case], TARGETS[-1]
    parameters = all_parameters(workload, target, name)[-1]
    first, second = (schedules.get(name).apply(workload, target, parameters) for _ in range(2))
    assert tvm_ffi.structural_equal(first, second)
