"""Is a result right? Its error against float64, measured by the error that NumPy makes in the same dtypes.

Imports NumPy alone, so that a measuring process can use it.

What is allowed
    Let ``e`` be the result's error against the float64 reference and ``n`` that of the native evaluation (the same
    program, NumPy, the model's own dtypes at every step). Errors grow with the length of sums and with cancellation;
    both are in ``n``, so ``e`` is held against ``n`` and not against a fixed tolerance. The error of one element is one
    draw from a distribution, so ``n`` is pooled: the largest native error among at least 256 neighbouring elements
    (whole trailing axes), which for a group of independent rounding errors lies near 3 standard deviations. An element
    is wrong when

        e > max(min(factor * pooled n, max(3 * pooled n, rms / 8)), FLOOR * eps * scale)

    The factor of 16 covers a maximum over many more elements than the pool's (5 against 3 standard deviations),
    summation in another order (native sums are made term by term, the worst of the usual orders: Higham 2002,
    chapter 4; BLAS blocks cost at most a small factor), and elementary functions of 2 to 6 units in the last place
    instead of half of one. Narrow floats have 8: their elementary functions are computed in float32. Where the native
    error is no longer small against the pool's root mean square ``rms`` (long bfloat16 sums), 3 must do, lest any
    result passes. FLOOR = 8 with ``eps`` the distance from 1 to the next number of the output's dtype and ``scale`` the
    larger of the element and ``rms``: room for a kernel that multiplies by a reciprocal where NumPy divides exactly.
    A pool of few elements may be lucky, so below 64 elements the factor is multiplied by 64 / size, for as long as the
    allowed error stays under 1/64 of the scale. The reference is no better than a float64 result of a float64
    program: the floor of a float64 output is 1e-10 of the scale.

NaN and infinities
    They must be where the native evaluation has them, signs included: a float16 product that overflows is right when
    it is infinite, although float64 has a number there. Within rounding of the largest number either is accepted.

Integers and bools
    Must equal the native evaluation, which wraps as the model's dtypes do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from .dtypes import is_float

FACTOR = 16.0
NARROW_FACTOR = 8.0
FLOOR = 8.0
POOL = 256
SMALL_POOL = 64
DOUBLE_FLOOR = 1e-10


@dataclass(frozen=True)
class Comparison:
    """Whether a result is right, and how far off it is.

    ``max_rel_error`` is relative to the larger of the element and the output's root mean square. ``error_ratio`` is
    the largest error over allowed error: at most 1 for a correct result, infinite for wrong NaN, shapes or integers.
    ``message`` is empty for a correct result, else one line that names the first wrong element.
    """

    correct: bool
    max_abs_error: float
    max_rel_error: float
    error_ratio: float
    message: str = ""


def compare(actual: np.ndarray, reference64: np.ndarray, native: np.ndarray) -> Comparison:
    """Judges one array; ``reference64`` and ``native`` come from the same program and inputs."""
    actual, reference64, native = np.asarray(actual), np.asarray(reference64), np.asarray(native)
    if actual.shape != native.shape:
        return _wrong(f"shape {list(actual.shape)} instead of {list(native.shape)}")
    if actual.dtype != native.dtype:
        return _wrong(f"dtype {actual.dtype} instead of {native.dtype}")
    if actual.size == 0:
        return Comparison(True, 0.0, 0.0, 0.0)
    if not is_float(native.dtype):
        return _compare_exact(actual, native)
    return _compare_float(actual, reference64, native)


def compare_all(
    actual: Sequence[np.ndarray], reference64: Sequence[np.ndarray], native: Sequence[np.ndarray]
) -> Comparison:
    """Judges several outputs; errors are the largest of all, the message is the first wrong output's."""
    if len(actual) != len(native):
        return _wrong(f"{len(actual)} outputs instead of {len(native)}")
    parts = [compare(*arrays) for arrays in zip(actual, reference64, native, strict=True)]
    if not parts:
        return Comparison(True, 0.0, 0.0, 0.0)
    wrong = next(((i, part) for i, part in enumerate(parts) if not part.correct), None)
    return Comparison(
        wrong is None,
        max(part.max_abs_error for part in parts),
        max(part.max_rel_error for part in parts),
        max(part.error_ratio for part in parts),
        "" if wrong is None else (f"output {wrong[0]}: " if len(parts) > 1 else "") + wrong[1].message,
    )


def _wrong(message: str, max_abs: float = math.inf, max_rel: float = math.inf) -> Comparison:
    return Comparison(False, max_abs, max_rel, math.inf, message)


def _first(mask: np.ndarray) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(mask)), mask.shape))


