"""A sum of products of two arrays over shared axes, as one batched matrix product."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .ops.contraction import product
from .ops.reductions import serial_sum


def contract(a: np.ndarray, b: np.ndarray, reduced: Sequence[int], shape: tuple[int, ...]) -> np.ndarray:
    """sum over the ``reduced`` axes of a * b.

    ``a`` and ``b`` have one axis a loop of the domain ``shape``, 1 where they do not depend on it. The result keeps
    all axes, the reduced ones as 1; its dtype is theirs.
    """
    dtype = np.result_type(a, b)
    scale = 1
    for axis in reduced:
        if shape[axis] == 1:
            continue
        if a.shape[axis] == 1 and b.shape[axis] == 1:
            scale *= shape[axis]
        elif a.shape[axis] == 1:
            b = serial_sum(b, (axis,), True)
        elif b.shape[axis] == 1:
            a = serial_sum(a, (axis,), True)
    axes = range(len(shape))
    inner = [i for i in axes if i in reduced and a.shape[i] > 1 and b.shape[i] > 1]
    batch = [i for i in axes if i not in reduced and a.shape[i] > 1 and b.shape[i] > 1]
    rows = [i for i in axes if i not in reduced and a.shape[i] > 1 and b.shape[i] == 1]
    columns = [i for i in axes if i not in reduced and a.shape[i] == 1 and b.shape[i] > 1]
    left = _matrix(a, batch, rows, inner)
    right = _matrix(b, batch, inner, columns)
    out = product(left, right, dtype)
    order = [*batch, *rows, *columns]
    spread = out.reshape([max(a.shape[i], b.shape[i]) for i in order])
    full = spread.transpose(np.argsort(order)) if order else spread
    result = full.reshape([max(a.shape[i], b.shape[i]) if i in order else 1 for i in axes])
    return result if scale == 1 else result * dtype.type(scale)


def _matrix(x: np.ndarray, *groups: list[int]) -> np.ndarray:
    """[batch, rows, columns] of an array, by the axes of each."""
    kept = [i for group in groups for i in group]
    squeezed = x.transpose([*kept, *(i for i in range(x.ndim) if i not in kept)])
    return squeezed.reshape([math.prod(x.shape[i] for i in group) for group in groups])
