"""Cost models: seconds that a kernel is predicted to take."""

from ._base import CostModel
from .analytic import AnalyticCostModel

__all__ = ["AnalyticCostModel", "CostModel"]
