"""Cost models: seconds that a kernel is predicted to take."""

from ._base import CostModel, Prediction
from .analytic import AnalyticCostModel

__all__ = ["AnalyticCostModel", "CostModel", "Prediction"]
