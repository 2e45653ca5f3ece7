"""Strategies rerun on recorded measurements: the search's own loop, with records in the device's place.

No kernel is built or timed, so hours of a machine's search are replayed in seconds, on any machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..errors import BudgetError, InputError
from ..kernels.workload import Workload
from ..stats import geometric_mean
from ..store.record import Record, ScheduleSpec
from ..targets import Caches, Target
from .builders.fake import FakeBuilder
from .runners._base import RunResult
from .runners.fake import FakeRunner
from .search import Search
from .storage import MemoryStore, schedule_key, trials_of
from .strategies.recorded import REPLAYED, RecordedStrategy
from .task import Task

LEAST = 16  # distinct schedules of a workload, under which there is nothing to search
# The records' own target is a key, and no strategy here looks at more.
_ANY = Target("llvm", "recorded", "", (), 128, 1, 1, Caches(1, 1, 1), "", 1.0, 1.0)


@dataclass(frozen=True)
class Curve:
    """Best seconds so far after each trial of one strategy with one seed on one workload; infinity before any worked.

    ``best_s``: the fastest of all recorded ones.
    """

    workload: str
    label: str
    strategy: str
    seed: int
    best_so_far: tuple[float, ...]
    best_s: float

    def ratio(self, trials: int) -> float:
        """Best after so many trials over the best recorded: 1 is all there is to find."""
        return self.best_so_far[min(trials, len(self.best_so_far)) - 1] / self.best_s


@dataclass(frozen=True)
class Replay:
    """The curves of all workloads that had enough records. ``left_out``: workloads that had too few."""

    curves: tuple[Curve, ...]
    left_out: int

    @property
    def strategies(self) -> tuple[str, ...]:
        """In the order asked for."""
        return tuple(dict.fromkeys(curve.strategy for curve in self.curves))

    @property
    def workloads(self) -> int:
        """How many were replayed."""
        return len({curve.workload for curve in self.curves})

    def mean_ratio(self, strategy: str, trials: int) -> float:
        """Geometric mean of :meth:`Curve.ratio` over workloads and seeds."""
        ratios = [curve.ratio(trials) for curve in self.curves if curve.strategy == strategy]
        return math.inf if any(map(math.isinf, ratios)) else geometric_mean(ratios)


def replay(
    records: Iterable[Record],
    strategies: Sequence[str] = tuple(REPLAYED),
    *,
    trials: int = 64,
    seeds: int = 3,
    labels: dict[str, str] | None = None,
) -> Replay:
    """Runs each strategy on each workload's records with several seeds; "recorded" has one order and one curve.

    ``labels``: names of workloads. Raises BudgetError for a strategy that cannot be replayed, InputError when no
    workload has ``LEAST`` schedules.
    """
    for name in strategies:
        if name not in REPLAYED:
            raise BudgetError(f"strategy '{name}' cannot be replayed; give some of {', '.join(REPLAYED)}")
    pools: dict[tuple[str, str, str], list[Record]] = {}
    for record in trials_of(list(records)):
        pools.setdefault((record.workload, record.target, record.tvm), []).append(record)
    enough = {key: pool for key, pool in pools.items() if _distinct(pool) >= LEAST}
    if not enough:
        raise InputError(f"no workload has {LEAST} recorded schedules or more; a replay needs logs of whole searches")
    curves = [
        _curve(pool, REPLAYED[name], seed, trials, (labels or {}).get(key[0], key[0][:12]))
        for key, pool in enough.items()
        for name in strategies
        for seed in range(1 if name == "recorded" else seeds)
    ]
    return Replay(tuple(curves), len(pools) - len(enough))


def _distinct(pool: Sequence[Record]) -> int:
    worked = any(record.status == "ok" for record in pool)
    return len({schedule_key(record.schedule) for record in pool}) if worked else 0


def _curve(pool: Sequence[Record], kind: type[RecordedStrategy], seed: int, trials: int, label: str) -> Curve:
    known = {schedule_key(record.schedule): record for record in pool}
    here = type(kind.__name__, (kind,), {"pool": tuple(pool)})
    workload = Workload(pool[0].workload, None, (), 0, (), (), 0.0, 0)
    search = Search(Task(workload, _ANY), here, FakeBuilder(), _device(known), MemoryStore(), trials=trials, seed=seed)
    while search.step():
        pass
    best, least = [], math.inf
    for record in search.told:
        least = min(least, record.median_s)
        best.append(least)
    fastest = min(record.median_s for record in pool)
    return Curve(pool[0].workload, label, kind.name, seed, tuple(best), fastest)


def _device(known: dict[str, Record]) -> FakeRunner:
    """Answers with what was measured of a schedule, failures included."""

    def answer(schedule: ScheduleSpec) -> RunResult:
        record = known[schedule_key(schedule)]
        return RunResult(record.status, record.seconds, record.error)

    return FakeRunner(fault=answer)
