"""Statistics of timings: medians, intervals and ratios. Pure functions over samples of any unit.

Sources: the percentile bootstrap, Efron 1979 ("Bootstrap methods: another look at the jackknife", Annals of
Statistics 7); medians and intervals rather than means for run times, Georges, Buytaert and Eeckhout 2007
("Statistically rigorous Java performance evaluation", OOPSLA) and Hoefler and Belli 2015 ("Scientific benchmarking of
parallel computing systems", SC), which also gives the geometric mean for ratios.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEVEL = 0.95
RESAMPLES = 2000
ENOUGH = 5  # an interval from fewer samples is no wider than their range, whatever the true spread


@dataclass(frozen=True)
class Interval:
    """A median with its 95 % bootstrap interval over ``n`` samples; any unit."""

    median: float
    low: float
    high: float
    n: int


def median(samples: Sequence[float]) -> float:
    """The middle value. Raises ValueError for no samples, NaN or infinity."""
    return float(np.median(_checked(samples)))


def median_interval(
    samples: Sequence[float], *, seed: int = 0, level: float = LEVEL, resamples: int = RESAMPLES
) -> Interval:
    """Median with its percentile-bootstrap interval. Raises ValueError as :func:`median` does."""
    values = _checked(samples)
    draws = np.random.default_rng(seed).integers(0, len(values), (resamples, len(values)))
    low, high = _percentiles(np.median(values[draws], axis=1), level)
    return Interval(float(np.median(values)), low, high, len(values))


def paired_ratio(
    numerator: Sequence[float],
    denominator: Sequence[float],
    *,
    seed: int = 0,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
) -> Interval:
    """Ratio of medians of samples taken in the same rounds, with a bootstrap interval that resamples rounds.

    ``numerator[i]`` and ``denominator[i]`` belong to one round: a drift of the machine hits both, and drawing whole
    rounds keeps it from widening the interval. Raises ValueError for different lengths, no rounds, NaN, infinity or a
    denominator that is not positive.
    """
    top, bottom = _checked(numerator), _checked(denominator)
    if len(top) != len(bottom):
        raise ValueError(f"paired samples must come from the same rounds: {len(top)} and {len(bottom)} were given")
    if (bottom <= 0).any():
        raise ValueError("a ratio needs positive samples below the line")
    draws = np.random.default_rng(seed).integers(0, len(top), (resamples, len(top)))
    ratios = np.median(top[draws], axis=1) / np.median(bottom[draws], axis=1)
    low, high = _percentiles(ratios, level)
    return Interval(float(np.median(top) / np.median(bottom)), low, high, len(top))


def geometric_mean(values: Sequence[float]) -> float:
    """The mean of ratios: that of the inverse ratios is its inverse. Raises ValueError unless all are positive."""
    checked = _checked(values)
    if (checked <= 0).any():
        raise ValueError("a geometric mean needs positive values")
    return float(np.exp(np.mean(np.log(checked))))


def relative_half_width(interval: Interval) -> float:
    """Half the interval's width over its median: 0.01 reads "within one per cent"."""
    return (interval.high - interval.low) / 2 / abs(interval.median) if interval.median else float("inf")


def enough_samples(samples: Sequence[float], at_least: int = ENOUGH) -> bool:
    """Whether an interval of these samples means something."""
    return len(samples) >= at_least


def _checked(samples: Sequence[float]) -> np.ndarray:
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim != 1 or not len(values):
        raise ValueError("statistics need at least one sample")
    if not np.isfinite(values).all():
        raise ValueError("samples must be finite numbers")
    return values


def _percentiles(values: np.ndarray, level: float) -> tuple[float, float]:
    tail = 100 * (1 - level) / 2
    low, high = np.percentile(values, [tail, 100 - tail])
    return float(low), float(high)
