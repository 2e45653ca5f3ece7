"""Planners: candidates and a cost model -> a partition of the graph."""

from ._base import Planner
from .roofline import RooflinePlanner
from .unfused import UnfusedPlanner

PLANNERS: dict[str, type[Planner]] = {planner.name: planner for planner in (RooflinePlanner, UnfusedPlanner)}

__all__ = ["PLANNERS", "Planner", "RooflinePlanner", "UnfusedPlanner"]
