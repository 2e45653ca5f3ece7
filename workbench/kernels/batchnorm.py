"""Inference-form batch normalisation of constant statistics, taken apart into elementwise operators.

What TVM's DecomposeOpsForInference and FoldConstant make of it, operator for operator; TVM compiles and runs a program
for every constant that it folds (16 s for MobileNetV2), NumPy does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..tvm_seam import GenericConst, relax
from .program import Operation


def is_foldable(operation: Operation) -> bool:
    """Whether the operation is a normalisation that :func:`decompose` serves: float32 constants, result 0 alone."""
    return (
        operation.op == "nn.batch_norm"
        and set(operation.outputs) == {0}
        and not bool(operation.call.attrs.training)
        and all(isinstance(a, GenericConst) and str(a.ty.dtype) == "float32" for a in operation.call.args[1:5])
    )


def decompose(call: Any, bind: Callable[[Any], Any]) -> Any:
    """``(x - mean) / sqrt(variance + epsilon) * gamma + beta``; ``bind`` names a value and gives its variable."""
    rank, axis = len(call.args[0].ty.shape), int(call.attrs.axis) % len(call.args[0].ty.shape)
    gamma, beta, mean, variance = (argument.value.numpy() for argument in call.args[1:5])

    def constant(values: np.ndarray) -> Any:
        return relax.const(values.reshape([-1 if i == axis else 1 for i in range(rank)]), "float32")

    deviation = np.sqrt(variance + np.float32(call.attrs.epsilon))
    result = bind(relax.op.subtract(call.args[0], constant(mean)))
    result = bind(relax.op.divide(result, constant(deviation)))
    if bool(call.attrs.scale):
        result = bind(relax.op.multiply(result, constant(gamma)))
    if bool(call.attrs.center):
        result = bind(relax.op.add(result, constant(beta)))
    return result
