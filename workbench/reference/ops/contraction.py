"""Sums of products: matmul, einsum, convolutions.

float64 and float32 go through BLAS. Narrow floats are summed in their own dtype, a few terms at a time, since that is
what a kernel with a narrow accumulator may do (see ``narrow_matmul``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...errors import UnsupportedOperator
from ..dtypes import accumulator, is_narrow_float
from ._table import Attrs, operator

# Roundings that one narrow product may cost, in elements: a second or two in float16.
_ROUNDINGS = 1 << 27


def narrow_matmul(a: np.ndarray, b: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """a [..., m, k] @ b [..., k, n], the running sum rounded to ``dtype`` after every ``step`` terms.

    ``step`` is 1 where that is affordable.
    """
    wide_a, wide_b = a.astype(np.float32), b.astype(np.float32)
    depth = a.shape[-1]
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    size = math.prod((*batch, a.shape[-2], b.shape[-1]))
    step = max(1, math.ceil(size * depth / _ROUNDINGS))
    total = np.zeros((*batch, a.shape[-2], b.shape[-1]), dtype)
    for k in range(0, depth, step):
        partial = wide_a[..., k : k + step] @ wide_b[..., k : k + step, :]
        total = (total.astype(np.float32) + partial).astype(dtype)
    return total


def product(a: np.ndarray, b: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """``np.matmul`` with sums in ``dtype``; integers wrap."""
    if is_narrow_float(dtype) and a.ndim > 1 and b.ndim > 1:
        return narrow_matmul(a, b, dtype)
    wide = np.dtype(np.float32) if is_narrow_float(dtype) else dtype
    if wide.kind in "iu" and wide.itemsize < 8:
        return _integer_product(a, b).astype(wide)
    return np.matmul(a.astype(wide, copy=False), b.astype(wide, copy=False))


def _integer_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Exact through float64's BLAS while sums stay below 2**53, else by NumPy's integer loop."""
    depth = a.shape[-1]
    bound = (
        max(depth, 1)
        * float(np.abs(a.astype(np.float64)).max(initial=0))
        * float(np.abs(b.astype(np.float64)).max(initial=0))
    )
    if bound < 2.0**53:
        return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)
    return np.matmul(a.astype(np.int64), b.astype(np.int64))


