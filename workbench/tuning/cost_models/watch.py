"""How good a cost model is, round by round, on measurements that it had not seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ._base import rank_correlation

TOP = 8
BAD_ROUNDS = 3


@dataclass(frozen=True)
class Round:
    """``correlation``: Spearman's, of scores with speeds. ``recall``: the part of the fastest ``TOP`` candidates of the
    round that are among the ``TOP`` best scored. None where too few worked to tell."""

    correlation: float | None
    recall: float | None


def top_recall(scores: Sequence[float], seconds: Sequence[float], top: int = TOP) -> float | None:
    """The part of the ``top`` fastest that are among the ``top`` best scored; None where no more than these worked.

    Failed candidates (infinite seconds) are left out.

    >>> top_recall([4.0, 3.0, 2.0, 1.0], [1e-3, 3e-3, 2e-3, 4e-3], top=2)
    0.5
    """
    good = [index for index, time in enumerate(seconds) if math.isfinite(time)]
    if len(good) <= top:
        return None
    best = set(sorted(good, key=lambda index: (-scores[index], index))[:top])
    fastest = sorted(good, key=lambda index: (seconds[index], index))[:top]
    return sum(index in best for index in fastest) / top


class Watch:
    """The rounds of one model; a model that ranked worse than chance three times running is ``bad``."""

    def __init__(self) -> None:
        self.rounds: list[Round] = []
        self.rebuilt = 0  # how often a model was thrown away for it
        self._streak = 0

    @property
    def last(self) -> Round | None:
        """The last round, or None before there was one."""
        return self.rounds[-1] if self.rounds else None

    def look(self, scores: np.ndarray, seconds: Sequence[float]) -> None:
        """Compares what the model said, before it learnt from them, with a round's measurements."""
        given = [float(score) for score in scores]
        found = Round(rank_correlation(given, seconds), top_recall(given, seconds))
        self.rounds.append(found)
        if found.correlation is not None:
            self._streak = self._streak + 1 if found.correlation < 0 else 0

    @property
    def bad(self) -> bool:
        """Whether the model should be built anew."""
        return self._streak >= BAD_ROUNDS

    def rebuild(self) -> None:
        """The model was built anew: its bad rounds are no longer its own."""
        self.rebuilt += 1
        self._streak = 0
