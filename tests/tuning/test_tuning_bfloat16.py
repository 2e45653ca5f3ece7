"""A bfloat16 task goes through real workers: inputs, check and timing."""

from __future__ import annotations

import workbench as wb
from workbench.kernels import lower
from workbench.targets import resolve
from workbench.tuning import Budget, MemoryStore, make_tasks, tune_tasks
from workbench.tvm_seam import relax


def _model() -> object:
    builder = relax.BlockBuilder()
    x, y = (relax.Var(name, relax.TensorType((8, 16), "bfloat16")) for name in "xy")
    with builder.function("main", [x, y]):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(relax.op.add(x, y)))
        builder.emit_func_output(result)
    return builder.get()


def test_a_bfloat16_task_is_measured() -> None:
    from workbench.fusion import plan
    from workbench.graph import from_model

    model, target = wb.load(_model(), name="half"), resolve("llvm")
    lowered = lower(model, plan(from_model(model), target), "planned")
    result = tune_tasks(make_tasks({"planned": lowered}, target), Budget(trials_per_task=2), store=MemoryStore())
    assert result.results[0].failed == {}
    assert result.results[0].best is not None
