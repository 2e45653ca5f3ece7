"""How good a learned model is on groups that it has not seen, beside the analytic model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ._boosting import folds, widened, widening

FOLDS = 10


@dataclass(frozen=True)
class Scores:
    """Relative errors |predicted / measured - 1|, and Spearman's rank correlation (1904) of the two."""

    median_error: float
    p90_error: float
    rank_correlation: float


@dataclass(frozen=True)
class Evaluation:
    """On held-out groups: no kernel is predicted by trees that saw a kernel of the same operator sequence.

    ``coverage``: how often the measurement lay within the predicted bounds, which promise 0.8.
    """

    kernels: int
    sequences: int
    folds: int
    learned: Scores
    analytic: Scores
    coverage: float

    @property
    def warning(self) -> str:
        """Why not to trust the learned model more than the analytic one; "" where it is better."""
        if self.learned.median_error >= self.analytic.median_error:
            what = f"median error {self.learned.median_error:.0%} against {self.analytic.median_error:.0%}"
        elif self.learned.rank_correlation < self.analytic.rank_correlation:
            what = f"rank correlation {self.learned.rank_correlation:.3f} against {self.analytic.rank_correlation:.3f}"
        else:
            return ""
        return f"the learned model is no better than the analytic one on held-out groups ({what}); tune more models"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "warning": self.warning}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Evaluation:
        """Raises KeyError or TypeError for a broken document."""
        numbers = {name: document[name] for name in ("kernels", "sequences", "folds", "coverage")}
        return Evaluation(learned=Scores(**document["learned"]), analytic=Scores(**document["analytic"]), **numbers)


def fold_of(sequences: Sequence[str]) -> np.ndarray:
    """The fold of each sample, by its operator sequence."""
    return folds(sequences, min(FOLDS, len(set(sequences))))


def evaluate(
    sequences: Sequence[str], fold: np.ndarray, found: np.ndarray, analytic: np.ndarray, measured: np.ndarray
) -> Evaluation:
    """Scores of held-out predictions. ``found``: quantiles of log(measured / analytic) float64[n, 3], not widened;
    ``analytic`` and ``measured``: log seconds float64[n]."""
    return Evaluation(
        kernels=len(measured),
        sequences=len(set(sequences)),
        folds=len(np.unique(fold)),
        learned=scores(analytic + found[:, 1], measured),
        analytic=scores(analytic, measured),
        coverage=_coverage(fold, found, measured - analytic),
    )


def _coverage(fold: np.ndarray, found: np.ndarray, targets: np.ndarray) -> float:
    """Each fold's bounds are widened by what the other folds ask for: its own must not vouch for itself."""
    inside = np.zeros(len(targets), dtype=bool)
    for one in np.unique(fold):
        own = fold == one
        bounds = widened(found[own], widening(found[~own], targets[~own]))
        inside[own] = (bounds[:, 0] <= targets[own]) & (targets[own] <= bounds[:, 2])
    return float(inside.mean())


def scores(predicted: np.ndarray, measured: np.ndarray) -> Scores:
    """Of log seconds float64[n]."""
    errors = np.abs(np.expm1(predicted - measured))
    return Scores(float(np.median(errors)), float(np.quantile(errors, 0.9)), spearman(predicted, measured))


def spearman(first: np.ndarray, second: np.ndarray) -> float:
    """Pearson's correlation of the ranks; equal values share their mean rank. 0 where one of them is constant."""
    a, b = _ranks(first), _ranks(second)
    spread = a.std() * b.std()
    return float(((a - a.mean()) * (b - b.mean())).mean() / spread) if spread > 0 else 0.0


def _ranks(values: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return ((2 * last - counts + 1) / 2)[inverse]
