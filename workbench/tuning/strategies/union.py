"""Two spaces at once: the library's and MetaSchedule's, for a workload that both can schedule."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import ClassVar

from ...errors import KernelError
from ...store.record import Record
from ..cost_models import Watch
from ..task import Candidate, Task
from ._base import Strategy
from .library import LibraryStrategy
from .metaschedule import MetaScheduleStrategy

logger = logging.getLogger(__name__)
_LEADER_PART = 0.75  # of a batch goes to the part that found the best so far; the other is not given up


class UnionStrategy(Strategy):
    """Splits every batch between its parts: evenly at first, then mostly to the one that leads."""

    name: ClassVar[str] = "union"

    def __init__(self, task: Task, seed: int, history: Sequence[Record]) -> None:
        """See :class:`Strategy`. A part that fails is left out; KernelError when both do."""
        self._label = task.workload.label
        self._parts: list[Strategy | None] = []
        for kind in (LibraryStrategy, MetaScheduleStrategy):
            try:
                self._parts.append(kind(task, seed, history))
            except KernelError as error:
                self._parts.append(None)
                self._lose(len(self._parts) - 1, error)
        self._best = [math.inf, math.inf]
        kinds = ("library", "trace")
        for record in history:
            if record.schedule.kind in kinds:
                self._note(kinds.index(record.schedule.kind), record)

    @classmethod
    def serves(cls, task: Task) -> bool:
        """See :class:`Strategy`."""
        return LibraryStrategy.serves(task) and MetaScheduleStrategy.serves(task)

    @classmethod
    def space(cls, task: Task) -> str:
        """See :class:`Strategy`."""
        return f"{LibraryStrategy.space(task)}; {MetaScheduleStrategy.space(task)}; leader {_LEADER_PART}"

    def ask(self, n: int) -> list[Candidate]:
        """See :class:`Strategy`."""
        first = 1 if self._best[1] < self._best[0] else 0
        part = 0.5 if self._best[0] == self._best[1] else _LEADER_PART
        asked = self._ask(first, math.ceil(part * n))
        asked += self._ask(1 - first, n - len(asked))
        return asked + (self._ask(first, n - len(asked)) if len(asked) < n else [])

    def tell(self, candidates: Sequence[Candidate], records: Sequence[Record]) -> None:
        """See :class:`Strategy`."""
        for index, part in enumerate(self._parts):
            pairs = [pair for pair in zip(candidates, records, strict=True) if pair[0].handle[0] == index]
            own = [Candidate(given.schedule, given.module, given.handle[1]) for given, _ in pairs]
            if part is not None:
                part.tell(own, [record for _, record in pairs])
            for _, record in pairs:
                self._note(index, record)

    @property
    def watch(self) -> Watch | None:
        """That of the part that leads."""
        leader = self._parts[1 if self._best[1] < self._best[0] else 0]
        return None if leader is None else leader.watch

    @property
    def rejected(self) -> dict[str, int]:
        """See :class:`Strategy`."""
        counts: dict[str, int] = {}
        for part in filter(None, self._parts):
            for category, count in part.rejected.items():
                counts[category] = counts.get(category, 0) + count
        return counts

    def close(self) -> None:
        """See :class:`Strategy`."""
        for part in filter(None, self._parts):
            part.close()

    def _ask(self, index: int, n: int) -> list[Candidate]:
        part = self._parts[index]
        if part is None or n <= 0:
            return []
        try:
            asked = part.ask(n)
        except KernelError as error:
            part.close()
            self._parts[index] = None
            self._lose(index, error)
            return []
        return [Candidate(item.schedule, item.module, (index, item.handle)) for item in asked]

    def _lose(self, index: int, error: KernelError) -> None:
        """Goes on with the other part; without one the failure is the whole search's."""
        logger.warning("%s: %s", self._label, error)
        if len(self._parts) == 2 and not any(self._parts):
            raise error

    def _note(self, index: int, record: Record) -> None:
        if record.status == "ok":
            self._best[index] = min(self._best[index], record.median_s)
