"""Folds inference-form batch normalisation into the weights of the convolution before it.

::

    batch_norm(conv2d(x, W)) = gamma * (conv2d(x, W) - mean) / sqrt(var + eps) + beta
    ->  add(conv2d(x, W * s), beta - mean * s),   s = gamma / sqrt(var + eps), per output channel

Computed in float64 and rounded once to the type of the weights. Ioffe and Szegedy, 2015, section 3.1; the folding is
Jacob et al., 2018, section 3.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import KernelError
from ...tvm_seam import GenericConst, relax
from ..program import Operation


@dataclass(frozen=True)
class _Scales:
    """Per output channel, float64: ``y = conv * scale + shift``."""

    scale: np.ndarray
    shift: np.ndarray


def fold_batchnorm(operations: Sequence[Operation], escaping: frozenset[Any]) -> list[Operation]:
    """The operations without ``nn.batch_norm`` that follows an ``nn.conv2d`` of constant weights.

    Raises KernelError when the group has no such pair, or the convolution's result is read elsewhere too.
    """
    result = list(operations)
    pairs = [_pair(result, norm, escaping) for norm in operations if norm.op == "nn.batch_norm"]
    if not pairs:
        raise KernelError("fold_batchnorm: the group has no nn.batch_norm; drop the rewrite from the plan")
    for convolution, norm in pairs:
        folded, added = _fold(convolution, norm)
        result[result.index(convolution)] = folded
        result[result.index(norm)] = added
    return result


def _pair(operations: Sequence[Operation], norm: Operation, escaping: frozenset[Any]) -> tuple[Operation, Operation]:
    source = norm.call.args[0]
    producer = next((op for op in operations if source in op.outputs.values()), None)
    if producer is None or producer.op != "nn.conv2d":
        raise KernelError(f"fold_batchnorm: '{norm.id}' does not follow an nn.conv2d in the group; split it off")
    if source in escaping or sum(leaf == source for op in operations for leaf in op.reads()) > 1:
        raise KernelError(f"fold_batchnorm: '{producer.id}' is read before its normalisation too; split it off")
    if set(norm.outputs) != {0} or bool(norm.call.attrs.training):
        raise KernelError(f"fold_batchnorm: '{norm.id}' is not in inference form; export the model for inference")
    parameters = [producer.call.args[1], *norm.call.args[1:5]]
    if not all(isinstance(parameter, GenericConst) for parameter in parameters):
        raise KernelError(f"fold_batchnorm: weights or statistics of '{norm.id}' are no constants; split it off")
    return producer, norm


def _fold(convolution: Operation, norm: Operation) -> tuple[Operation, Operation]:
    weight = convolution.call.args[1].value.numpy()
    layout = str(convolution.call.attrs.kernel_layout)
    out_layout = str(convolution.call.attrs.out_layout or convolution.call.attrs.data_layout)
    if out_layout.index("C") != int(norm.call.attrs.axis):
        raise KernelError(f"fold_batchnorm: '{norm.id}' normalises another axis than the channels of {out_layout}")
    scales = _scales(norm.call)
    along = [1] * weight.ndim
    along[layout.index("O")] = -1
    folded = (weight.astype(np.float64) * scales.scale.reshape(along)).astype(weight.dtype)
    channels = [1] * len(out_layout)
    channels[out_layout.index("C")] = -1
    shift = scales.shift.reshape(channels).astype(weight.dtype)
    call = convolution.call
    conv = relax.Call(call.op, [call.args[0], relax.const(folded, str(weight.dtype))], call.attrs, call.ty_args)
    add = relax.op.add(convolution.outputs[0], relax.const(shift, str(weight.dtype)))
    return (
        Operation(convolution.id, conv, False, dict(convolution.outputs)),
        Operation(norm.id, add, False, {0: norm.outputs[0]}),
    )


def _scales(call: Any) -> _Scales:
    gamma, beta, mean, variance = (argument.value.numpy().astype(np.float64) for argument in call.args[1:5])
    scale = (gamma if call.attrs.scale else 1.0) / np.sqrt(variance + float(call.attrs.epsilon))
    shift = (beta if call.attrs.center else 0.0) - mean * scale
    return _Scales(np.asarray(scale), np.asarray(shift))
