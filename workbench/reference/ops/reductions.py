"""Reductions, scans and ordering.

Sums of the native precision are made one term after the other in the tensor's own dtype, not pairwise as
``np.sum`` does: a kernel may sum in any order, and the plain loop is the least accurate order that is still correct,
so its error is the yardstick (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, chapter 4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..dtypes import accumulator, is_float, np_dtype, widen
from ._table import Attrs, axes_of, operator


def serial_sum(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    """The sum over ``axes`` in the dtype of ``x``; terms are added in memory order unless it is float64."""
    if x.dtype == np.float64 or not is_float(x.dtype):
        return x.sum(axis=axes, keepdims=keepdims, dtype=x.dtype)
    kept = [a for a in range(x.ndim) if a not in axes]
    moved = np.ascontiguousarray(np.transpose(x, (*axes, *kept)))
    terms = moved.reshape(-1, *(x.shape[a] for a in kept))
    flat = terms.reshape(len(terms), -1)
    if len(terms) == 0:
        total = np.zeros(flat.shape[1:], x.dtype)
    elif flat.shape[1] == 1:  # NumPy sums a single column pairwise; a scan does not
        total = np.add.accumulate(flat, axis=0, dtype=x.dtype)[-1]
    else:
        total = np.add.reduce(flat, axis=0, dtype=x.dtype)
    shape = tuple(1 if a in axes else n for a, n in enumerate(x.shape)) if keepdims else terms.shape[1:]
    return total.reshape(shape)


def mean(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    """The mean in the dtype of ``x``."""
    count = math.prod(x.shape[a] for a in axes)
    return (widen(serial_sum(x, axes, keepdims)) / count).astype(x.dtype)


def variance(x: np.ndarray, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
    """The population variance, two passes."""
    deviation = x - mean(x, axes, True)
    return mean(deviation * deviation, axes, keepdims)


@operator("sum")
def _sum(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    x = inputs[0]
    return serial_sum(x, axes_of(attrs["axis"], x.ndim), bool(attrs["keepdims"]))


@operator("mean")
def _mean(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    x = inputs[0]
    return mean(x, axes_of(attrs["axis"], x.ndim), bool(attrs["keepdims"]))


@operator("variance")
def _variance(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    x = inputs[0]
    return variance(x, axes_of(attrs["axis"], x.ndim), bool(attrs["keepdims"]))


@operator("std")
def _std(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return np.sqrt(_variance(inputs, attrs))


@operator("max")
def _max(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    x = inputs[0]
    return np.max(x, axis=axes_of(attrs["axis"], x.ndim), keepdims=bool(attrs["keepdims"]))


@operator("min")
def _min(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    x = inputs[0]
    return np.min(x, axis=axes_of(attrs["axis"], x.ndim), keepdims=bool(attrs["keepdims"]))


@operator("prod")
def _prod(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    x = inputs[0]
    axes = axes_of(attrs["axis"], x.ndim)
    return x.prod(axis=axes, keepdims=bool(attrs["keepdims"]), dtype=x.dtype)


@operator("argmax")
def _argmax(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """The first of equal elements, as NumPy and ONNX say."""
    axis = attrs["axis"]
    return np.argmax(inputs[0], axis=axis, keepdims=bool(attrs["keepdims"]))


@operator("argmin")
def _argmin(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    axis = attrs["axis"]
    return np.argmin(inputs[0], axis=axis, keepdims=bool(attrs["keepdims"]))


@operator("median")
def _median(inputs: Sequence[np.ndarray], attrs: Attrs) -> list[np.ndarray]:
    """The lower of the two middle elements, and its position, as PyTorch gives it."""
    x, axis, keep = inputs[0], attrs["axis"], bool(attrs["keepdims"])
    if axis is None:
        return [np.sort(x, axis=None)[(x.size - 1) // 2].reshape((1,) * x.ndim if keep else ())]
    along = axis if isinstance(axis, int) else axis[0]
    order = np.argsort(x, axis=along, kind="stable")
    index = np.take(order, [(x.shape[along] - 1) // 2], axis=along)
    value = np.take_along_axis(x, index, axis=along)
    return [value, index] if keep else [value.squeeze(along), index.squeeze(along)]


def _scan(ufunc: np.ufunc, start: int, inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    x = inputs[0]
    axis = attrs["axis"]
    if axis is None:
        x, axis = x.reshape(-1), 0
    dtype = accumulator(attrs.get("dtype"), x)
    out = ufunc.accumulate(x.astype(dtype, copy=False), axis=axis, dtype=dtype)
    if attrs.get("exclusive"):
        out = np.roll(out, 1, axis=axis)
        first = [slice(None)] * out.ndim
        first[axis] = slice(0, 1)
        out[tuple(first)] = start
    return out


@operator("cumsum")
def _cumsum(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return _scan(np.add, 0, inputs, attrs)


@operator("cumprod")
def _cumprod(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return _scan(np.multiply, 1, inputs, attrs)


def _order(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """Positions in order; equal elements keep theirs."""
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    backwards = np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    return x.shape[axis] - 1 - backwards


@operator("sort")
def _sort(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    x, axis = inputs[0], int(attrs["axis"])
    return np.take_along_axis(x, _order(widen(x), axis, bool(attrs["descending"])), axis=axis)


@operator("argsort")
def _argsort(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return _order(widen(inputs[0]), int(attrs["axis"]), bool(attrs["descending"]))


@operator("topk")
def _topk(inputs: Sequence[np.ndarray], attrs: Attrs) -> list[np.ndarray]:
    x, axis, k = inputs[0], int(attrs["axis"]), int(attrs["k"])
    order = _order(widen(x), axis, bool(attrs["largest"]))
    if k >= 1:
        order = np.take(order, np.arange(min(k, x.shape[axis])), axis=axis)
    values = np.take_along_axis(x, order, axis=axis)
    indices = order.astype(np_dtype(str(attrs["dtype"])))
    return {"both": [values, indices], "values": [values], "indices": [indices]}[str(attrs["ret_type"])]


@operator("collapse_sum_to", "collapse_sum_like")
def _collapse_sum(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """The adjoint of broadcasting: sums what broadcasting had repeated."""
    x = inputs[0]
    shape = tuple(attrs["shape"]) if "shape" in attrs else inputs[1].shape
    padded = (1,) * (x.ndim - len(shape)) + shape
    axes = tuple(a for a, (n, m) in enumerate(zip(x.shape, padded, strict=True)) if m == 1 and n != 1)
    return serial_sum(x, axes, True).reshape(shape)
