"""Every operator its own kernel: what fusion is compared with."""

from __future__ import annotations

from dataclasses import replace

from ..plan import FusionPlan
from ._base import Planner, Problem, Unit, assemble
from ._pool import Pool


class UnfusedPlanner(Planner):
    """No fusion; pins are honoured all the same."""

    name = "unfused"

    def plan(self, problem: Problem) -> FusionPlan:
        pool = Pool(replace(problem, rules=()))
        units = [
            unit if len(unit.nodes) > 1 else Unit.single(unit.nodes[0], "every operator is its own kernel")
            for unit in pool.units.values()
        ]
        pool.predict(pool.units)
        seconds = {unit.nodes: pool.seconds(unit.nodes) for unit in units}
        return assemble(problem, units, seconds, self.name, (), "exact")
