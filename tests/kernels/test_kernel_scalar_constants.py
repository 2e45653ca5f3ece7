"""Constants without dimensions, read by operators that do and that do not make immediates of them."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.fusion import plan
from workbench.graph import from_model
from workbench.kernels import compile_model, lower
from workbench.models import load
from workbench.store import ScheduleSpec
from workbench.targets import resolve
from workbench.tvm_seam import relax


def _masked_softmax() -> object:
    builder = relax.BlockBuilder()
    mask = relax.Var("mask", relax.TensorType((1, 1, 8, 8), "bool"))
    x = relax.Var("x", relax.TensorType((1, 2, 8, 8), "float32"))
    low = relax.const(-5.0, "float32")
    with builder.function("main", [mask, x]):
        with builder.dataflow():
            chosen = builder.emit(relax.op.where(mask, x, low))
            raised = builder.emit(relax.op.maximum(chosen, low))
            result = builder.emit_output(builder.emit(relax.op.nn.softmax(raised, axis=-1)))
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.parametrize("planner", ["predict", "unfused"])
def test_a_scalar_constant_of_where_is_lowered(planner: str) -> None:
    model, target = load(_masked_softmax(), name="masked_softmax"), resolve("llvm")
    made = plan(from_model(model), target, planner=planner)
    assert (len(made.groups) == 1) == (planner == "predict")
    lowered = lower(model, made, planner)
    default = dict.fromkeys(lowered.workloads, ScheduleSpec("default", "default", {}))
    executable, _ = compile_model(lowered, model, target, default)
    mask, x = model.example_inputs(seed=3)
    score = np.maximum(np.where(mask, x.astype("float64"), -5.0), -5.0)
    weight = np.exp(score - score.max(-1, keepdims=True))
    np.testing.assert_allclose(executable(mask, x), weight / weight.sum(-1, keepdims=True), rtol=2e-6)
