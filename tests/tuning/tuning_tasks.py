"""Tasks for the tuning tests, made by hand: one that needs no TVM, and small tensor programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedules._base import LibrarySchedule
from workbench.kernels.workload import Workload
from workbench.models.model import TensorSpec
from workbench.targets import Caches, Target
from workbench.tuning import Task

TARGET = Target(
    kind="llvm",
    device="test processor",
    mcpu="x86-64-v3",
    features=("avx2", "fma"),
    vector_bits=256,
    cores=2,
    threads=2,
    caches=Caches(32 << 10, 512 << 10, 16 << 20),
    llvm="20.1",
    peak_gflops=100.0,
    peak_gbps=10.0,
)


def plain_task(key: str = "w0", flops: float = 1e6, weight: int = 1) -> Task:
    """A task for the fake device."""
    specs = (TensorSpec("x", (64, 64), "float32"), TensorSpec("y", (64, 64), "float32"))
    workload = Workload(key * 4, None, specs, 1, (), ("matmul", "nn.relu"), flops, 32768)
    return Task(workload, TARGET, weight)


def te_task(tensors: list[Any], ops: tuple[str, ...], key: str, outputs: int = 1, flops: float = 1e6) -> Task:
    """A task of TE tensors: inputs first, outputs last."""
    from workbench.tvm_seam import tvm

    function = tvm.te.create_prim_func(tensors).with_attr("global_symbol", "main")
    specs = tuple(TensorSpec(t.op.name, tuple(int(extent) for extent in t.shape), str(t.dtype)) for t in tensors)
    module = tvm.IRModule({"main": function})
    return Task(Workload(key, module, specs, outputs, (), ops, flops, sum(4 for _ in specs)), TARGET)


def matmul_task(size: int = 64) -> Task:
    """relu(a @ b + c), square, float32."""
    from workbench.tvm_seam import tvm

    te, topi = tvm.te, tvm.topi
    a, b = te.placeholder((size, size), name="a"), te.placeholder((size, size), name="b")
    c = te.placeholder((size,), name="c")
    out = topi.nn.relu(topi.add(topi.matmul(a, b), c))
    return te_task([a, b, c, out], ("matmul", "add", "nn.relu"), f"matmul{size}", flops=2.0 * size**3)


class TwoTiles(LibrarySchedule):
    """A real schedule of a matmul with two parameters, and one value that cannot be applied."""

    name = "two-tiles"
    summary = "for tests"

    def serves(self, workload: Workload) -> bool:
        return "matmul" in workload.ops

    def space(self, workload: Workload, target: Target) -> Mapping[str, tuple[int, ...]]:
        return {"rows": (4, 1, 2, 8, 16), "columns": (16, 4, 8, 32, 64), "order": (0, 1)}

    def legal(self, workload: Workload, target: Target, parameters: Mapping[str, int]) -> bool:
        return parameters["rows"] * parameters["columns"] <= 256

    def apply(self, workload: Workload, target: Target, parameters: Mapping[str, int]) -> Any:
        from workbench.tvm_seam import tvm

        schedule = tvm.s_tir.Schedule(workload.module)
        i, j, k = schedule.get_loops(schedule.get_sblock("T_matmul"))
        i0, i1 = schedule.split(i, [None, parameters["rows"]])
        j0, j1 = schedule.split(j, [None, parameters["columns"]])
        if parameters["order"] == 1:
            schedule.reorder(i0, j0, k, i1, j1)
        if parameters["rows"] == 16:
            schedule.get_sblock("no such block")
        return schedule.mod
