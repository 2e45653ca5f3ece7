"""Operators that make a tensor from sizes alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..dtypes import np_dtype
from ._table import Attrs, operator


def _made_dtype(attrs: Attrs, like: np.ndarray | None = None) -> np.dtype:
    name = attrs.get("dtype")
    if name in (None, "void", "None"):
        return np.dtype(np.float64) if like is None else like.dtype
    return np_dtype(str(name))


@operator("full")
def _full(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return np.broadcast_to(inputs[0], attrs["shape"])


@operator("full_like")
def _full_like(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return np.broadcast_to(inputs[1], inputs[0].shape)


@operator("zeros")
def _zeros(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return np.zeros(attrs["shape"], _made_dtype(attrs))


@operator("ones")
def _ones(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return np.ones(attrs["shape"], _made_dtype(attrs))


@operator("zeros_like")
def _zeros_like(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return np.zeros(inputs[0].shape, _made_dtype(attrs, inputs[0]))


@operator("ones_like")
def _ones_like(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return np.ones(inputs[0].shape, _made_dtype(attrs, inputs[0]))


@operator("eye")
def _eye(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return np.eye(int(attrs["n"]), int(attrs["m"]), int(attrs["k"]), dtype=_made_dtype(attrs))


@operator("eye_like")
def _eye_like(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    rows, columns = inputs[0].shape
    return np.eye(rows, columns, int(attrs["k"]), dtype=_made_dtype(attrs, inputs[0]))


@operator("arange")
def _arange(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """start + i * step, in float64 or int64 before it is rounded to the output's dtype."""
    start, end, step = attrs["start"], attrs["end"], attrs["step"]
    count = max(0, int(np.ceil((end - start) / step)))
    return start + np.arange(count) * step


@operator("hamming_window")
def _hamming_window(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """alpha - beta cos(2 pi n / (size - 1)); periodic: the first ``size`` of a window of ``size`` + 1."""
    size, periodic, alpha, beta = (attrs[f"arg{i}"] for i in range(4))
    length = int(size) + (1 if periodic else 0)
    if length == 1:
        return np.ones(1)
    return (alpha - beta * np.cos(2 * np.pi * np.arange(length) / (length - 1)))[: int(size)]


@operator("meshgrid")
def _meshgrid(inputs: Sequence[np.ndarray], attrs: Attrs) -> list[np.ndarray]:
    return list(np.meshgrid(*inputs, indexing="xy" if attrs.get("indexing") == "xy" else "ij"))


@operator("triu")
def _triu(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return np.triu(inputs[0], int(attrs["k"]))


@operator("tril")
def _tril(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return np.tril(inputs[0], int(attrs["k"]))
