"""Max, average and adaptive average pooling over one to three spatial axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..dtypes import is_float, widen
from ._table import Attrs, operator
from .contraction import both_sides, spatial_axes, to_layout, windows
from .reductions import mean, serial_sum


def _pads(attrs: Attrs, sizes: Sequence[int]) -> list[tuple[int, int]]:
    """The padding of every spatial axis, as much behind as ``ceil_mode`` needs.

    A window that would start behind the tensor is left out, as in ONNX and PyTorch.
    """
    asked = both_sides(attrs["padding"], len(sizes))
    if not attrs.get("ceil_mode"):
        return asked
    pads = []
    for (before, after), n, k, s, d in zip(
        asked, sizes, attrs["pool_size"], attrs["strides"], attrs["dilation"], strict=True
    ):
        reach = d * (k - 1) + 1
        steps = math.ceil((n + before + after - reach) / s)
        if steps * s >= n + before:
            steps -= 1
        pads.append((before, max(0, steps * s + reach - n - before)))
    return pads


def _windows(x: np.ndarray, attrs: Attrs, fill: object) -> np.ndarray:
    pads = _pads(attrs, x.shape[2:])
    padded = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=fill)  # type: ignore[call-overload]
    return windows(padded, attrs["pool_size"], attrs["strides"], attrs["dilation"])


@operator("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d")
def _max_pool(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    layout = str(attrs["layout"])
    axes = spatial_axes(layout)
    x = to_layout(inputs[0], layout, "NC" + axes, "nn.max_pool")
    lowest = -np.inf if is_float(x.dtype) else np.iinfo(x.dtype).min
    view = _windows(x, attrs, lowest)
    out = np.maximum.reduce(view, axis=tuple(range(view.ndim - len(axes), view.ndim)))
    return to_layout(out, "NC" + axes, str(attrs["out_layout"] or layout), "nn.max_pool")


def _counted(attrs: Attrs, sizes: Sequence[int]) -> np.ndarray:
    """Windows [1, 1, *out, *kernel] with 1 where an average counts a point."""
    asked = both_sides(attrs["padding"], len(sizes))
    pads = _pads(attrs, sizes)
    marks = np.zeros([n + before + after for n, (before, after) in zip(sizes, pads, strict=True)], np.int64)
    include = bool(attrs.get("count_include_pad"))
    counted = tuple(
        slice(0, before + n + after) if include else slice(before, before + n)
        for n, (before, after) in zip(sizes, asked, strict=True)
    )
    marks[counted] = 1
    return windows(marks[None, None], attrs["pool_size"], attrs["strides"], attrs["dilation"])


@operator("nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d")
def _avg_pool(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """With ``count_include_pad`` a window counts its points in the padded tensor, else those in the tensor alone.

    What ``ceil_mode`` adds behind the padding never counts, as in PyTorch and ONNX (since opset 19).
    """
    layout = str(attrs["layout"])
    axes = spatial_axes(layout)
    x = to_layout(inputs[0], layout, "NC" + axes, "nn.avg_pool")
    taps = tuple(range(2 + len(axes), 2 + 2 * len(axes)))
    total = serial_sum(_windows(x, attrs, 0), taps, False)
    count = _counted(attrs, x.shape[2:]).sum(axis=taps)
    out = (widen(total) / np.maximum(count, 1).astype(widen(total).dtype)).astype(x.dtype)
    return to_layout(out, "NC" + axes, str(attrs["out_layout"] or layout), "nn.avg_pool")


@operator("nn.adaptive_avg_pool1d", "nn.adaptive_avg_pool2d", "nn.adaptive_avg_pool3d")
def _adaptive_avg_pool(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """Output i averages inputs from floor(i n / m) to ceil((i + 1) n / m), as PyTorch defines it."""
    layout = str(attrs["layout"])
    axes = spatial_axes(layout)
    x = to_layout(inputs[0], layout, "NC" + axes, "nn.adaptive_avg_pool")
    sizes = attrs["output_size"] or x.shape[2:]
    out = np.empty((*x.shape[:2], *sizes), x.dtype)
    for at in np.ndindex(*sizes):
        part = tuple(slice(i * n // m, -((-(i + 1) * n) // m)) for i, n, m in zip(at, x.shape[2:], sizes, strict=True))
        block = x[(slice(None), slice(None), *part)]
        out[(slice(None), slice(None), *at)] = mean(block, tuple(range(2, x.ndim)), False)
    return to_layout(out, "NC" + axes, str(attrs["out_layout"] or layout), "nn.adaptive_avg_pool")
