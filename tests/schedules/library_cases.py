"""What the tests of library schedules share: workloads made from Relax expressions, targets, and running a kernel."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import schedules
from workbench import targets
from workbench.graph import from_function
from workbench.kernels.build import PREPACK_SUFFIX, build_kernel, link, load_library
from workbench.kernels.lower import make_workload
from workbench.kernels.tensor_program import lower_function
from workbench.kernels.workload import Workload
from workbench.store.record import ScheduleSpec
from workbench.targets import Target
from workbench.targets.llvm import missing_features
from workbench.tvm_seam import relax, tvm

Emit = Callable[[relax.BlockBuilder, list[Any]], Any]


def workload_of(shapes: Sequence[tuple[int, ...]], constants: int, emit: Emit, dtypes: Sequence[str] = ()) -> Workload:
    """The workload of a group with arguments of these shapes, of which the last ``constants`` hold constants."""
    kinds = [*dtypes] or ["float32"] * len(shapes)
    inputs = [relax.Var("x", relax.TensorType(shape, kind)) for shape, kind in zip(shapes, kinds, strict=True)]
    builder = relax.BlockBuilder()
    with builder.function("group", inputs, attrs={"Primitive": True}):
        with builder.dataflow():
            results = emit(builder, inputs)
            results = list(results) if isinstance(results, tuple) else [results]
            outputs = builder.emit_output(results[0] if len(results) == 1 else relax.Tuple(results))
        builder.emit_func_output(outputs)
    function = builder.get()["group"]
    graph = from_function(function, "group")
    program = lower_function(function, {}, "group", "test")
    ops = tuple(node.op for node in graph.nodes)
    return make_workload(program, len(shapes) - constants, constants, len(results), ops, graph)


def host_targets() -> list[Target]:
    """One target for every vector length that this machine can execute."""
    by_width = {}
    for mcpu in ("x86-64", "x86-64-v3", "x86-64-v4", "native"):
        if mcpu != "native" and missing_features(mcpu):
            continue
        target = targets.resolve("llvm" if mcpu == "native" else f"llvm -mcpu={mcpu}")
        by_width.setdefault(target.vector_bits, target)
    return [by_width[width] for width in sorted(by_width)]


def run_kernel(workload: Workload, target: Target, name: str, parameters: Mapping[str, int], *inputs: Any) -> list[Any]:
    """Outputs of a built, linked and loaded library kernel."""
    spec = ScheduleSpec("library", name, dict(parameters))
    kernel = build_kernel(workload, target, spec, schedules.get(name).apply(workload, target, parameters))
    with tempfile.TemporaryDirectory() as folder:
        library = load_library(link([kernel], Path(folder, "kernel.so")))
        arguments = [tvm.runtime.tensor(array) for array in inputs]
        if kernel.packed:
            packed = [tvm.runtime.tensor(np.zeros(item.shape, item.dtype)) for item in kernel.packed]
            library[kernel.symbol + PREPACK_SUFFIX](*(arguments[item.index] for item in kernel.packed), *packed)
            for item, array in zip(kernel.packed, packed, strict=True):
                arguments[item.index] = array
        out = [tvm.runtime.tensor(np.full(s.shape, 7, s.dtype)) for s in workload.args[len(inputs) :]]
        library[kernel.symbol](*arguments, *out)
        return [array.numpy() for array in out]


def all_parameters(workload: Workload, target: Target, name: str) -> list[dict[str, int]]:
    """Every legal combination, the default first."""
    entry = schedules.get(name)
    combinations: list[dict[str, int]] = [{}]
    for key, values in entry.space(workload, target).items():
        combinations = [{**chosen, key: value} for chosen in combinations for value in values]
    return [chosen for chosen in combinations if entry.legal(workload, target, chosen)]
