"""The interface of a cost model: learns from measured candidates, and says how well it ranks them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np


class CostModel(ABC):
    """Ranks a task's candidates. What a candidate is, the strategy and its model agree on."""

    @abstractmethod
    def predict(self, candidates: Sequence[Any]) -> np.ndarray:
        """One score a candidate, higher is faster; float64, shape (len(candidates),)."""

    @abstractmethod
    def update(self, candidates: Sequence[Any], seconds: Sequence[float]) -> None:
        """Learns measured times; infinity for a candidate that failed."""

    @abstractmethod
    def rebuild(self) -> None:
        """Learns anew from all that it was told, from another start."""

    @property
    @abstractmethod
    def trained(self) -> bool:
        """Whether predictions mean anything yet."""


def rank_correlation(scores: Sequence[float], seconds: Sequence[float]) -> float | None:
    """Spearman's rank correlation (1904) of scores with speeds: 1 is a perfect order, 0 none, -1 reversed.

    Failed candidates (infinite seconds) are left out. None where fewer than three are left or all are equal.

    >>> rank_correlation([3.0, 2.0, 1.0], [1e-3, 2e-3, 4e-3])
    1.0
    """
    from scipy import stats  # half a second, which a run that makes no trial need not pay

    pairs = [(score, -time) for score, time in zip(scores, seconds, strict=True) if math.isfinite(time)]
    if len(pairs) < 3:
        return None
    left, right = (np.asarray(column, dtype=np.float64) for column in zip(*pairs, strict=True))
    if np.ptp(left) == 0 or np.ptp(right) == 0:
        return None
    return float(stats.spearmanr(left, right).statistic)
