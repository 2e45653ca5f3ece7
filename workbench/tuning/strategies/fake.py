"""A space of numbers for the fake device: searches without TVM, for tests and for teaching."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import ClassVar

from ...store.record import Record, ScheduleSpec
from ..task import Candidate, Task
from ._base import Strategy


class GridStrategy(Strategy):
    """The points 0 to ``size`` - 1, in an order that the seed shuffles; a point is a schedule's parameter ``x``."""

    name: ClassVar[str] = "grid"
    size: ClassVar[int] = 100

    def __init__(self, task: Task, seed: int, history: Sequence[Record]) -> None:
        """See :class:`Strategy`."""
        seen = {record.schedule.data["x"] for record in history if record.schedule.name == self.name}
        order = list(range(self.size))
        random.Random(seed).shuffle(order)
        self._left = [point for point in order if point not in seen]
        self.told: list[Record] = []

    @classmethod
    def serves(cls, task: Task) -> bool:
        """See :class:`Strategy`."""
        return True

    @classmethod
    def space(cls, task: Task) -> str:
        """See :class:`Strategy`."""
        return f"{cls.size} points"

    def ask(self, n: int) -> list[Candidate]:
        """See :class:`Strategy`."""
        points, self._left = self._left[:n], self._left[n:]
        return [Candidate(ScheduleSpec("library", self.name, {"x": point}), None, point) for point in points]

    def tell(self, candidates: Sequence[Candidate], records: Sequence[Record]) -> None:
        """See :class:`Strategy`."""
        self.told += records
