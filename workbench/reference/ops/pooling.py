"""Max, average and adaptive average pooling over one to three spatial axes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..dtypes import is_float, widen
from ._table import Attrs, operator
from .contraction import both_sides, spatial_axes, to_layout, windows
from .reductions import mean, serial_sum


def _pads(attrs: Attrs, sizes: Sequence[int]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The padding that was asked for, and that plus what ``ceil_mode`` adds behind."""
    rank = len(sizes)
    asked = both_sides(attrs["padding"], rank)
    if not attrs.get("ceil_mode"):
        return asked, asked
    grown = []
    for (before, after), n, k, s, d in zip(
        asked, sizes, attrs["pool_size"], attrs["strides"], attrs["dilation"], strict=True
    ):
        reach = d * (k - 1) + 1
        steps = math.ceil((n + before + after - reach) / s)
        grown.append((before, after + max(0, steps * s + reach - (n + before + after))))
    return asked, grown


def _windows(x: np.ndarray, attrs: Attrs, fill: object) -> np.ndarray:
    _, pads = _pads(attrs, x.shape[2:])
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


@operator("nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d")
def _avg_pool(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """With ``count_include_pad`` a window counts all its points, else those inside the tensor."""
    layout = str(attrs["layout"])
    axes = spatial_axes(layout)
    x = to_layout(inputs[0], layout, "NC" + axes, "nn.avg_pool")
    taps = tuple(range(2 + len(axes), 2 + 2 * len(axes)))
    total = serial_sum(_windows(x, attrs, 0), taps, False)
    if attrs.get("count_include_pad"):
        count: np.ndarray = np.asarray(math.prod(attrs["pool_size"]))
    else:
        inside = np.ones((1, 1, *x.shape[2:]), np.int64)
        count = np.maximum(_windows(inside, attrs, 0).sum(axis=taps), 1)
    out = (widen(total) / count.astype(widen(total).dtype)).astype(x.dtype)
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
