"""Fusion: graph, rules, target -> :class:`FusionPlan`."""

from .plan import Decision, Factors, FusionPlan, Group
from .rules._base import Candidate, Rule

__all__ = ["Candidate", "Decision", "Factors", "FusionPlan", "Group", "Rule"]
