"""Cost models: which candidates are worth measuring."""

from ._base import CostModel, rank_correlation
from .watch import Round, Watch, top_recall

__all__ = ["CostModel", "Round", "Watch", "rank_correlation", "top_recall"]
