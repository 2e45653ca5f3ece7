"""Operators whose addresses come from data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..dtypes import is_float
from ._table import Attrs, operator


@operator("take")
def _take(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """``mode``: ``fast`` trusts the indices (negative ones count from the end), ``clip``, ``wrap``, or ``nan``."""
    x, indices = inputs[0], inputs[1].astype(np.int64)
    axis = attrs["axis"]
    if axis is None:
        x, axis = x.reshape(-1), 0
    n, mode = x.shape[axis], str(attrs.get("mode", "fast"))
    if mode == "clip":
        return np.take(x, np.clip(indices, 0, n - 1), axis=axis)
    if mode == "wrap":
        return np.take(x, indices % n, axis=axis)
    if mode == "nan" and is_float(x.dtype):
        inside = (indices >= -n) & (indices < n)
        taken = np.take(x, np.where(inside, indices, 0), axis=axis)
        place = [1] * taken.ndim
        start = axis % x.ndim
        place[start : start + indices.ndim] = indices.shape
        return np.where(inside.reshape(place), taken, x.dtype.type(np.nan))
    return np.take(x, indices, axis=axis)


@operator("gather_elements")
def _gather_elements(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """ONNX GatherElements: the other axes of the indices may be shorter than the data's."""
    x, indices = inputs
    axis = int(attrs["axis"]) % x.ndim
    place: list[np.ndarray] = list(np.indices(indices.shape, sparse=True))
    place[axis] = np.where(indices < 0, indices + x.shape[axis], indices)
    return x[tuple(place)]


@operator("gather_nd")
def _gather_nd(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """ONNX GatherND: the last axis of the indices holds an address."""
    x, indices = inputs
    batch = int(attrs.get("batch_dims", 0))
    depth = indices.shape[-1]
    place: list[np.ndarray] = []
    for axis in range(batch):
        shape = [1] * (indices.ndim - 1)
        shape[axis] = x.shape[axis]
        place.append(np.arange(x.shape[axis]).reshape(shape))
    return x[(*place, *(indices[..., i] for i in range(depth)))]


@operator("index_tensor")
def _index_tensor(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return inputs[0][tuple(inputs[1:])]


@operator("index_put")
def _index_put(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    out, places, values = inputs[0].copy(), tuple(inputs[1:-1]), inputs[-1]
    if attrs.get("accumulate"):
        np.add.at(out, places, values)
    else:
        out[places] = values
    return out


_COMBINE = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _combine(out: np.ndarray, place: tuple[np.ndarray, ...], updates: np.ndarray, reduction: str) -> np.ndarray:
    if reduction == "update":
        out[place] = updates
    elif reduction == "mean":
        total, count = out.copy(), np.ones(out.shape, out.dtype)
        np.add.at(total, place, updates)
        np.add.at(count, place, np.ones_like(updates))
        return total / count
    else:
        _COMBINE[reduction].at(out, place, updates)
    return out


@operator("scatter_elements")
def _scatter_elements(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    x, indices, updates = inputs
    axis = int(attrs["axis"]) % x.ndim
    place = list(np.broadcast_arrays(*np.indices(indices.shape, sparse=True)))
    place[axis] = np.where(indices < 0, indices + x.shape[axis], indices)
    return _combine(x.copy(), tuple(place), updates, str(attrs["reduction"]))


@operator("scatter_nd")
def _scatter_nd(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    x, indices, updates = inputs
    place = tuple(indices[..., i] for i in range(indices.shape[-1]))
    return _combine(x.copy(), place, updates, str(attrs["reduction"]))


@operator("one_hot")
def _one_hot(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """The new axis is ``axis``; an index outside [0, depth) gives a row of ``off_value``."""
    indices, depth = inputs[0], int(attrs["depth"])
    axis = int(attrs["axis"]) % (indices.ndim + 1)
    shape = [1] * (indices.ndim + 1)
    shape[axis] = depth
    hit = np.expand_dims(indices, axis) == np.arange(depth).reshape(shape)
    return np.where(hit, np.asarray(attrs["on_value"]), np.asarray(attrs["off_value"]))


@operator("bucketize")
def _bucketize(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    x, boundaries = inputs
    return np.asarray(np.searchsorted(boundaries, x, side="right" if attrs.get("right") else "left"))
