"""Quantile regression with gradient-boosted trees, and intervals that hold what they promise.

Boosted trees: Chen and Guestrin, KDD 2016. Conformalised quantile regression: Romano, Patterson and Candès, NeurIPS
2019.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xgboost

LEVELS = (0.1, 0.5, 0.9)  # quantiles: the middle one is the prediction, the others hold it eight times in ten
COVERED = LEVELS[2] - LEVELS[0]
ROUNDS = 100
SETTINGS: dict[str, Any] = {
    "objective": "reg:quantileerror",
    "quantile_alpha": list(LEVELS),
    "tree_method": "hist",
    # Some hundred samples: shallow trees, each of a part of the samples and features, and two a round to average.
    "max_depth": 4,
    "eta": 0.1,
    "min_child_weight": 4,
    "subsample": 0.7,
    "colsample_bytree": 0.4,
    "num_parallel_tree": 2,
    "seed": 0,
    "nthread": 1,  # sums of several threads come in any order, and the trees with them
}


def fit(rows: np.ndarray, targets: np.ndarray) -> xgboost.Booster:
    """Trees for float32[n, features] -> the quantiles of float64[n]. The same arguments give the same trees."""
    import xgboost  # takes a third of a second, and no plan of a cold start needs it

    return xgboost.train(SETTINGS, xgboost.DMatrix(rows, targets), num_boost_round=ROUNDS)


def quantiles(booster: xgboost.Booster, rows: np.ndarray) -> np.ndarray:
    """float64[n, 3] for float32[n, features], sorted: quantiles that are fitted apart may cross."""
    import xgboost

    return np.sort(np.asarray(booster.predict(xgboost.DMatrix(rows)), dtype=np.float64).reshape(len(rows), -1), axis=1)


def widening(found: np.ndarray, targets: np.ndarray) -> float:
    """By how much both bounds have to move out so that ``COVERED`` of held-out targets lie within (negative: in).

    ``found``: held-out quantiles float64[n, 3].
    """
    outside = np.maximum(found[:, 0] - targets, targets - found[:, 2])
    rank = min(len(outside), math.ceil((len(outside) + 1) * COVERED))
    return float(np.sort(outside)[rank - 1])


def widened(found: np.ndarray, by: float) -> np.ndarray:
    """Quantiles with their bounds moved out; never past the prediction."""
    moved = found + np.array([-by, 0.0, by])
    moved[:, 0] = np.minimum(moved[:, 0], moved[:, 1])
    moved[:, 2] = np.maximum(moved[:, 2], moved[:, 1])
    return moved


def folds(groups: Sequence[str], number: int) -> np.ndarray:
    """A fold of ``number`` for each sample, int[n]: those of one group share a fold, and folds are of about one size.

    The largest groups are dealt out first, each to the smallest fold.
    """
    sizes = {group: groups.count(group) for group in dict.fromkeys(groups)}
    load, home = [0] * number, {}
    for group in sorted(sizes, key=lambda one: (-sizes[one], one)):
        home[group] = load.index(min(load))
        load[home[group]] += sizes[group]
    return np.array([home[group] for group in groups])


def held_out(rows: np.ndarray, targets: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Quantiles float64[n, 3] of every sample by trees that saw none of its fold."""
    found = np.empty((len(targets), len(LEVELS)))
    for one in np.unique(fold):
        outside = fold != one
        found[~outside] = quantiles(fit(rows[outside], targets[outside]), rows[~outside])
    return found


def to_document(booster: xgboost.Booster) -> dict[str, Any]:
    """XGBoost's own JSON."""
    return json.loads(bytes(booster.save_raw("json")))


def from_document(document: dict[str, Any]) -> xgboost.Booster:
    """The trees of XGBoost's JSON. Raises ValueError when it is none."""
    import xgboost

    booster = xgboost.Booster({"nthread": 1})
    try:
        booster.load_model(bytearray(json.dumps(document).encode()))
    except xgboost.core.XGBoostError as error:
        raise ValueError(str(error).strip().splitlines()[0]) from error
    return booster
