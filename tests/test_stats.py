"""Statistics against SciPy, known values and coverage by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from workbench import stats
from workbench.stats import Interval


def test_interval_agrees_with_scipys_percentile_bootstrap() -> None:
    samples = np.random.default_rng(1).lognormal(0.0, 0.2, 60)
    mine = stats.median_interval(samples, resamples=20_000)
    theirs = scipy_stats.bootstrap((samples,), np.median, method="percentile", n_resamples=20_000, rng=2)
    assert mine.median == np.median(samples)
    assert mine.low == pytest.approx(theirs.confidence_interval.low, rel=0.01)
    assert mine.high == pytest.approx(theirs.confidence_interval.high, rel=0.01)
    assert mine.n == 60


def test_ratio_interval_agrees_with_scipys_paired_bootstrap() -> None:
    rng = np.random.default_rng(3)
    drift = np.linspace(1.0, 1.5, 50)
    top, bottom = 2 * drift * rng.lognormal(0, 0.02, 50), drift * rng.lognormal(0, 0.02, 50)

    def ratio(a: np.ndarray, b: np.ndarray, axis: int = -1) -> np.ndarray:
        return np.median(a, axis=axis) / np.median(b, axis=axis)

    mine = stats.paired_ratio(top, bottom, resamples=20_000)
    theirs = scipy_stats.bootstrap(
        (top, bottom), ratio, paired=True, vectorized=True, method="percentile", n_resamples=20_000, rng=4
    )
    assert mine.low == pytest.approx(theirs.confidence_interval.low, rel=0.005)
    assert mine.high == pytest.approx(theirs.confidence_interval.high, rel=0.005)
    assert mine.low < 2 < mine.high


def test_the_interval_covers_the_true_median_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(400):
        interval = stats.median_interval(rng.exponential(1.0, 30), resamples=400)
        covered += interval.low <= math.log(2) <= interval.high
    assert 0.90 <= covered / 400 <= 0.99


def test_pairing_keeps_a_drift_out_of_the_interval() -> None:
    rng = np.random.default_rng(6)
    drift = np.linspace(1.0, 3.0, 40)
    top, bottom = drift * rng.normal(1, 0.005, 40), drift * rng.normal(1, 0.005, 40)
    paired = stats.paired_ratio(top, bottom)
    shuffled = stats.paired_ratio(top, rng.permutation(bottom))
    assert stats.relative_half_width(paired) < 0.02
    assert stats.relative_half_width(shuffled) > 5 * stats.relative_half_width(paired)


def test_equal_seeds_give_equal_intervals() -> None:
    samples = np.random.default_rng(0).normal(1, 0.1, 20)
    intervals = [stats.median_interval(samples, seed=seed, resamples=20) for seed in (1, 1, 2)]
    assert intervals[0] == intervals[1]
    assert intervals[0] != intervals[2]


def test_known_values() -> None:
    assert stats.median([3.0, 1.0, 2.0]) == 2.0
    assert stats.median([4.0, 1.0, 2.0, 3.0]) == 2.5
    assert stats.median_interval([2.0]) == Interval(2.0, 2.0, 2.0, 1)
    assert stats.geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert stats.geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    assert stats.geometric_mean([1.3, 2.7, 0.9]) == pytest.approx(scipy_stats.gmean([1.3, 2.7, 0.9]))
    assert stats.relative_half_width(Interval(2.0, 1.9, 2.1, 9)) == pytest.approx(0.05)
    assert stats.enough_samples([1.0] * 5)
    assert not stats.enough_samples([1.0] * 4)


@pytest.mark.parametrize("samples", [[], [math.nan, 1.0], [math.inf]])
def test_what_has_no_statistics_is_refused(samples: list[float]) -> None:
    for function in (stats.median, stats.median_interval, stats.geometric_mean):
        with pytest.raises(ValueError, match=r"at least one sample|finite"):
            function(samples)


def test_ratios_need_positive_samples_of_the_same_rounds() -> None:
    with pytest.raises(ValueError, match="same rounds: 2 and 3"):
        stats.paired_ratio([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="positive"):
        stats.paired_ratio([1.0, 2.0], [1.0, 0.0])
    with pytest.raises(ValueError, match="positive"):
        stats.geometric_mean([1.0, 0.0])
