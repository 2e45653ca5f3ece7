"""Contract tests that every strategy, builder and runner must pass; also those of other packages.

A test module subclasses a contract and says how to make the part::

    class TestMyStrategy(StrategyContract):
        def make(self, seed, history): return MyStrategy(task, seed, history)
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from ..store.record import MeasureSettings, Record, ScheduleSpec, Status
from ..tvm_seam import tvm_version
from .builders._base import Builder, BuildResult
from .runners._base import Runner
from .strategies._base import Strategy
from .task import Candidate, Task


def record_of(task: Task, candidate: Candidate, seconds: float | None, status: Status = "run_error") -> Record:
    """A record as the search would keep it; failed with ``status`` where ``seconds`` is None."""
    return Record(
        task.workload.key,
        task.target.key,
        tvm_version(),
        candidate.schedule,
        "ok" if seconds is not None else status,
        (seconds,) * 3 if seconds is not None else (),
        MeasureSettings(),
        "" if seconds is not None else "made to fail",
    )


class StrategyContract:
    """What the search relies on. ``task`` is one that the strategy serves, with at least eight schedules."""

    task: Task

    def make(self, seed: int, history: Sequence[Record]) -> Strategy:
        """The strategy under test, for ``task``."""
        raise NotImplementedError

    def test_it_serves_the_task_and_has_a_name(self) -> None:
        strategy = self.make(0, [])
        assert strategy.name
        assert type(strategy).serves(self.task)
        strategy.close()

    def test_asks_no_more_than_wanted_and_nothing_twice(self) -> None:
        strategy = self.make(0, [])
        asked: list[str] = []
        for round_ in range(3):
            candidates = strategy.ask(4)
            assert len(candidates) <= 4
            asked += [key_of(candidate) for candidate in candidates]
            records = [record_of(self.task, item, 1e-3 * (1 + round_)) for item in candidates]
            strategy.tell(candidates, records)
        assert len(asked) >= 8
        assert len(set(asked)) == len(asked)
        strategy.close()

    def test_history_is_not_asked_again(self) -> None:
        first = self.make(0, [])
        candidates = first.ask(8)
        history = [record_of(self.task, item, 1e-3 if i % 2 else None) for i, item in enumerate(candidates)]
        first.close()
        second = self.make(0, history)
        again = second.ask(8)
        assert not {key_of(candidate) for candidate in again} & {key_of(candidate) for candidate in candidates}
        second.close()

    def test_failures_and_partial_batches_are_taken(self) -> None:
        strategy = self.make(0, [])
        for _ in range(3):
            candidates = strategy.ask(4)[:2]
            strategy.tell(candidates, [record_of(self.task, item, None, "crash") for item in candidates])
        strategy.tell([], [])
        strategy.close()

    def test_the_same_seed_asks_the_same(self) -> None:
        first, second = self.make(3, []), self.make(3, [])
        assert [key_of(item) for item in first.ask(4)] == [key_of(item) for item in second.ask(4)]
        first.close()
        second.close()

    def test_schedules_are_plain_json(self) -> None:
        strategy = self.make(0, [])
        for candidate in strategy.ask(4):
            text = json.dumps(candidate.schedule.to_json())
            assert ScheduleSpec.from_json(json.loads(text)) == candidate.schedule
        strategy.close()


class BuilderContract:
    """``make()`` gives a builder; ``candidates`` at least three that build."""

    task: Task
    candidates: Sequence[Candidate]

    def make(self) -> Builder:
        """The builder under test."""
        raise NotImplementedError

    def test_one_result_a_candidate_in_order(self) -> None:
        builder = self.make()
        try:
            results = builder.build(self.task, self.candidates)
        finally:
            builder.close()
        assert [result.status for result in results] == ["ok"] * len(self.candidates)
        for candidate, result in zip(self.candidates, results, strict=True):
            assert result.kernel is not None
            assert result.kernel.schedule == candidate.schedule
            assert result.kernel.workload == self.task.workload.key
            assert result.library is not None
            assert result.error == ""

    def test_no_candidates_no_results(self) -> None:
        builder = self.make()
        try:
            assert builder.build(self.task, []) == []
        finally:
            builder.close()

    def test_libraries_are_gone_after_close(self) -> None:
        builder = self.make()
        results = builder.build(self.task, self.candidates)
        builder.close()
        assert not any(result.library is not None and result.library.exists() for result in results)


class RunnerContract:
    """``make()`` gives a runner; ``builds`` good builds of ``task``, which a runner may measure again."""

    task: Task
    builds: Sequence[BuildResult]

    def make(self) -> Runner:
        """The runner under test."""
        raise NotImplementedError

    def test_times_are_positive_seconds(self) -> None:
        runner = self.make()
        try:
            results = runner.run(self.task, self.builds)
        finally:
            runner.close()
        assert len(results) == len(self.builds)
        for result in results:
            assert result.status == "ok", result.error
            assert 0 < len(result.seconds) <= runner.settings.repeat
            assert all(0 < seconds < 60 for seconds in result.seconds)

    def test_a_comparison_gives_a_time_a_round_and_keeps_failed_builds(self) -> None:
        runner = self.make()
        failed = dataclasses.replace(self.builds[0], kernel=None, library=None, status="crash", error="no")
        try:
            first, lost, second = runner.compare(self.task, [self.builds[0], failed, self.builds[1]], 5)
            nothing = runner.compare(self.task, [], 5)
        finally:
            runner.close()
        assert nothing == []
        assert (lost.status, lost.seconds, lost.error) == ("crash", (), "no")
        for result in (first, second):
            assert result.status == "ok", result.error
            assert len(result.seconds) == 5
            assert all(0 < seconds < 60 for seconds in result.seconds)

    def test_a_failed_build_keeps_its_status(self) -> None:
        runner = self.make()
        failed = dataclasses.replace(self.builds[0], kernel=None, library=None, status="timeout", error="too slow")
        try:
            result = runner.run(self.task, [failed])[0]
        finally:
            runner.close()
        assert (result.status, result.seconds, result.error) == ("timeout", (), "too slow")


def key_of(candidate: Candidate) -> str:
    """A candidate's schedule as text."""
    return json.dumps(candidate.schedule.to_json(), sort_keys=True)
