"""Gradient-boosted trees (Chen and Guestrin, KDD 2016) as cost models: over per-store features, and over parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xgboost

from ...tvm_seam import tvm
from ._base import CostModel

ms = tvm.s_tir.meta_schedule


class StoreFeatureModel(CostModel):
    """MetaSchedule's model: per-store features of a candidate, scores summed over its stores (Zheng et al., OSDI 2020).

    Candidates are MetaSchedule's MeasureCandidates of one tuning context.
    """

    def __init__(self, context: Any, seed: int, warmup: int = 16) -> None:
        """Before ``warmup`` measurements the scores are seeded random numbers in [0, 1)."""
        self._context, self._seed, self._warmup = context, seed, warmup
        self._random = np.random.default_rng(seed)
        self._told: list[tuple[Any, float]] = []
        self._inner = self._made()

    def _made(self) -> Any:
        # One thread: the data is small, and threads that wait for each other at every round cost more than they save.
        config = ms.cost_model.xgb_model.XGBConfig(seed=self._seed, nthread=1)
        return ms.cost_model.XGBModel(config=config, num_warmup_samples=self._warmup, num_tuning_cores=1)

    def rebuild(self) -> None:
        """See :class:`CostModel`."""
        self._seed += 1
        self._inner = self._made()
        told, self._told = self._told, []
        self.update([candidate for candidate, _ in told], [seconds for _, seconds in told])

    @property
    def trained(self) -> bool:
        """See :class:`CostModel`."""
        return self._inner.booster is not None and self._inner.data_size >= self._warmup

    def predict(self, candidates: Sequence[Any]) -> np.ndarray:
        """See :class:`CostModel`."""
        if not self.trained:
            return self._random.uniform(size=len(candidates))
        return np.asarray(self._inner.predict(self._context, list(candidates)), dtype=np.float64)

    def update(self, candidates: Sequence[Any], seconds: Sequence[float]) -> None:
        """See :class:`CostModel`."""
        self._told += zip(candidates, seconds, strict=True)
        results = [
            ms.runner.RunnerResult([time], None) if np.isfinite(time) else ms.runner.RunnerResult(None, "failed")
            for time in seconds
        ]
        self._inner.update(self._context, list(candidates), results)


class ParameterModel(CostModel):
    """Log-latency regressed on the logarithms of a library schedule's parameters; candidates are mappings of these."""

    def __init__(self, names: Sequence[str], seed: int, warmup: int = 12) -> None:
        """``names``: the parameters that count, in a fixed order; one missing from a candidate counts as 0."""
        self._names = tuple(names)
        self._seed, self._warmup = seed, warmup
        self._rows: list[np.ndarray] = []
        self._targets: list[float] = []
        self._booster: xgboost.Booster | None = None

    @property
    def trained(self) -> bool:
        """See :class:`CostModel`."""
        return self._booster is not None

    def predict(self, candidates: Sequence[Mapping[str, int]]) -> np.ndarray:
        """See :class:`CostModel`; zeros before training."""
        if self._booster is None or not candidates:
            return np.zeros(len(candidates))
        rows = np.stack([self._row(candidate) for candidate in candidates])
        return -np.asarray(self._booster.predict(xgboost.DMatrix(rows)), dtype=np.float64)

    def update(self, candidates: Sequence[Mapping[str, int]], seconds: Sequence[float]) -> None:
        """See :class:`CostModel`. A failed candidate counts as ten times slower than the slowest that worked."""
        self._rows += [self._row(candidate) for candidate in candidates]
        self._targets += [float(np.log(time)) for time in seconds]
        good = [target for target in self._targets if np.isfinite(target)]
        if len(good) < self._warmup:
            return
        penalty = max(good) + float(np.log(10.0))
        targets = np.array([target if np.isfinite(target) else penalty for target in self._targets])
        settings = {"max_depth": 5, "eta": 0.15, "min_child_weight": 0, "seed": self._seed, "nthread": 1}
        self._booster = xgboost.train(settings, xgboost.DMatrix(np.stack(self._rows), targets), num_boost_round=60)

    def rebuild(self) -> None:
        """See :class:`CostModel`."""
        self._seed += 1
        self._booster = None
        self.update([], [])

    def _row(self, candidate: Mapping[str, int]) -> np.ndarray:
        return np.array([np.log2(1 + max(0, candidate.get(name, 0))) for name in self._names], dtype=np.float32)