def _compare_exact(actual: np.ndarray, native: np.ndarray) -> Comparison:
    differs = actual != native
    if not differs.any():
        return Comparison(True, 0.0, 0.0, 0.0)
    at = _first(differs)
    distance = np.abs(actual.astype(np.float64) - native.astype(np.float64))
    message = f"{int(differs.sum())} of {differs.size} {native.dtype} elements differ, first at {list(at)}: "
    scale = np.maximum(np.abs(native.astype(np.float64)), 1.0)
    return _wrong(
        message + f"{actual[at]} instead of {native[at]}", float(distance.max()), float((distance / scale).max())
    )


def _compare_float(actual: np.ndarray, reference64: np.ndarray, native: np.ndarray) -> Comparison:
    info = ml_dtypes.finfo(native.dtype)
    got, reference, plain = (a.astype(np.float64) for a in (actual, reference64, native))
    with np.errstate(all="ignore"):
        special = ~np.isfinite(plain)
        misplaced = _misplaced(got, plain, float(info.max))
        usable = np.isfinite(got) & np.isfinite(reference) & ~special
        error = np.where(usable, np.abs(got - reference), 0.0)
        noise = np.where(usable, np.abs(plain - reference), 0.0)
        magnitude = np.where(usable, np.abs(reference), 0.0)
        allowed = _allowed(noise, magnitude, usable, info)
        ratio = np.where(usable, error / allowed, 0.0)
    rms = float(_rms(magnitude.reshape(1, -1))[0, 0])
    max_abs = float(error.max())
    max_rel = float((error / np.maximum(magnitude, rms)).max()) if rms > 0 else 0.0
    if misplaced.any():
        at = _first(misplaced)
        message = f"{int(misplaced.sum())} of {misplaced.size} elements have NaN or infinity misplaced, first at "
        return _wrong(message + f"{list(at)}: {actual[at]} instead of {native[at]}", max_abs, max_rel)
    worst = float(ratio.max())
    if worst <= 1:
        return Comparison(True, max_abs, max_rel, worst)
    at = tuple(int(i) for i in np.unravel_index(int(np.argmax(ratio)), ratio.shape))
    message = (
        f"{int((ratio > 1).sum())} of {ratio.size} elements are off, worst at {list(at)}: {actual[at]} instead of "
        f"{reference[at]:.9g}, error {error[at]:.3g} where {allowed[at]:.3g} is allowed"
    )
    return Comparison(False, max_abs, max_rel, worst, message)


def _misplaced(got: np.ndarray, plain: np.ndarray, largest: float) -> np.ndarray:
    """Where NaN or an infinity is in one and not in the other; an overflow within 1 % of the limit is no difference."""
    nan = np.isnan(got) != np.isnan(plain)
    both = ~np.isnan(got) & ~np.isnan(plain)
    infinite = both & (np.isinf(got) | np.isinf(plain)) & (got != plain)
    near = (np.sign(got) == np.sign(plain)) & (np.minimum(np.abs(got), np.abs(plain)) >= 0.99 * largest)
    return nan | (infinite & ~near)


def _rms(x: np.ndarray) -> np.ndarray:
    """Root mean square of every row, kept as a column; safe from overflow."""
    top = x.max(axis=1, keepdims=True)
    return top * np.sqrt(np.mean((x / np.where(top > 0, top, 1.0)) ** 2, axis=1, keepdims=True))


def _allowed(noise: np.ndarray, magnitude: np.ndarray, usable: np.ndarray, info: Any) -> np.ndarray:
    """The allowed error of every element (see the module's docstring)."""
    size = _pool_size(noise.shape)
    count = np.maximum(usable.reshape(-1, size).sum(axis=1, keepdims=True), 1)
    pooled = noise.reshape(-1, size).max(axis=1, keepdims=True)
    rows = magnitude.reshape(-1, size)
    rms = _rms(rows)
    scale = np.maximum(rows, rms)
    boost = np.maximum(1.0, SMALL_POOL / count)
    factor = NARROW_FACTOR if info.bits < 32 else FACTOR
    usual = np.minimum(factor * pooled, np.maximum(3 * pooled, rms / 8))
    grown = np.minimum(factor * boost * pooled, scale / 64)
    relative = DOUBLE_FLOOR if info.dtype == np.float64 else FLOOR * float(info.eps)
    floor = np.maximum(relative * scale, 4 * float(info.tiny))  # results below may be flushed to zero
    return np.maximum(np.maximum(usual, grown), floor).reshape(noise.shape)


def _pool_size(shape: tuple[int, ...]) -> int:
    """Elements of as many trailing axes as make a pool; all of them in a small array."""
    size = 1
    for n in reversed(shape):
        size *= n
        if size >= POOL:
            return size
    return max(1, size)
