"""Operators that only move data."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ._table import Attrs, axes_of, operator


@operator("reshape")
def _reshape(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return inputs[0].reshape(attrs["shape"])


@operator("flatten")
def _flatten(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return inputs[0].reshape(-1)


@operator("permute_dims")
def _permute_dims(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return np.transpose(inputs[0], attrs["axes"])


@operator("concat")
def _concat(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return np.concatenate(inputs, axis=attrs["axis"])


@operator("stack")
def _stack(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return np.stack(inputs, axis=int(attrs["axis"]))


@operator("split")
def _split(inputs: Sequence[np.ndarray], attrs: Attrs) -> list[np.ndarray]:
    """Sections that do not divide the axis are of ceil(n / sections), the last one shorter."""
    x, axis, cuts = inputs[0], int(attrs["axis"]), attrs["indices_or_sections"]
    if isinstance(cuts, int):
        part = math.ceil(x.shape[axis] / cuts)
        cuts = [part * i for i in range(1, cuts)]
    return np.split(x, list(cuts), axis=axis)


@operator("expand_dims")
def _expand_dims(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    axis = attrs["axis"]
    return np.expand_dims(inputs[0], axis if isinstance(axis, int) else tuple(axis))


@operator("squeeze")
def _squeeze(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    axis = attrs["axis"]
    return np.squeeze(inputs[0], axis if axis is None or isinstance(axis, int) else tuple(axis))


@operator("broadcast_to")
def _broadcast_to(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return np.broadcast_to(inputs[0], attrs["shape"])


@operator("repeat")
def _repeat(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return np.repeat(inputs[0], int(attrs["repeats"]), axis=attrs["axis"])


@operator("tile")
def _tile(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return np.tile(inputs[0], attrs["repeats"])


@operator("flip")
def _flip(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return np.flip(inputs[0], attrs["axis"])


@operator("strided_slice")
def _strided_slice(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """NumPy's slicing, bounds beyond the ends and negative steps included."""
    x = inputs[0]
    begins, ends = attrs["begin"], attrs["end"]
    steps = attrs.get("strides") or (1,) * len(begins)
    parts = [slice(None)] * x.ndim
    for axis, begin, end, step in zip(axes_of(attrs["axes"], x.ndim), begins, ends, steps, strict=True):
        stop = None if step < 0 and end < -x.shape[axis] else end
        parts[axis] = slice(begin, stop, step)
    return x[tuple(parts)]


@operator("nn.pad")
def _pad(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """``pad_width`` holds (before, after) of every axis in turn."""
    x, widths = inputs[0], list(attrs["pad_width"])
    pairs = list(zip(widths[::2], widths[1::2], strict=True))
    mode = str(attrs["pad_mode"])
    if mode == "constant":
        value = inputs[1].astype(x.dtype) if len(inputs) > 1 else x.dtype.type(attrs["pad_value"])
        out = np.full([n + a + b for n, (a, b) in zip(x.shape, pairs, strict=True)], value, x.dtype)
        out[tuple(slice(a, a + n) for n, (a, _) in zip(x.shape, pairs, strict=True))] = x
        return out
    if mode == "reflect":
        return np.pad(x, pairs, mode="reflect")
    return np.pad(x, pairs, mode="wrap") if mode == "circular" else np.pad(x, pairs, mode="edge")


@operator("layout_transform")
def _layout_transform(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """Moves every element to where the index map sends it; what nothing is sent to holds ``pad_value``."""
    from ..index_map import targets

    x = inputs[0]
    shape, index = targets(attrs["index_map"], x.shape)
    fill = attrs.get("pad_value")
    out = np.full(shape, 0 if fill is None else fill, x.dtype)
    out[index] = x
    return out


@operator("slice_scatter")
def _slice_scatter(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    out = inputs[0].copy()
    parts = [slice(None)] * out.ndim
    parts[int(attrs["axis"])] = slice(attrs["arg2"], attrs["arg3"], attrs["arg4"])
    out[tuple(parts)] = inputs[1]
    return out


@operator("reverse_sequence")
def _reverse_sequence(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """The first ``seq_lengths[b]`` positions of every batch item in reverse order."""
    x, lengths = inputs
    time, batch = int(attrs["seq_axis"]) % x.ndim, int(attrs["batch_axis"]) % x.ndim
    position = np.arange(x.shape[time])
    index = np.where(position[None, :] < lengths[:, None], lengths[:, None] - 1 - position[None, :], position[None, :])
    shape = [1] * x.ndim
    shape[time], shape[batch] = x.shape[time], x.shape[batch]
    if batch > time:
        index = index.T
    return np.take_along_axis(x, index.reshape(shape), axis=time)
