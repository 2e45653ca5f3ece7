"""Planners: candidates and a cost model -> a partition of the graph."""

from ._base import Planner, Problem, Unit
from .contest import Contest, alternative_plans, contests, given_partition
from .predict import PredictPlanner
from .unfused import UnfusedPlanner

PLANNERS: dict[str, type[Planner]] = {planner.name: planner for planner in (PredictPlanner, UnfusedPlanner)}

__all__ = [
    "PLANNERS", "Contest", "Planner", "PredictPlanner", "Problem", "UnfusedPlanner", "Unit", "alternative_plans",
    "contests", "given_partition",
]  # fmt: skip
