"""The one call that makes a plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ..errors import PlanError
from ..graph import Graph
from ..targets.target import Target
from .constraints import OBJECTIVES, Constraints, Evidence, Objective
from .cost_models import AnalyticCostModel, CostModel
from .plan import FusionPlan
from .planners import PLANNERS, Problem
from .rules import Rule, builtin_rules

NO_CONSTRAINTS = Constraints()
NO_EVIDENCE = Evidence()


def plan(
    graph: Graph,
    target: Target,
    rules: Sequence[Rule] | None = None,
    planner: str = "predict",
    constraints: Constraints = NO_CONSTRAINTS,
    cost_model: CostModel | None = None,
    objective: str = "latency",
    evidence: Evidence = NO_EVIDENCE,
) -> FusionPlan:
    """A legal partition of ``graph`` into kernels for ``target``, with the reason for every boundary.

    ``rules`` default to the built-in ones; pass ``(*load_rules(file), *builtin_rules())`` to add your own (of equal
    sets the earlier rule's stays). ``cost_model`` defaults to the analytic one. ``objective``: what is made least,
    "latency", "memory" (bytes between kernels), "kernels" (how many) or "compile" (seconds of compiling); ties go to
    the lower latency. ``evidence``: measurements, which count instead of predictions. The same arguments give the same
    plan.

    Raises :class:`~workbench.errors.PlanError` for an unknown planner, objective, rule or node, ``IllegalGroup`` for a
    pin that cannot be a kernel, and :class:`~workbench.errors.RuleError` for a rule that fails.
    """
    if planner not in PLANNERS:
        raise PlanError(f"planner '{planner}' is not known; give one of {', '.join(sorted(PLANNERS))}")
    problem = problem_of(graph, target, rules, constraints, cost_model, objective, evidence)
    return PLANNERS[planner]().plan(problem)


def problem_of(
    graph: Graph,
    target: Target,
    rules: Sequence[Rule] | None = None,
    constraints: Constraints = NO_CONSTRAINTS,
    cost_model: CostModel | None = None,
    objective: str = "latency",
    evidence: Evidence = NO_EVIDENCE,
) -> Problem:
    """The arguments of :func:`plan`, checked, as one value."""
    if objective not in OBJECTIVES:
        raise PlanError(f"objective '{objective}' is not known; give one of {', '.join(OBJECTIVES)}")
    chosen = builtin_rules() if rules is None else tuple(rules)
    _check(graph, chosen, constraints)
    model = cost_model or AnalyticCostModel()
    return Problem(graph, target, chosen, model, constraints, cast(Objective, objective), evidence)


def _check(graph: Graph, rules: Sequence[Rule], constraints: Constraints) -> None:
    for node in (node for pair in constraints.forbidden for node in pair):
        graph.node(node)
    names = {rule.name for rule in rules}
    unknown = [name for name in constraints.rules_off if rules and name not in names]
    if unknown:
        known = ", ".join(sorted(names))
        raise PlanError(f"no rule is named '{unknown[0]}', so it cannot be off; the rules are {known}")
    if constraints.max_nodes is not None and constraints.max_nodes < 1:
        raise PlanError(f"at most {constraints.max_nodes} operators in a group is no limit; give a number above 0")
