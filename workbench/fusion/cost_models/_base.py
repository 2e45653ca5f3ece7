"""The interface of a cost model for planning."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ...graph import Graph
from ...targets.target import Target


@dataclass(frozen=True)
class Prediction:
    """Seconds of a kernel, its launch included: the most likely, and bounds that hold it eight times in ten."""

    seconds: float
    low: float
    high: float


class CostModel(ABC):
    """Predicts what a kernel takes once it is tuned. Deterministic; the same arguments give the same figures."""

    name: ClassVar[str]

    @abstractmethod
    def predict(self, graph: Graph, kernels: Sequence[Iterable[str]], target: Target) -> list[Prediction]:
        """One prediction for each kernel, given as the ids of the nodes that it computes; in the order given.

        Many kernels in one call cost much less than one call each.
        """

    def seconds(self, graph: Graph, nodes: Iterable[str], target: Target) -> float:
        """Seconds of the kernel that computes ``nodes``, its launch included."""
        return self.predict(graph, [tuple(nodes)], target)[0].seconds
