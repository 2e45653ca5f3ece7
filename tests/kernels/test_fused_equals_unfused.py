"""Random models with fan-out, several outputs, repeated arguments and escaping values: whatever is fused, is right.

Every kernel is compiled with its default schedule. Both sides are judged by NumPy in float64, never by each other
alone: an unfused build can be the wrong one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_models import assert_right, constant, module_of, target, tensor

from workbench.errors import IllegalGroup
from workbench.fusion import FusionPlan, builtin_rules, check, check_partition, plan, rule
from workbench.graph import Graph, from_model
from workbench.kernels import lower
from workbench.models import Model, load
from workbench.tvm_seam import relax

R = relax.op
SIZE = 6
Emit = Callable[[Any], Any]
Step = tuple[str, int, int]

UNARY: dict[str, Callable[[Any], Any]] = {
    "nn.relu": R.nn.relu,
    "tanh": R.tanh,
    "sigmoid": R.sigmoid,
    "negative": R.negative,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": R.add,
    "subtract": R.subtract,
    "maximum": R.maximum,
    "multiply": R.multiply,
}


def apply(emit: Emit, step: str, a: Any, b: Any, seed: int) -> Any:
    """One operator or a few, [6, 6] -> [6, 6]."""
    if step in UNARY:
        return emit(UNARY[step](a))
    if step == "multiply":  # of something bounded, so that long chains stay finite
        return emit(R.multiply(emit(R.tanh(a)), b))
    if step in BINARY:
        return emit(BINARY[step](a, b))
    return COMPOSED[step](emit, a, b, seed)


def split(emit: Emit, a: Any, b: Any, seed: int) -> Any:
    parts = emit(R.split(a, 2, axis=1))
    left, right = (emit(relax.TupleGetItem(parts, index)) for index in (0, 1))
    return emit(R.concat(relax.Tuple([right, emit(R.add(left, right))]), axis=1))


def layer_norm(emit: Emit, a: Any, b: Any, seed: int) -> Any:
    return emit(R.nn.layer_norm(a, constant((SIZE,), seed), constant((SIZE,), seed + 1), axes=[-1], epsilon=1e-2))


COMPOSED: dict[str, Callable[[Emit, Any, Any, int], Any]] = {
    "matmul": lambda emit, a, b, seed: emit(R.matmul(a, constant((SIZE, SIZE), seed))),
    "transpose": lambda emit, a, b, seed: emit(R.permute_dims(a, [1, 0])),
    "softmax": lambda emit, a, b, seed: emit(R.nn.softmax(a, axis=-1)),
    "layer_norm": layer_norm,
    "thin": lambda emit, a, b, seed: emit(R.add(b, emit(R.exp(emit(R.max(emit(R.tanh(a)), axis=1, keepdims=True)))))),
    "row": lambda emit, a, b, seed: emit(R.subtract(a, emit(R.mean(b, axis=[0], keepdims=True)))),
    "split": split,
    "reshape": lambda emit, a, b, seed: emit(R.reshape(emit(R.abs(emit(R.reshape(a, (4, 9))))), (SIZE, SIZE))),
    "rows": lambda emit, a, b, seed: emit(R.take(a, relax.const(np.array([5, 0, 0, 3, 2, 1])), axis=0)),
    "select": lambda emit, a, b, seed: emit(R.where(emit(R.greater(a, b)), a, relax.const(0.5, "float32"))),
}


STEPS = (*UNARY, *BINARY, *COMPOSED)


@st.composite
def models(draw: st.DrawFn) -> Model:
    places = st.integers(0, 30)
    steps: list[Step] = draw(st.lists(st.tuples(st.sampled_from(STEPS), places, places), min_size=2, max_size=12))
    kept = draw(st.lists(places, max_size=3))
    return load(module_of([tensor("x", (SIZE, SIZE)), tensor("y", (SIZE, SIZE))], body_of(steps, kept)), name="random")


def body_of(steps: Sequence[Step], kept: Sequence[int]) -> Callable[..., Any]:
    """Each step reads two earlier values, which may be one and the same; ``kept`` values are outputs too."""

    def body(emit: Emit, x: Any, y: Any) -> Any:
        values, read = [x, y], set[int]()
        for seed, (step, *places) in enumerate(steps):
            first, second = (place % len(values) for place in places)
            read |= {first, second}
            values.append(apply(emit, step, values[first], values[second], seed))
        made = range(2, len(values))
        outputs = [index for index in made if index not in read] + [2 + place % len(made) for place in kept]
        return relax.Tuple([values[index] for index in dict.fromkeys(outputs)])

    return body


@rule(name="windows")
def windows(graph: Graph) -> Iterator[Sequence[str]]:
    """Pieces of the program as they come, whether or not they can be one kernel."""
    names = [node.id for node in graph.nodes]
    for size in (2, 3, 5):
        for start in range(len(names) - size + 1):
            yield names[start : start + size]
            yield names[start::size][:size]


def assert_legal(made: FusionPlan) -> None:
    check_partition(made.graph, [group.nodes for group in made.groups])
    for group in made.groups:
        check(made.graph, group.nodes, group.kind, group.rewrite)


def assert_fused_is_right(model: Model, rules: Sequence[Any]) -> FusionPlan:
    graph = from_model(model)
    made = plan(graph, target(), rules=rules)
    assert_legal(made)
    inputs = model.example_inputs(1)
    unfused = lower(model, plan(graph, target(), rules=(), planner="unfused"), "unfused")
    assert_right(model, unfused, inputs)
    assert_right(model, lower(model, made, "planned"), inputs)
    return made


FEW = settings(
    max_examples=30,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@FEW
@given(models())
def test_what_the_planner_fuses_is_right(model: Model) -> None:
    assert_fused_is_right(model, builtin_rules())


@FEW
@given(models())
def test_what_a_reckless_rule_fuses_is_right(model: Model) -> None:
    assert_fused_is_right(model, (windows, *builtin_rules()))


def test_the_models_have_what_makes_fusion_go_wrong() -> None:
    """One of each: fan-out, a repeated argument, several outputs, a value that escapes from a group, a cut tuple."""
    steps: list[Step] = [("tanh", 0, 0), ("add", 2, 2), ("split", 3, 0), ("multiply", 3, 4), ("thin", 5, 2)]
    inputs = [tensor("x", (SIZE, SIZE)), tensor("y", (SIZE, SIZE))]
    model = load(module_of(inputs, body_of(steps, kept=[1])), name="all")
    made = assert_fused_is_right(model, (windows, *builtin_rules()))
    graph = made.graph
    assert any(len(graph.users(value)) > 1 for value in graph.values)
    assert any(len(set(node.inputs)) < len(node.inputs) for node in graph.nodes)
    assert len(graph.outputs) == 2
    assert any(len(node.outputs) > 1 for node in graph.nodes)
    assert any(len(group.nodes) > 1 and len(graph.group_outputs(group.nodes)) > 1 for group in made.groups)


def test_a_group_around_another_kernel_is_refused() -> None:
    """What the properties rest on: a partition that could not run is no legal one."""
    steps: list[Step] = [("tanh", 0, 0), ("softmax", 2, 2), ("add", 2, 3)]
    inputs = [tensor("x", (SIZE, SIZE)), tensor("y", (SIZE, SIZE))]
    graph = from_model(load(module_of(inputs, body_of(steps, kept=[])), name="around"))
    first, middle, last = (node.id for node in graph.nodes)
    with pytest.raises(IllegalGroup, match=middle):
        check(graph, (first, last))
