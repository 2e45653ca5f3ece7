"""A finished partition as a graph of its own: which groups read from which, and which can reach which."""

from __future__ import annotations

from collections.abc import Sequence

from ...graph import Graph
from ..legality import contracted_order
from ._base import Unit


class Contracted:
    """Groups as nodes. The partition must be acyclic."""

    def __init__(self, graph: Graph, units: Sequence[Unit]) -> None:
        self.units = units
        self.owner = {node: place for place, unit in enumerate(units) for node in unit.nodes}
        self.after: list[dict[int, None]] = [{} for _ in units]
        for node in graph.nodes:
            for user in graph.successors(node.id):
                first, second = self.owner[node.id], self.owner[user.id]
                if first != second:
                    self.after[first][second] = None
        self.reaches = [0] * len(units)  # groups that need this one's results, directly or not, as bits
        for place in reversed(contracted_order(graph, self.owner, list(range(len(units))))):
            for later in self.after[place]:
                self.reaches[place] |= self.reaches[later] | (1 << later)

    def of(self, node: str) -> Unit:
        """The group that holds a node."""
        return self.units[self.owner[node]]

    def between(self, first: str, second: str) -> Unit | None:
        """A group that needs the group of ``first`` and that the group of ``second`` needs; None without one."""
        source, sink = self.owner[first], self.owner[second]
        for later in self.after[source]:
            if later != sink and self.reaches[later] >> sink & 1:
                return self.units[later]
        return None
