"""Softmax, normalisations and losses.

Where TVM accumulates a narrow float in float32 (the normalisations), so does the native precision here; softmax stays
in the tensor's own dtype.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..dtypes import widen
from ._table import Attrs, along, axes_of, operator
from .reductions import mean, serial_sum, variance


def _rounded_exp(x: np.ndarray) -> np.ndarray:
    return np.exp(widen(x)).astype(x.dtype)


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """exp(x - max) / sum(exp(x - max)) along an axis, rounded to the dtype of ``x`` at every step."""
    shifted = _rounded_exp(x - np.maximum.reduce(x, axis=axis, keepdims=True))
    total = serial_sum(shifted, (axis % x.ndim,), True)
    return (widen(shifted) / widen(total)).astype(x.dtype)


@operator("nn.softmax")
def _softmax(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return softmax(inputs[0], int(attrs["axis"]))


def log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """x - max - log(sum(exp(x - max))) along an axis."""
    shifted = x - np.maximum.reduce(x, axis=axis, keepdims=True)
    total = serial_sum(_rounded_exp(shifted), (axis % x.ndim,), True)
    return shifted - np.log(widen(total)).astype(x.dtype)


@operator("nn.log_softmax")
def _log_softmax(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return log_softmax(inputs[0], int(attrs["axis"]))


def _scale_and_shift(y: np.ndarray, gamma: np.ndarray, beta: np.ndarray, attrs: Attrs) -> np.ndarray:
    if attrs.get("scale", True):
        y = y * gamma
    return y + beta if attrs.get("center", True) else y


@operator("nn.layer_norm")
def _layer_norm(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """Ba, Kiros, Hinton 2016; gamma and beta have the shape of the normalised axes."""
    x, gamma, beta = (widen(v) for v in inputs)
    axes = axes_of(attrs["axes"], x.ndim)
    shape = [n if a in axes else 1 for a, n in enumerate(x.shape)]
    root = np.sqrt(variance(x, axes, True) + x.dtype.type(attrs["epsilon"]))
    y = (x - mean(x, axes, True)) / root
    return _scale_and_shift(y, gamma.reshape(shape), beta.reshape(shape), attrs)


@operator("nn.rms_norm")
def _rms_norm(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """Zhang and Sennrich 2019; the weight has the shape of the normalised axes."""
    x, weight = (widen(v) for v in inputs)
    axes = axes_of(attrs["axes"], x.ndim)
    shape = [n if a in axes else 1 for a, n in enumerate(x.shape)]
    return x / np.sqrt(mean(x * x, axes, True) + x.dtype.type(attrs["epsilon"])) * weight.reshape(shape)


@operator("nn.group_norm")
def _group_norm(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """Wu and He 2018: ``axes`` are the spatial axes; the channels of a group are normalised together."""
    x, gamma, beta = (widen(v) for v in inputs)
    channel = int(attrs["channel_axis"]) % x.ndim
    groups = int(attrs["num_groups"])
    split = x.reshape(*x.shape[:channel], groups, x.shape[channel] // groups, *x.shape[channel + 1 :])
    axes = (channel + 1, *(a + 1 if a > channel else a for a in axes_of(attrs["axes"], x.ndim)))
    root = np.sqrt(variance(split, axes, True) + x.dtype.type(attrs["epsilon"]))
    y = ((split - mean(split, axes, True)) / root).reshape(x.shape)
    return _scale_and_shift(y, along(gamma, channel, x.ndim), along(beta, channel, x.ndim), attrs)


@operator("nn.instance_norm")
def _instance_norm(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """Ulyanov, Vedaldi, Lempitsky 2016."""
    x, gamma, beta = (widen(v) for v in inputs)
    axes = axes_of(attrs["axes"], x.ndim)
    channel = int(attrs["channel_axis"])
    root = np.sqrt(variance(x, axes, True) + x.dtype.type(attrs["epsilon"]))
    y = (x - mean(x, axes, True)) / root
    return _scale_and_shift(y, along(gamma, channel, x.ndim), along(beta, channel, x.ndim), attrs)


@operator("nn.batch_norm")
def _batch_norm(inputs: Sequence[np.ndarray], attrs: Attrs) -> list[np.ndarray]:
    """Ioffe and Szegedy 2015: the result, and the moving mean and variance after it."""
    x, gamma, beta, moving_mean, moving_variance = (widen(v) for v in inputs)
    axis = int(attrs["axis"]) % x.ndim
    used_mean, used_variance = moving_mean, moving_variance
    if attrs.get("training"):
        axes = tuple(a for a in range(x.ndim) if a != axis)
        used_mean, used_variance = mean(x, axes, False), variance(x, axes, False)
        keep = x.dtype.type(1 - attrs["momentum"])
        moving_mean = moving_mean * keep + used_mean * x.dtype.type(attrs["momentum"])
        moving_variance = moving_variance * keep + used_variance * x.dtype.type(attrs["momentum"])
    root = np.sqrt(used_variance + x.dtype.type(attrs["epsilon"]))
    y = (x - along(used_mean, axis, x.ndim)) / along(root, axis, x.ndim)
    y = _scale_and_shift(y, along(gamma, axis, x.ndim), along(beta, axis, x.ndim), attrs)
    return [y, moving_mean, moving_variance]


@operator("nn.cross_entropy_with_logits")
def _cross_entropy(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """-sum(predictions * labels), averaged over the batch where there is one (Relax's definition)."""
    predictions, labels = inputs
    product = predictions * labels
    total = -serial_sum(product, tuple(range(product.ndim)), False)
    return total / product.dtype.type(product.shape[0]) if product.ndim > 1 else total


@operator("nn.nll_loss")
def _nll_loss(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """predictions [n, classes, ...] (or [classes]), targets [n, ...], weights [classes]."""
    predictions, targets = inputs[0], inputs[1]
    class_axis = 1 if predictions.ndim > 1 else 0
    weights = inputs[2] if len(inputs) > 2 else np.ones(predictions.shape[class_axis], predictions.dtype)
    kept = targets != int(attrs["ignore_index"])
    index = np.where(kept, targets, 0)
    picked = np.take_along_axis(predictions, np.expand_dims(index, class_axis), axis=class_axis).squeeze(class_axis)
    weight = np.where(kept, weights[index], 0).astype(predictions.dtype)
    losses = -picked * weight
    reduction = str(attrs["reduction"])
    if reduction == "none":
        return losses
    total = serial_sum(losses, tuple(range(losses.ndim)), False)
    return total if reduction == "sum" else total / serial_sum(weight, tuple(range(weight.ndim)), False)


@operator("nn.pixel_shuffle")
def _pixel_shuffle(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """Shi et al. 2016: [n, c * r * r, h, w] -> [n, c, h * r, w * r]."""
    x, r = inputs[0], int(attrs["upscale_factor"])
    *lead, c, h, w = x.shape
    split = x.reshape(-1, c // (r * r), r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
    return split.reshape(*lead, c // (r * r), h * r, w * r)


@operator("nn.batch_flatten")
def _batch_flatten(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return inputs[0].reshape(inputs[0].shape[0], math.prod(inputs[0].shape[1:]))
