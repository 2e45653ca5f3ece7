"""Every operator its own kernel: what fusion is compared with."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import Graph
from ...targets.target import Target
from ..cost_models import AnalyticCostModel, CostModel
from ..plan import FusionPlan
from ..rules import Rule
from ._base import Edges, Partition, Planner, Unit, assemble


class UnfusedPlanner(Planner):
    """No fusion; pins are honoured all the same."""

    name = "unfused"

    def __init__(self, model: CostModel | None = None) -> None:
        self.model = model or AnalyticCostModel()

    def plan(
        self,
        graph: Graph,
        target: Target,
        rules: Sequence[Rule],
        pins: Sequence[Sequence[str]] = (),
        forbidden: Edges = (),
    ) -> FusionPlan:
        from .roofline import place_pins

        partition = Partition(graph, forbidden)
        place_pins(partition, pins, [])
        for unit in partition.units():
            if len(unit.nodes) == 1:
                partition.put(Unit.single(unit.nodes[0], "every operator is its own kernel"))
        return assemble(partition, target, self.model, self.name, (), rules, pins)
