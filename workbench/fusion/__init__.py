"""Fusion: graph, rules, target -> :class:`FusionPlan`."""

from . import patterns
from .categories import CATEGORIES
from .combine import MeasuredGroup, adopt, combine, confirm
from .constraints import OBJECTIVES, Constraints, Evidence, Measured, Objective
from .document import from_json
from .document import load as load_plan
from .drawing import draw_svg
from .legality import check, check_partition
from .plan import Decision, Factors, FusionPlan, Group
from .planners import PLANNERS, Contest, Problem, Unit, alternative_plans, contests, given_partition
from .planning import plan, problem_of
from .rules import Candidate, PatternRule, Refusal, RelaxPatternRule, Rule, builtin_rules, load_rules, rule

__all__ = [
    "CATEGORIES",
    "OBJECTIVES",
    "PLANNERS",
    "Candidate",
    "Constraints",
    "Contest",
    "Decision",
    "Evidence",
    "Factors",
    "FusionPlan",
    "Group",
    "Measured",
    "MeasuredGroup",
    "Objective",
    "PatternRule",
    "Problem",
    "Refusal",
    "RelaxPatternRule",
    "Rule",
    "Unit",
    "adopt",
    "alternative_plans",
    "builtin_rules",
    "check",
    "check_partition",
    "combine",
    "confirm",
    "contests",
    "draw_svg",
    "from_json",
    "given_partition",
    "load_plan",
    "load_rules",
    "patterns",
    "plan",
    "problem_of",
    "rule",
]  # fmt: skip
