"""Timing several callables fairly in one process: interleaved, in random order, until the intervals are tight."""

from __future__ import annotations

import gc
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..stats import median_interval, relative_half_width

Clock = Callable[[], float]

SAMPLE_S = 0.01  # one sample lasts at least so long: well above the clock's resolution and a thread's wake-up
SLOW_ROUNDS = 3
SLOW_SHARE = 0.25  # of the time: what callables that take long per call may use beyond their least rounds
WARM_UP_ROUNDS = 2
CHECK_EVERY = 5  # rounds between two looks at the intervals
QUICK_RESAMPLES = 300  # for deciding when to stop; the figures that are shown use more


@dataclass(frozen=True)
class Timings:
    """Seconds per call. ``samples[name][i]`` was taken in round ``rounds[name][i]``; warm-up rounds are not there.

    ``inner``: calls that make one sample. ``failed``: callables that raised, with what they raised; they have no
    samples. ``stopped``: "tight", "time", "rounds", or "interrupted" (Ctrl-C; what was sampled by then is kept).
    """

    samples: Mapping[str, tuple[float, ...]]
    rounds: Mapping[str, tuple[int, ...]]
    inner: Mapping[str, int]
    failed: Mapping[str, Exception]
    seconds: float
    stopped: str

    def paired(self, first: str, second: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Samples of the rounds in which both were timed, in the same order."""
        mine = dict(zip(self.rounds[first], self.samples[first], strict=True))
        other = dict(zip(self.rounds[second], self.samples[second], strict=True))
        common = [number for number in mine if number in other]
        return tuple(mine[number] for number in common), tuple(other[number] for number in common)


@dataclass
class _Timed:
    """One callable on its way through the rounds."""

    call: Callable[[], None]
    slow: bool
    inner: int = 1
    samples: list[float] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    spent: float = 0.0

    def enough(self, min_rounds: int) -> bool:
        return len(self.samples) >= (SLOW_ROUNDS if self.slow else min_rounds)


@dataclass(frozen=True)
class _Limits:
    """When to stop; see :func:`time_interleaved`."""

    seconds: float
    min_rounds: int
    max_rounds: int
    half_width: float
    sample_s: float


def time_interleaved(
    callables: Mapping[str, Callable[[], None]],
    *,
    seconds: float,
    min_rounds: int = 5,
    max_rounds: int = 1000,
    target_half_width: float = 0.01,
    sample_s: float = SAMPLE_S,
    seed: int = 0,
    clock: Clock = time.perf_counter,
    slow: frozenset[str] = frozenset(),
) -> Timings:
    """Times the callables round-robin, in a new random order every round, so that a drift of the machine hits all.

    Stops when the 95 % interval of every median is within ``target_half_width`` of it, or when ``seconds`` have
    passed and each has ``min_rounds`` samples, or after ``max_rounds``. Callables named in ``slow``, and those that
    would use up the time by themselves, take part in fewer rounds (at least three) and do not hold the others up.
    """
    limits = _Limits(seconds, min_rounds, max_rounds, target_half_width, sample_s)
    race = _Race(callables, slow, clock)
    with _quiet_collector():
        race.calibrate(limits)
        try:
            stopped = race.run(limits, random.Random(seed))
        except KeyboardInterrupt:
            if not all(one.samples for one in race.timed.values()):
                raise
            stopped = "interrupted"
    return Timings(
        samples={name: tuple(one.samples) for name, one in race.timed.items()},
        rounds={name: tuple(one.rounds) for name, one in race.timed.items()},
        inner={name: one.inner for name, one in race.timed.items()},
        failed=race.failed,
        seconds=race.elapsed(),
        stopped=stopped,
    )


class _Race:
    """The callables that are still in, and those that raised."""

    def __init__(self, callables: Mapping[str, Callable[[], None]], slow: frozenset[str], clock: Clock) -> None:
        self.timed = {name: _Timed(call, name in slow) for name, call in callables.items()}
        self.failed: dict[str, Exception] = {}
        self._clock = clock
        self._begin = clock()

    def elapsed(self) -> float:
        return self._clock() - self._begin

    def calibrate(self, limits: _Limits) -> None:
        """Chooses how many calls make a sample, from a second call: the first one loads code and fills caches."""
        limit = limits.seconds / (2 * limits.min_rounds * max(1, len(self.timed)))
        for name in list(self.timed):
            duration = self._duration(name)
            if duration is not None and duration < limit:
                duration = self._duration(name)
            if duration is not None:
                one = self.timed[name]
                one.inner = max(1, math.ceil(limits.sample_s / max(duration, 1e-9)))
                one.slow = one.slow or duration > limit

    def run(self, limits: _Limits, order: random.Random) -> str:
        """Runs rounds until one of the reasons to stop holds; returns which."""
        for number in range(-WARM_UP_ROUNDS, limits.max_rounds):
            names = [name for name in self.timed if self._takes_part(name, number)]
            order.shuffle(names)
            for name in names:
                self._sample(name, number)
            done = number + 1
            if done < limits.min_rounds or not all(one.enough(limits.min_rounds) for one in self.timed.values()):
                continue
            if done % CHECK_EVERY == 0 and self._all_tight(limits.half_width):
                return "tight"
            if self.elapsed() >= limits.seconds:
                return "time"
        return "rounds"

    def _takes_part(self, name: str, number: int) -> bool:
        """A slow callable needs no warm-up rounds, and after its least rounds only takes its share of the time."""
        one = self.timed[name]
        if not one.slow:
            return True
        return number >= 0 and (len(one.samples) < SLOW_ROUNDS or one.spent < SLOW_SHARE * self.elapsed())

    def _all_tight(self, half_width: float) -> bool:
        """Slow callables are there for orientation: the others do not wait for their intervals."""
        fast = (one for one in self.timed.values() if not one.slow)
        intervals = (median_interval(one.samples, resamples=QUICK_RESAMPLES) for one in fast)
        return all(relative_half_width(interval) <= half_width for interval in intervals)

    def _sample(self, name: str, number: int) -> None:
        duration = self._duration(name)
        if duration is None:
            return
        one = self.timed[name]
        one.spent += duration
        if number >= 0:
            one.samples.append(duration / one.inner)
            one.rounds.append(number)

    def _duration(self, name: str) -> float | None:
        """Seconds of one sample. A callable that raises leaves the race and is reported; the others go on."""
        one = self.timed[name]
        call, clock = one.call, self._clock
        try:
            begin = clock()
            for _ in range(one.inner):
                call()
            return clock() - begin
        except Exception as error:
            self.failed[name] = error
            del self.timed[name]
            return None


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """Python's garbage collector would stop some samples and not others."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
