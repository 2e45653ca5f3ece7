"""Cost models: which candidates are worth measuring."""

from ._base import CostModel, rank_correlation

__all__ = ["CostModel", "rank_correlation"]
