"""Which task the next batch of trials goes to, and what it is worth. Pure; seconds throughout.

A task's best time falls with its trials about as a power law: each doubling of the trials multiplies it by the same
factor. So the next ``k`` trials of a task with ``n`` are expected to save ``weight * best * (1 - (n / (n + k)) ** c)``,
where ``c`` is between what searches usually show and what this one's last doubling has shown. Ansor's gradient (Zheng
et al., OSDI 2020) weighs the same two, the slope of the past and an optimistic guess, but per task alone; the law gives
seconds of the whole model, which can be compared with what the trials cost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

USUAL = 0.15  # exponent over the committed searches, see benchmarks/search_curves.py
OWN_PART = 0.5  # of the exponent comes from the task's own last doubling


@dataclass(frozen=True)
class Progress:
    """Where a task's search stands.

    ``times``: seconds of its trials in order, infinity for a failed one. ``weight``: how often the whole calls it.
    ``seconds``: what its trials took. ``open``: whether more may be made.
    """

    times: tuple[float, ...]
    weight: int
    seconds: float
    open: bool

    @property
    def best(self) -> float:
        """Infinity while nothing worked."""
        return min(self.times, default=math.inf)

    @property
    def seconds_per_trial(self) -> float:
        """Of the trials so far."""
        return self.seconds / len(self.times) if self.times else 0.0


def exponent(times: Sequence[float]) -> float:
    """The power law's exponent: the mean of the usual one and that of the last doubling of the trials.

    >>> round(exponent([4.0, 3.0, 2.0, 1.5]), 2)
    0.36
    """
    half = len(times) // 2
    before, now = min(times[:half], default=math.inf), min(times, default=math.inf)
    if not math.isfinite(before):
        return USUAL
    own = math.log(before / now) / math.log(len(times) / half)
    return (1 - OWN_PART) * USUAL + OWN_PART * own


def gain(progress: Progress, trials: int) -> float:
    """Seconds that the whole model is expected to become faster by with so many more trials of this task.

    Infinity where nothing worked yet: such a task comes first.
    """
    if not progress.open or trials <= 0:
        return 0.0
    if not math.isfinite(progress.best):
        return math.inf
    count = len(progress.times)
    part = 1.0 - (count / (count + trials)) ** exponent(progress.times)
    return progress.weight * progress.best * part


def choose(tasks: Mapping[int, Progress], trials: int) -> int | None:
    """The task whose next ``trials`` are expected to gain most; None when none is open. Ties go to the first.

    The gain counts, not the gain a second: choices then depend on measured times of kernels alone, and a search that
    was interrupted chooses again as before.
    """
    open_ = [index for index, progress in tasks.items() if progress.open]
    return max(open_, key=lambda index: gain(tasks[index], trials), default=None)


def worth_of_a_minute(tasks: Mapping[int, Progress], trials: int) -> float:
    """The part of the whole's time that a minute of search is expected to save, 0 to 1; infinity where a task has no
    time yet.

    The minute goes, batch by batch, where it gains most a second.
    """
    whole = sum(progress.weight * progress.best for progress in tasks.values())
    if not math.isfinite(whole):
        return math.inf
    spent, saved = 0.0, 0.0
    more = dict.fromkeys((index for index, progress in tasks.items() if progress.open), 0)

    def next_gain(index: int) -> float:
        return gain(tasks[index], more[index] + trials) - gain(tasks[index], more[index])

    def cost(index: int) -> float:
        return max(1e-3, trials * tasks[index].seconds_per_trial)

    while more and spent < 60.0:
        index = max(more, key=lambda one: next_gain(one) / cost(one))
        part = min(1.0, (60.0 - spent) / cost(index))
        saved += part * next_gain(index)
        spent += cost(index)
        more[index] += trials
    return saved / whole if whole > 0 else 0.0
