"""Searches the parameters of the schedules that people wrote: ``schedules/``."""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import schedules
from schedules._base import LibrarySchedule

from ...errors import KernelError
from ...kernels.schedule import schedule_workload
from ...store.record import Record, ScheduleSpec
from ..cost_models import Watch
from ..cost_models.xgboost import ParameterModel
from ..task import Candidate, Task
from ._base import Strategy

logger = logging.getLogger(__name__)
_POOL = 256  # combinations among which the model picks
_DRAWS = 4096  # attempts to draw new ones before the space counts as exhausted
_PARENTS = 4  # the best combinations, which are mutated
_RANDOM_PART = 0.25  # of every batch is not the model's choice

Point = tuple[str, tuple[tuple[str, int], ...]]  # entry, and its parameters sorted by name


class LibraryStrategy(Strategy):
    """First each entry's default, then neighbours of the best and random combinations, ranked by a regression."""

    name: ClassVar[str] = "library"

    def __init__(self, task: Task, seed: int, history: Sequence[Record]) -> None:
        """See :class:`Strategy`."""
        self._task = task
        self._random = random.Random(seed)
        entries = schedules.for_workload(task.workload, task.target)
        self._entries: dict[str, LibrarySchedule] = {entry.name: entry for entry in entries}
        if not self._entries:
            raise KernelError(f"{task.workload.label}: no schedule of the library serves it")
        self._spaces: dict[str, Mapping[str, tuple[int, ...]]] = {
            entry.name: entry.space(task.workload, task.target) for entry in entries
        }
        names = sorted({name for space in self._spaces.values() for name in space})
        self._model = ParameterModel([*names, *(f"entry:{name}" for name in self._entries)], seed)
        self._seen: set[Point] = set()
        self._times: dict[Point, float] = {}
        self._rejected: dict[str, int] = {}
        self._watch = Watch()
        self._learn(history)

    @classmethod
    def serves(cls, task: Task) -> bool:
        """See :class:`Strategy`."""
        return bool(schedules.for_workload(task.workload, task.target))

    @classmethod
    def space(cls, task: Task) -> str:
        """See :class:`Strategy`."""
        entries = schedules.for_workload(task.workload, task.target)
        spaces = {entry.name: entry.space(task.workload, task.target) for entry in entries}
        return f"{spaces}, pool {_POOL}, draws {_DRAWS}, parents {_PARENTS}, random part {_RANDOM_PART}"

    def ask(self, n: int) -> list[Candidate]:
        """See :class:`Strategy`. Raises KernelError when no combination at all can be applied."""
        asked: list[Candidate] = []
        while len(asked) < n:
            points = self._choose(n - len(asked))
            if not points:
                break
            asked += [made for made in map(self._candidate, points) if made is not None]
        if not asked and not self._times and self._rejected:
            raise KernelError(f"{self._task.workload.label}: {self._first_error}")
        return asked

    def tell(self, candidates: Sequence[Candidate], records: Sequence[Record]) -> None:
        """See :class:`Strategy`."""
        if not candidates:
            return
        points: list[Point] = [candidate.handle for candidate in candidates]
        seconds = [record.median_s if record.status == "ok" else math.inf for record in records]
        if self._model.trained:
            scores = self._model.predict([self._features(point) for point in points])
            self._watch.look(scores, seconds)
        self._update(points, seconds)
        if self._watch.bad:
            self._model.rebuild()
            self._watch.rebuild()

    @property
    def watch(self) -> Watch | None:
        """See :class:`Strategy`."""
        return self._watch

    @property
    def rejected(self) -> dict[str, int]:
        """See :class:`Strategy`."""
        return dict(self._rejected)

    def _learn(self, history: Sequence[Record]) -> None:
        points, seconds = [], []
        for record in history:
            if record.schedule.kind == "library" and record.schedule.name in self._entries:
                points.append(_point(record.schedule.name, record.schedule.data))
                seconds.append(record.median_s if record.status == "ok" else math.inf)
        self._seen.update(points)
        if points:
            self._update(points, seconds)

    def _update(self, points: Sequence[Point], seconds: Sequence[float]) -> None:
        for point, time in zip(points, seconds, strict=True):
            self._times[point] = min(time, self._times.get(point, math.inf))
        self._model.update([self._features(point) for point in points], seconds)

    def _choose(self, n: int) -> list[Point]:
        """Up to ``n`` new combinations, marked as seen: defaults first."""
        chosen = [point for point in map(self._default, self._entries) if self._is_new(point)][:n]
        self._seen.update(chosen)
        pool = self._pool()
        if self._model.trained:
            scores = self._model.predict([self._features(point) for point in pool])
            ranked = [point for _, point in sorted(zip(-scores, pool, strict=True), key=lambda pair: pair[0])]
        else:
            ranked = pool
        while pool and len(chosen) < n:
            explore = self._random.random() < _RANDOM_PART
            point = self._random.choice(ranked) if explore else ranked[0]
            ranked.remove(point)
            chosen.append(point)
            self._seen.add(point)
            if not ranked:
                break
        return chosen

    def _pool(self) -> list[Point]:
        """New combinations, half of them neighbours of the best; fewer than asked when the space runs out."""
        best = sorted((time, point) for point, time in self._times.items() if math.isfinite(time))[:_PARENTS]
        pool: dict[Point, None] = {}
        for _ in range(_DRAWS):
            if len(pool) >= _POOL:
                break
            if best and self._random.random() < 0.5:
                point = self._neighbour(self._random.choice(best)[1])
            else:
                point = self._draw(self._random.choice(list(self._entries)))
            if self._is_new(point):
                pool[point] = None
        return list(pool)

    def _default(self, entry: str) -> Point:
        return _point(entry, {name: values[0] for name, values in self._spaces[entry].items()})

    def _draw(self, entry: str) -> Point:
        return _point(entry, {name: self._random.choice(values) for name, values in self._spaces[entry].items()})

    def _neighbour(self, point: Point) -> Point:
        """One or two parameters moved to the next value up or down."""
        entry, items = point
        parameters = dict(items)
        movable = [name for name, values in self._spaces[entry].items() if len(values) > 1 and name in parameters]
        for name in self._random.sample(movable, min(len(movable), self._random.choice((1, 1, 2)))):
            values = sorted(self._spaces[entry][name])
            if parameters[name] in values:
                index = values.index(parameters[name]) + self._random.choice((-1, 1))
                parameters[name] = values[min(max(index, 0), len(values) - 1)]
        return _point(entry, parameters)

    def _is_new(self, point: Point) -> bool:
        entry, items = point
        return point not in self._seen and self._entries[entry].legal(
            self._task.workload, self._task.target, dict(items)
        )

    def _candidate(self, point: Point) -> Candidate | None:
        spec = ScheduleSpec("library", point[0], dict(point[1]))
        try:
            module: Any = schedule_workload(self._task.workload, self._task.target, spec)
        except KernelError as error:
            if not self._rejected:
                self._first_error = str(error)
            logger.info("%s: %s", self._task.workload.label, error)
            self._rejected["invalid"] = self._rejected.get("invalid", 0) + 1
            return None
        return Candidate(spec, module, point)

    def _features(self, point: Point) -> dict[str, int]:
        return {**dict(point[1]), f"entry:{point[0]}": 1}


def _point(entry: str, parameters: Mapping[str, int]) -> Point:
    return entry, tuple(sorted(parameters.items()))
