"""Fusion: graph, rules, target -> :class:`FusionPlan`."""

from .categories import CATEGORIES
from .combine import MeasuredGroup, adopt, combine
from .document import from_json
from .document import load as load_plan
from .drawing import draw_svg
from .legality import check, check_partition
from .plan import Decision, Factors, FusionPlan, Group
from .planning import plan
from .revise import revise
from .rules import Candidate, Rule, builtin_rules, load_rules, rule

__all__ = [
    "CATEGORIES", "Candidate", "Decision", "Factors", "FusionPlan", "Group", "MeasuredGroup", "Rule", "adopt",
    "builtin_rules", "check", "check_partition", "combine", "draw_svg", "from_json", "load_plan", "load_rules", "plan",
    "revise", "rule",
]  # fmt: skip
