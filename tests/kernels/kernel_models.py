"""Small models, plans of given groups, and what the tests of the kernels stage ask of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from workbench.fusion import FusionPlan, Group
from workbench.graph import Graph, from_model
from workbench.kernels import Executable, Kernel, LoweredModel, compile_model, lower, lower_greedy
from workbench.models import Model, load
from workbench.reference import compare, evaluate
from workbench.store.record import ScheduleSpec
from workbench.targets import Target, resolve
from workbench.tvm_seam import relax

DEFAULT = ScheduleSpec("default", "default", {})


@cache
def target() -> Target:
    return resolve("llvm", threads=2)


def tensor(name: str, shape: Sequence[int], dtype: str = "float32") -> Any:
    return relax.Var(name, relax.TensorType(list(shape), dtype))


def constant(shape: Sequence[int], seed: int = 0, dtype: str = "float32") -> Any:
    return relax.const(np.random.default_rng(seed).standard_normal(shape).astype(dtype), dtype)


def module_of(inputs: Sequence[Any], body: Callable[..., Any]) -> Any:
    """A module whose ``main`` binds every operator of ``body(emit, *inputs)``."""
    builder = relax.BlockBuilder()
    with builder.function("main", list(inputs)):
        with builder.dataflow():
            result = builder.emit_output(body(builder.emit, *inputs))
        builder.emit_func_output(result)
    return builder.get()


def model_of(inputs: Sequence[Any], body: Callable[..., Any]) -> Model:
    return load(module_of(inputs, body), name="small")


def plan_of(graph: Graph, *groups: Sequence[str], rewrite: str | None = None) -> FusionPlan:
    """A plan with these groups of node ids, and every other node on its own. ``rewrite`` goes to the first group."""
    covered = {node for group in groups for node in group}
    units = [tuple(group) for group in groups] + [(node.id,) for node in graph.nodes if node.id not in covered]
    made = tuple(
        Group(
            id=f"g{index}",
            nodes=unit,
            ops=tuple(graph.node(node).op for node in unit),
            rule="test",
            kind="vertical",
            reason="",
            predicted_us=0.0,
            rewrite=rewrite if index == 0 else None,
        )
        for index, unit in enumerate(units)
    )
    return FusionPlan(graph=graph, target_key=target().key, planner="test", groups=made, decisions=())


def variants(model: Model) -> dict[str, LoweredModel]:
    """Every operator on its own, all of them together, and TVM's own fusion."""
    graph = from_model(model)
    return {
        "unfused": lower(model, plan_of(graph), "unfused"),
        "joined": lower(model, plan_of(graph, [node.id for node in graph.nodes]), "joined"),
        "greedy": lower_greedy(model),
    }


class MemoryCache:
    """A kernel cache that forgets when the process ends."""

    def __init__(self) -> None:
        self.kernels: dict[tuple[str, ...], Kernel] = {}

    def get(self, workload: str, target: str, tvm: str, schedule: ScheduleSpec) -> Kernel | None:
        return self.kernels.get((workload, target, tvm, repr(schedule)))

    def put(self, kernel: Kernel) -> None:
        self.kernels[kernel.workload, kernel.target, kernel.tvm, repr(kernel.schedule)] = kernel


SHARED = MemoryCache()


def build(model: Model, lowered: LoweredModel) -> Executable:
    """The model with default schedules; tests share kernels, which are compiled once a process."""
    executable, _ = compile_model(lowered, model, target(), dict.fromkeys(lowered.workloads, DEFAULT), SHARED)
    return executable


def outputs_of(model: Model, lowered: LoweredModel, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    result = build(model, lowered)(*inputs)
    return list(result) if isinstance(result, tuple) else [result]


def assert_right(model: Model, lowered: LoweredModel, inputs: Sequence[np.ndarray]) -> None:
    """The outputs are those of NumPy in float64, within the rounding noise of the model's own dtype."""
    graph = from_model(model)
    expected, native = evaluate(graph, inputs, "float64"), evaluate(graph, inputs, "native")
    for actual, reference, own in zip(outputs_of(model, lowered, inputs), expected, native, strict=True):
        assert actual.shape == reference.shape
        assert actual.dtype == own.dtype
        comparison = compare(actual, reference, own)
        assert comparison.correct, f"{lowered.name}: {comparison.message}"
