"""Image resizing (``image.resize2d``) by nearest neighbour or linear interpolation, as ONNX Resize defines them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...errors import UnsupportedOperator
from ..dtypes import widen
from ._table import Attrs, operator
from .contraction import to_layout

_ROUNDING: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round": lambda x: np.floor(x + 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
}


def _source(mode: str, n: int, m: int) -> np.ndarray:
    """Where each of ``m`` outputs lies among ``n`` inputs."""
    out = np.arange(m, dtype=np.float64)
    if mode == "align_corners":
        return out * ((n - 1) / (m - 1)) if m > 1 else out * 0
    if mode == "asymmetric":
        return out * (n / m)
    if mode == "pytorch_half_pixel" and m == 1:
        return out * 0
    if mode in ("half_pixel", "pytorch_half_pixel"):
        return (out + 0.5) * (n / m) - 0.5
    raise UnsupportedOperator("image.resize2d", f"coordinates {mode}", "reference")


def _nearest(x: np.ndarray, axis: int, m: int, attrs: Attrs) -> np.ndarray:
    mode = str(attrs["coordinate_transformation_mode"])
    rounding = str(attrs["rounding_method"]) or ("floor" if mode == "asymmetric" else "round")
    if rounding not in _ROUNDING:
        raise UnsupportedOperator("image.resize2d", f"rounding {rounding}", "reference")
    index = _ROUNDING[rounding](_source(mode, x.shape[axis], m)).astype(np.int64)
    return np.take(x, np.clip(index, 0, x.shape[axis] - 1), axis=axis)


def _linear(x: np.ndarray, axis: int, m: int, attrs: Attrs) -> np.ndarray:
    n = x.shape[axis]
    at = _source(str(attrs["coordinate_transformation_mode"]), n, m)
    low = np.floor(at)
    shape = [1] * x.ndim
    shape[axis] = m
    weight = (at - low).reshape(shape).astype(x.dtype)
    first = np.take(x, np.clip(low, 0, n - 1).astype(np.int64), axis=axis)
    second = np.take(x, np.clip(low + 1, 0, n - 1).astype(np.int64), axis=axis)
    return first * (1 - weight) + second * weight


@operator("image.resize2d")
def _resize2d(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    methods = {"nearest_neighbor": _nearest, "linear": _linear}
    method, layout = str(attrs["method"]), str(attrs["layout"])
    if method not in methods:
        raise UnsupportedOperator("image.resize2d", f"method {method}", "reference")
    x = widen(to_layout(inputs[0], layout, "NCHW", "image.resize2d"))
    for axis, m in zip((2, 3), attrs["size"], strict=True):
        x = methods[method](x, axis, int(m), attrs)
    return to_layout(x, "NCHW", layout, "image.resize2d")
