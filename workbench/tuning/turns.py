"""One task inside a job: its default, its search in turns, its finals. Whatever goes wrong in it is its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ..errors import KernelError, SetupError, StoreError
from ..store.record import Record
from .cost_models.watch import BAD_ROUNDS
from .finals import words
from .interrupt import InterruptGuard
from .schedule import Progress
from .search import Search
from .strategies import Strategy
from .task import TaskResult

logger = logging.getLogger(__name__)
TRIES = 3  # seeds that a group gets before it counts as one without a valid candidate
ENOUGH_FAILED = 16  # candidates that all failed end a try


@dataclass(frozen=True)
class Choice:
    """The strategy of a task, or why it has none; ``split``: the group should not be one kernel."""

    kind: type[Strategy] | None
    note: str = ""
    split: bool = False


class TaskTurns:
    """Driven by the job: :meth:`start`, :meth:`turn` while ``going``, :meth:`finals`, :meth:`result`."""

    def __init__(self, search: Search, choice: Choice, guard: InterruptGuard, clock: Callable[[], float]) -> None:
        self.search, self.choice = search, choice
        self.going = True
        self.notes: list[str] = [choice.note]
        self.seconds = 0.0  # that start and turns took
        self._guard, self._clock = guard, clock
        self._seeds = [search.seed]
        self._rejected: dict[str, int] = {}  # by strategies of earlier tries

    @property
    def progress(self) -> Progress:
        """For the choice of the next turn."""
        times = tuple(record.median_s for record in self.search.told)
        return Progress(times, self.search.task.weight, self.seconds, self.going)

    def start(self) -> str:
        """The default, then the strategy; a word for people where an earlier search is not continued."""
        self._guarded(self._start)
        return self.search.changed

    def turn(self, n: int) -> str:
        """One batch of at most ``n`` candidates; a word for people where the cost model was built anew."""
        before = self._rebuilt
        self._guarded(lambda: self._turn(n))
        if self._rebuilt == before:
            return ""
        label = self.search.task.workload.label
        return f"{label}: its cost model ranked worse than chance for {BAD_ROUNDS} rounds, and is built anew"

    @property
    def _rebuilt(self) -> int:
        watch = None if self.search.strategy is None else self.search.strategy.watch
        return 0 if watch is None else watch.rebuilt

    def finals(self, allotted_s: float | None, worth: float | None = None) -> None:
        """Marks why the search ended, and chooses the winner."""
        if self.choice.kind is not None:
            self.search.mark_end(self.choice.kind.name, allotted_s, worth)
        self._guarded(self._verify)

    def result(self, cached: bool, interrupted: bool = False) -> TaskResult:
        """Frees the strategy and keeps the winner."""
        if self.search.strategy is not None:
            self.search.strategy.close()
        note = "interrupted" if interrupted else "; ".join(dict.fromkeys(filter(None, self.notes)))
        result = replace(self.search.finish(note), cached=cached)
        result = replace(result, failed=_summed(self._rejected, result.failed))
        if self.choice.split:
            return replace(result, best=None)
        if result.best is None and not note:
            error = result.first_error
            why = f"no candidate worked: {error}" if error else "the budget ended before a candidate was tried"
            return replace(result, note=why)
        return result

    def _start(self) -> None:
        self.search.measure_default()
        if self.choice.kind is None:
            self.going = False
        elif not self.search.end:
            self._begin()
        self.going = self.going and not self.search.end

    def _begin(self) -> None:
        try:
            self.search.begin()
        except KernelError as error:
            if not self._another_seed(str(error)):
                raise

    def _turn(self, n: int) -> None:
        try:
            self.going = self.search.step(n)
        except KernelError as error:
            if not self._another_seed(str(error)):
                raise
            return
        tried = self.search.tried
        if not any(record.status == "ok" for record in tried) and (len(tried) >= ENOUGH_FAILED or not self.going):
            self._another_seed("")

    def _another_seed(self, error: str) -> bool:
        """Tries again where nothing worked so far; False when it has been tried often enough, or something did."""
        if self.search.end in ("trials", "time") or any(record.status == "ok" for record in self.search.tried):
            return False
        if len(self._seeds) == TRIES:
            self.going = False
            self.notes.append(self._failure(error))
            self.search.end = "exhausted"
            return True
        self._seeds.append(self.search.seed + 1)
        if self.search.strategy is not None:
            self._rejected = _summed(self._rejected, self.search.strategy.rejected)
        self.search.restart(self._seeds[-1])
        self.going = True
        self._begin()
        return True

    def _failure(self, error: str) -> str:
        """Why nothing worked, by category with one example each."""
        examples: dict[str, list[Record]] = {}
        for record in self.search.records:
            if record.status != "ok" and record.schedule.kind != "default":
                examples.setdefault(record.status, []).append(record)
        said = [f"{len(found)} {status} ({found[0].error})" for status, found in examples.items()]
        rejected = self.search.strategy.rejected if self.search.strategy is not None else {}
        said += [f"{count} {category}" for category, count in _summed(self._rejected, rejected).items()]
        if error:
            said.append(error)
        reason = "; ".join(said) or "its space holds no candidate"
        return f"no valid candidate with {TRIES} seeds: {reason}; the default schedule is used"

    def _verify(self) -> None:
        verdict = self.search.verify()
        if verdict is not None:
            self.notes.append(words(verdict, self.search.drift))

    def _guarded(self, work: Callable[[], None]) -> None:
        """TVM raises anything, and one task must not end the others."""
        began = self._clock()
        try:
            work()
        except (SetupError, StoreError, KeyboardInterrupt):
            raise
        except Exception as error:
            if self._guard.interrupted:  # Ctrl-C inside a callback of TVM
                raise KeyboardInterrupt from error
            self.going = False
            note = " ".join(str(error).split()) or type(error).__name__
            self.notes.append(note)
            label = self.search.task.workload.label
            logger.warning("%s: %s", label, note, exc_info=not isinstance(error, KernelError))
        finally:
            self.seconds += self._clock() - began


def _summed(*counts: Mapping[str, int]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in counts:
        for category, number in one.items():
            total[category] = total.get(category, 0) + number
    return total