@operator("matmul")
def _matmul(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    a, b = inputs
    return product(a, b, accumulator(attrs.get("out_dtype"), a))


@operator("outer")
def _outer(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return np.multiply.outer(inputs[0], inputs[1])


@operator("einsum")
def _einsum(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return np.einsum(str(attrs["subscripts"]), *inputs, optimize=True)


def spatial_axes(layout: str) -> str:
    """The spatial letters of a layout, in its order: ``HW`` of ``NHWC``."""
    return "".join(letter for letter in layout if letter in "DHW")


def to_layout(x: np.ndarray, source: str, wanted: str, name: str) -> np.ndarray:
    """A view of ``x`` in another order of axes. Raises UnsupportedOperator for a blocked layout."""
    if sorted(source) != sorted(wanted):
        raise UnsupportedOperator(name, f"layout {source}", "reference")
    return x.transpose([source.index(letter) for letter in wanted])


def both_sides(padding: Sequence[int], rank: int) -> list[tuple[int, int]]:
    """Relax's padding (one number, one an axis, or all begins and then all ends) as pairs."""
    values = [int(p) for p in padding]
    if len(values) == 1:
        values *= 2 * rank
    elif len(values) == rank:
        values *= 2
    return [(values[i], values[i + rank]) for i in range(rank)]


def windows(x: np.ndarray, kernel: Sequence[int], strides: Sequence[int], dilation: Sequence[int]) -> np.ndarray:
    """x [n, c, *in] as a view [n, c, *out, *kernel]."""
    rank = len(kernel)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    view = np.lib.stride_tricks.sliding_window_view(x, reach, axis=tuple(range(2, 2 + rank)))
    steps = tuple(slice(None, None, s) for s in strides)
    taps = tuple(slice(None, None, d) for d in dilation)
    return view[(slice(None), slice(None), *steps, *taps)]


def convolve(
    x: np.ndarray,
    w: np.ndarray,
    strides: Sequence[int],
    padding: list[tuple[int, int]],
    dilation: Sequence[int],
    groups: int,
    dtype: np.dtype,
) -> np.ndarray:
    """x [n, c, *in], w [o, c / groups, *kernel] -> [n, o, *out]: one matrix product a group and image."""
    kernel = w.shape[2:]
    rank = len(kernel)
    padded = np.pad(x, [(0, 0), (0, 0), *padding])
    view = windows(padded, kernel, strides, dilation)
    n, channels = view.shape[:2]
    out_shape = view.shape[2 : 2 + rank]
    depth = channels // groups * math.prod(kernel)
    weights = w.reshape(groups, w.shape[0] // groups, depth)
    result = np.empty((n, w.shape[0], *out_shape), dtype)
    taps_first = (0, *range(1 + rank, 1 + 2 * rank), *range(1, 1 + rank))
    for image in range(n):
        columns = view[image].transpose(taps_first).reshape(groups, depth, math.prod(out_shape))
        result[image] = product(weights, columns, dtype).reshape(w.shape[0], *out_shape)
    return result


@operator("nn.conv1d", "nn.conv2d", "nn.conv3d")
def _conv(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    data_layout, kernel_layout = str(attrs["data_layout"]), str(attrs["kernel_layout"])
    axes = spatial_axes(data_layout)
    x = to_layout(inputs[0], data_layout, "NC" + axes, "nn.conv")
    w = to_layout(inputs[1], kernel_layout, "OI" + axes, "nn.conv")
    out = convolve(
        x,
        w,
        attrs["strides"],
        both_sides(attrs["padding"], len(axes)),
        attrs["dilation"],
        int(attrs["groups"]),
        accumulator(attrs.get("out_dtype"), x),
    )
    return to_layout(out, "NC" + axes, str(attrs["out_layout"] or data_layout), "nn.conv")


@operator("nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose")
def _conv_transpose(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """The adjoint of a convolution: zeros between the inputs, then a convolution with the flipped kernel."""
    data_layout, kernel_layout = str(attrs["data_layout"]), str(attrs["kernel_layout"])
    axes = spatial_axes(data_layout)
    rank, groups = len(axes), int(attrs["groups"])
    x = to_layout(inputs[0], data_layout, "NC" + axes, "nn.conv_transpose")
    w = to_layout(inputs[1], kernel_layout, "IO" + axes, "nn.conv_transpose")
    strides, dilation = attrs["strides"], attrs["dilation"]
    spread = np.zeros((*x.shape[:2], *((n - 1) * s + 1 for n, s in zip(x.shape[2:], strides, strict=True))), x.dtype)
    spread[(slice(None), slice(None), *(slice(None, None, s) for s in strides))] = x
    pads = [
        (d * (k - 1) - before, d * (k - 1) - after + extra)
        for (before, after), k, d, extra in zip(
            both_sides(attrs["padding"], rank), w.shape[2:], dilation, attrs["output_padding"], strict=True
        )
    ]
    spread, pads = _crop(spread, pads)
    flipped = np.flip(w, tuple(range(2, 2 + rank)))
    split = flipped.reshape(groups, w.shape[0] // groups, *w.shape[1:]).swapaxes(1, 2)
    kernel = split.reshape(groups * w.shape[1], w.shape[0] // groups, *w.shape[2:])
    out = convolve(spread, kernel, [1] * rank, pads, dilation, groups, accumulator(attrs.get("out_dtype"), x))
    return to_layout(out, "NC" + axes, str(attrs["out_layout"] or data_layout), "nn.conv_transpose")


def _crop(x: np.ndarray, pads: list[tuple[int, int]]) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """Negative padding is cut off."""
    cuts = [slice(max(0, -before), n - max(0, -after)) for (before, after), n in zip(pads, x.shape[2:], strict=True)]
    return x[(slice(None), slice(None), *cuts)], [(max(0, before), max(0, after)) for before, after in pads]
