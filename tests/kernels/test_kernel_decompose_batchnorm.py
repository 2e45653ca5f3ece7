"""A plan's group with its batch norm taken apart is the very workload that TVM's own fusion makes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from workbench.errors import KernelError
from workbench.fusion import plan
from workbench.graph import from_model
from workbench.kernels import compile_model, lower, lower_greedy
from workbench.models import zoo
from workbench.reference import evaluate
from workbench.store import ScheduleSpec
from workbench.targets import resolve


def test_it_is_what_greedy_makes_and_computes_the_same() -> None:
    model, target = zoo.build("conv_bn_relu", channels=4, size=8), resolve("llvm")
    made = plan(from_model(model), target)
    made = replace(made, groups=tuple(replace(group, rewrite="decompose_batchnorm") for group in made.groups))
    lowered = lower(model, made, "planned")
    assert set(lowered.workloads) == set(lower_greedy(model).workloads)
    default = dict.fromkeys(lowered.workloads, ScheduleSpec("default", "default", {}))
    executable, _ = compile_model(lowered, model, target, default)
    inputs = model.example_inputs(seed=1)
    (expected,) = evaluate(from_model(model), inputs)
    np.testing.assert_allclose(executable(*inputs), expected, rtol=1e-4, atol=1e-5)


def test_a_group_without_a_batch_norm_is_refused() -> None:
    model, target = zoo.build("bias_gelu", rows=4, inner=8, outer=8), resolve("llvm")
    made = plan(from_model(model), target)
    wrong = replace(made, groups=tuple(replace(group, rewrite="decompose_batchnorm") for group in made.groups))
    with pytest.raises(KernelError, match="has no nn"):
        lower(model, wrong, "planned")
