"""Fusion: graph, rules, target -> :class:`FusionPlan`."""

from .document import from_json, load
from .legality import CATEGORIES, check, check_partition
from .plan import Decision, Factors, FusionPlan, Group
from .planning import plan
from .rules import Candidate, Rule, builtin_rules, load_rules, rule

__all__ = [
    "CATEGORIES", "Candidate", "Decision", "Factors", "FusionPlan", "Group", "Rule", "builtin_rules", "check",
    "check_partition", "from_json", "load", "load_rules", "plan", "rule",
]  # fmt: skip
