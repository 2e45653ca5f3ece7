"""The one call that makes a plan."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import PlanError
from ..graph import Graph
from ..targets.target import Target
from .plan import FusionPlan
from .planners import PLANNERS
from .rules import Rule, builtin_rules


def plan(
    graph: Graph,
    target: Target,
    rules: Sequence[Rule] | None = None,
    planner: str = "roofline",
    pins: Sequence[Sequence[str]] = (),
    forbidden: Sequence[tuple[str, str]] = (),
) -> FusionPlan:
    """A legal partition of ``graph`` into kernels for ``target``, with the reason for every boundary.

    ``rules`` default to the built-in ones; pass ``(*load_rules(file), *builtin_rules())`` to add your own (on a tie
    the earlier rule has it). ``pins`` are sets of node ids that must be one kernel; ``forbidden`` are pairs of node
    ids that must not share one. The same arguments give the same plan.

    Raises :class:`~workbench.errors.PlanError` for an unknown planner or node, ``IllegalGroup`` for a pin that cannot
    be a kernel, and :class:`~workbench.errors.RuleError` for a rule that fails.
    """
    if planner not in PLANNERS:
        raise PlanError(f"planner '{planner}' is not known; give one of {', '.join(sorted(PLANNERS))}")
    for first, second in forbidden:
        graph.node(first)
        graph.node(second)
    chosen = builtin_rules() if rules is None else tuple(rules)
    return PLANNERS[planner]().plan(graph, target, chosen, pins, forbidden)
