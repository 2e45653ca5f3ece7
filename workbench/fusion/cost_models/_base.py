"""The interface of a cost model for planning."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from ...graph import Graph
from ...targets.target import Target


class CostModel(ABC):
    """Predicts what a kernel takes, before anything is tuned."""

    name: ClassVar[str]

    @abstractmethod
    def seconds(self, graph: Graph, nodes: Iterable[str], target: Target) -> float:
        """Seconds of the kernel that computes ``nodes``, its launch included."""
