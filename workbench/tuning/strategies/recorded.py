"""Strategies whose space is what somebody has measured: for replays, where the records answer for the device."""

from __future__ import annotations

import hashlib
import math
import random
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ...store.record import Record, ScheduleSpec
from ..cost_models import Watch
from ..cost_models.xgboost import ParameterModel
from ..storage import schedule_key
from ..task import Candidate, Task
from ._base import Strategy

EPSILON = 0.1  # of the model's picks are random


class RecordedStrategy(Strategy):
    """Asks for the schedules of ``pool``, each once, in an order of its own."""

    pool: ClassVar[Sequence[Record]] = ()

    def __init__(self, task: Task, seed: int, history: Sequence[Record]) -> None:
        """See :class:`Strategy`."""
        known = {schedule_key(record.schedule) for record in history}
        distinct = {schedule_key(record.schedule): record.schedule for record in self.pool}
        self._left = [spec for key, spec in distinct.items() if key not in known]
        self._random = random.Random(seed)
        self._start(seed)

    @classmethod
    def serves(cls, task: Task) -> bool:
        """See :class:`Strategy`."""
        return bool(cls.pool)

    @classmethod
    def space(cls, task: Task) -> str:
        """See :class:`Strategy`."""
        return str(len(cls.pool))

    def ask(self, n: int) -> list[Candidate]:
        """See :class:`Strategy`."""
        asked = []
        for _ in range(min(n, len(self._left))):
            asked.append(Candidate(self._left.pop(self._next()), None))
        return asked

    def tell(self, candidates: Sequence[Candidate], records: Sequence[Record]) -> None:
        """See :class:`Strategy`."""

    def _start(self, seed: int) -> None:
        """Before the first question."""

    @abstractmethod
    def _next(self) -> int:
        """Which of those that are left comes next."""


class AsRecorded(RecordedStrategy):
    """As the recorded search went."""

    name: ClassVar[str] = "recorded"

    def _next(self) -> int:
        return 0


class AtRandom(RecordedStrategy):
    """In random order."""

    name: ClassVar[str] = "random"

    def _next(self) -> int:
        return self._random.randrange(len(self._left))


class ByModel(RecordedStrategy):
    """The best of the rest by a regression on the schedules' parameters, which learns batch by batch."""

    name: ClassVar[str] = "model"

    def _start(self, seed: int) -> None:
        names = sorted({name for spec in self._left for name in parameters_of(spec)})
        self._model = ParameterModel(names, seed)
        self._watch = Watch()

    @property
    def watch(self) -> Watch | None:
        """See :class:`Strategy`."""
        return self._watch

    def ask(self, n: int) -> list[Candidate]:
        """See :class:`Strategy`."""
        scores = self._model.predict([parameters_of(spec) for spec in self._left])
        order = sorted(range(len(self._left)), key=lambda index: -scores[index]) if self._model.trained else None
        if order is not None:
            self._left = [self._left[index] for index in order]
        return super().ask(n)

    def tell(self, candidates: Sequence[Candidate], records: Sequence[Record]) -> None:
        """See :class:`Strategy`."""
        points = [parameters_of(candidate.schedule) for candidate in candidates]
        seconds = [record.median_s for record in records]
        if self._model.trained and points:
            self._watch.look(self._model.predict(points), seconds)
        self._model.update(points, seconds)
        if self._watch.bad:
            self._model.rebuild()
            self._watch.rebuild()

    def _next(self) -> int:
        if self._model.trained and self._random.random() >= EPSILON:
            return 0
        return self._random.randrange(len(self._left))


REPLAYED: dict[str, type[RecordedStrategy]] = {kind.name: kind for kind in (AsRecorded, AtRandom, ByModel)}


def parameters_of(schedule: ScheduleSpec) -> dict[str, int]:
    """A schedule as named numbers: the library's parameters, or a trace's decisions in order.

    Traces of different instructions have different names, so that no tile is taken for another.
    """
    if schedule.kind == "library":
        return {f"entry:{schedule.name}": 1, **{str(name): int(value) for name, value in schedule.data.items()}}
    if schedule.kind != "trace":
        return {}
    instructions, decisions = schedule.data
    kinds = ",".join(str(instruction[0]) for instruction in instructions)
    sketch = hashlib.sha256(kinds.encode()).hexdigest()[:8]
    found = {f"sketch:{sketch}": 1}
    for place, (_, decision) in enumerate(decisions):
        found |= {f"{sketch}.{place}.{name}": value for name, value in _numbers(decision).items()}
    return found


def _numbers(decision: Any) -> Mapping[str, int]:
    parts = decision if isinstance(decision, list) else [decision]
    return {str(index): int(part) for index, part in enumerate(parts) if _is_number(part)}


def _is_number(part: Any) -> bool:
    return isinstance(part, int | float) and math.isfinite(part)
