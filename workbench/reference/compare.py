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
    A pool of few elements may be lucky, so below 64 elements (exact zeros, such as a ReLU's, do not count) the factor
    is multiplied by 64 / count, for as long as the allowed error stays under 1/64 of the scale. So may be a pool with
    one error behind all its elements, as a row that is divided by its own sum: no pool's ``n`` counts for less, against
    its ``rms``, than that of the median pool. The reference is no better than a float64 result of a float64 program:
    the floor of a float64 output is 1e-10 of the scale.

NaN and infinities
    They must be where the native evaluation has them, signs included: a float16 product that overflows is right when
    it is infinite, although float64 has a number there. That number is right too: a processor's multiply-add does not
    round the product. Within rounding of the largest number either is accepted.

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
_SAMPLED = 64  # pools behind the typical noise
_BLOCK = 1 << 16  # elements judged at a time, so that temporaries stay in a core's cache


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


def noise_spread(reference64: np.ndarray, native: np.ndarray) -> tuple[float, float]:
    """(largest, largest over median) of the pools' native errors, each relative to its pool's root mean square.

    A large second number says that the condition of the problem differs between pools, as in ``x / sum(x)`` where the
    sums of some rows cancel. One error is then behind a whole pool, which the pool's size hides.
    """
    if not is_float(native.dtype) or not native.size:
        return 0.0, 1.0
    size = _pool_size(native.shape)
    relative = _relative_noise(reference64.reshape(-1, size), native.reshape(-1, size))
    if not relative.size:
        return 0.0, 1.0
    return float(relative.max()), float(relative.max() / np.median(relative))


def _relative_noise(reference64: np.ndarray, native: np.ndarray) -> np.ndarray:
    """Largest native error of every pool, one a row, over its root mean square; without pools that have no error."""
    reference, plain = np.asarray(reference64, np.float64), np.asarray(native, np.float64)
    with np.errstate(all="ignore"):
        usable = np.isfinite(reference) & np.isfinite(plain)
        noise = np.where(usable, np.abs(plain - reference), 0.0).max(axis=1)
        relative = noise / _rms(np.where(usable, np.abs(reference), 0.0))[:, 0]
    return relative[np.isfinite(relative) & (relative > 0)]


def _typical_noise(reference64: np.ndarray, native: np.ndarray) -> float:
    """Median of the pools' relative native errors, from evenly spaced pools; 0 where fewer than half have any."""
    step = max(1, math.ceil(len(native) / _SAMPLED))
    relative = _relative_noise(reference64[::step], native[::step])
    return float(np.median(relative)) if 2 * relative.size >= len(native[::step]) else 0.0


@dataclass(frozen=True)
class _Output:
    """What is known of a whole output; ``typical_noise`` is the median pool's native error over its ``rms``."""

    info: Any
    rms: float
    typical_noise: float


@dataclass
class _Tally:
    """What was found so far; positions are flat."""

    max_abs: float = 0.0
    max_rel: float = 0.0
    worst: float = 0.0
    worst_at: int = 0
    allowed: float = 0.0
    off: int = 0
    misplaced: int = 0
    misplaced_at: int = 0


def _compare_float(actual: np.ndarray, reference64: np.ndarray, native: np.ndarray) -> Comparison:
    info = ml_dtypes.finfo(native.dtype)
    size = _pool_size(native.shape)
    pools = [np.ascontiguousarray(a).reshape(-1, size) for a in (actual, reference64, native)]
    tally = _Tally()
    rows = max(1, _BLOCK // size)
    with np.errstate(all="ignore"):
        output = _Output(info, _overall_rms(reference64), _typical_noise(pools[1], pools[2]))
        for start in range(0, len(pools[0]), rows):
            block = [np.asarray(pool[start : start + rows], np.float64) for pool in pools]
            _judge(block[0], block[1], block[2], output, start * size, tally)
    if tally.misplaced:
        at = np.unravel_index(tally.misplaced_at, native.shape)
        message = f"{tally.misplaced} of {native.size} elements have NaN or infinity misplaced, first at "
        message += f"{[int(i) for i in at]}: {actual[at]} instead of {native[at]}"
        return _wrong(message, tally.max_abs, tally.max_rel)
    if tally.worst <= 1:
        return Comparison(True, tally.max_abs, tally.max_rel, tally.worst)
    at = np.unravel_index(tally.worst_at, native.shape)
    message = (
        f"{tally.off} of {native.size} elements are off, worst at {[int(i) for i in at]}: {actual[at]} instead of "
        f"{float(reference64[at]):.9g}, {tally.worst:.3g} times the allowed error of {tally.allowed:.3g}"
    )
    return Comparison(False, tally.max_abs, tally.max_rel, tally.worst, message)


def _judge(
    got: np.ndarray,
    reference: np.ndarray,
    plain: np.ndarray,
    output: _Output,
    offset: int,
    tally: _Tally,
) -> None:
    """Adds some whole pools, one a row, to the tally."""
    largest = float(output.info.max)
    overflowed = np.isinf(plain) & np.isfinite(got) & (np.abs(reference) <= largest)
    if overflowed.any():
        plain = np.where(overflowed, reference, plain)
    misplaced = _misplaced(got, plain, largest)
    if misplaced.any():
        if not tally.misplaced:
            tally.misplaced_at = offset + int(np.argmax(misplaced))
        tally.misplaced += int(misplaced.sum())
    usable = np.isfinite(got) & np.isfinite(reference) & np.isfinite(plain)
    if not usable.all():
        got, reference, plain = (np.where(usable, a, 0.0) for a in (got, reference, plain))
    error = np.abs(got - reference)
    magnitude = np.abs(reference)
    allowed = _allowed(np.abs(plain - reference), magnitude, usable, output)
    tally.max_abs = max(tally.max_abs, float(error.max()))
    ratio = error / allowed
    tally.off += int((ratio > 1).sum())
    worst_at = int(np.argmax(ratio))
    if ratio.flat[worst_at] > tally.worst:
        tally.worst, tally.worst_at = float(ratio.flat[worst_at]), offset + worst_at
        tally.allowed = float(allowed.flat[worst_at])
    if output.rms > 0:
        tally.max_rel = max(tally.max_rel, float((error / np.maximum(magnitude, output.rms)).max()))


def _misplaced(got: np.ndarray, plain: np.ndarray, largest: float) -> np.ndarray:
    """Where NaN or an infinity is in one and not in the other; an overflow within 1 % of the limit is no difference."""
    special = ~(np.isfinite(got) & np.isfinite(plain))
    if not special.any():
        return special
    same = (got == plain) | (np.isnan(got) & np.isnan(plain))
    near = (np.sign(got) == np.sign(plain)) & (np.minimum(np.abs(got), np.abs(plain)) >= 0.99 * largest)
    return special & ~same & ~near


def _overall_rms(reference: np.ndarray) -> float:
    flat = np.abs(reference.reshape(-1)).astype(np.float64, copy=False)
    finite = flat[np.isfinite(flat)]
    return float(_rms(finite[None])[0, 0]) if finite.size else 0.0


def _rms(x: np.ndarray) -> np.ndarray:
    """Root mean square of every row of magnitudes, kept as a column; safe from overflow."""
    top = x.max(axis=1, keepdims=True)
    scaled = x / np.where(top > 0, top, 1.0)
    return top * np.sqrt(np.einsum("ij,ij->i", scaled, scaled)[:, None] / x.shape[1])


def _allowed(noise: np.ndarray, magnitude: np.ndarray, usable: np.ndarray, output: _Output) -> np.ndarray:
    """The allowed error of every element of some pools, one a row (see the module's docstring)."""
    info = output.info
    telling = usable & ((magnitude > 0) | (noise > 0))  # a ReLU's zeros carry no rounding error to learn from
    count = np.maximum(telling.sum(axis=1, keepdims=True), 1)
    rms = _rms(magnitude)
    pooled = np.maximum(noise.max(axis=1, keepdims=True), output.typical_noise * rms)
    scale = np.maximum(magnitude, rms)
    factor = NARROW_FACTOR if info.bits < 32 else FACTOR
    usual = np.minimum(factor * pooled, np.maximum(3 * pooled, rms / 8))
    relative = DOUBLE_FLOOR if info.dtype == np.float64 else FLOOR * float(info.eps)
    # Results near the smallest normal number may be flushed to zero.
    allowed = np.maximum(np.maximum(usual, relative * scale), 4 * float(info.tiny))
    if count.min() < SMALL_POOL:
        boost = np.maximum(1.0, SMALL_POOL / count)
        allowed = np.maximum(allowed, np.minimum(factor * boost * pooled, scale / 64))
    return allowed


def _pool_size(shape: tuple[int, ...]) -> int:
    """Elements of as many trailing axes as make a pool; all of them in a small array."""
    size = 1
    for n in reversed(shape):
        size *= n
        if size >= POOL:
            return size
    return max(1, size)
