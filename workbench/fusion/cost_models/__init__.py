"""Cost models: seconds that a kernel is predicted to take."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._base import CostModel, Prediction
from .analytic import AnalyticCostModel

if TYPE_CHECKING:
    from .choice import choose
    from .evaluate import Evaluation, Scores
    from .learned import LearnedCostModel
    from .samples import Sample, stored_samples

__all__ = [
    "AnalyticCostModel", "CostModel", "Evaluation", "LearnedCostModel", "Prediction", "Sample", "Scores", "choose",
    "stored_samples",
]  # fmt: skip

# Loaded when first used: they read features, which read the analytic model, which is here.
_HOME = {
    "Evaluation": "evaluate", "Scores": "evaluate", "LearnedCostModel": "learned", "choose": "choice",
    "Sample": "samples", "stored_samples": "samples",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'workbench.fusion.cost_models' has no attribute '{name}'")
    return getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
