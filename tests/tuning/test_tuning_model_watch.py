"""What a cost model is worth, round by round, and what happens to one that is worth nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tuning_tasks import matmul_task, plain_task

from workbench.report.live import line
from workbench.store.record import Record
from workbench.tuning import Budget, Event, MemoryStore, Task, tune_tasks
from workbench.tuning.builders import FakeBuilder
from workbench.tuning.cost_models import Round, Watch, top_recall
from workbench.tuning.cost_models.watch import BAD_ROUNDS
from workbench.tuning.cost_models.xgboost import ParameterModel
from workbench.tuning.runners import FakeRunner
from workbench.tuning.strategies import AnsorStrategy
from workbench.tuning.strategies.fake import GridStrategy
from workbench.tuning.task import Candidate


def test_recall_counts_the_fastest_that_were_seen() -> None:
    seconds = [1e-3 * (1 + index) for index in range(16)]
    assert top_recall([-one for one in seconds], seconds) == 1.0
    assert top_recall(seconds, seconds) == 0.0
    half = [10.0] * 4 + [0.0] * 4 + [5.0] * 4 + [0.0] * 4
    assert top_recall(half, seconds) == 0.5
    assert top_recall([1.0] * 8, seconds[:8]) is None
    assert top_recall([1.0] * 9, [*seconds[:8], math.inf]) is None


def test_three_rounds_worse_than_chance_are_enough_and_a_better_one_starts_anew() -> None:
    seconds, right = [1e-3, 2e-3, 3e-3, 4e-3], np.array([4.0, 3.0, 2.0, 1.0])
    watch = Watch()
    assert watch.last is None
    for scores in (-right, -right, right, -right, -right):
        watch.look(scores, seconds)
        assert not watch.bad
    watch.look(-right, seconds)
    assert watch.bad
    watch.rebuild()
    assert (watch.bad, watch.rebuilt, len(watch.rounds)) == (False, 1, 6)
    assert watch.last == Round(-1.0, None)


def test_a_rebuilt_model_has_learnt_the_same() -> None:
    model = ParameterModel(["x"], seed=0)
    points = [{"x": 2**power} for power in range(14)]
    model.update(points, [1e-3 * 2**power for power in range(14)])
    before = model.predict(points)
    model.rebuild()
    assert model.trained
    assert np.corrcoef(before, model.predict(points))[0, 1] > 0.99


class Misled(GridStrategy):
    """Its model is wrong in every round until it is built anew."""

    def __init__(self, task: Task, seed: int, history: Sequence[Record]) -> None:
        super().__init__(task, seed, history)
        self._watch = Watch()

    @property
    def watch(self) -> Watch:
        return self._watch

    def tell(self, candidates: Sequence[Candidate], records: Sequence[Record]) -> None:
        seconds = np.array([record.median_s for record in records])
        self._watch.look(seconds if not self._watch.rebuilt else -seconds, seconds.tolist())
        if self._watch.bad:
            self._watch.rebuild()


def test_every_round_shows_the_model_and_a_rebuilt_one_is_said() -> None:
    said: list[Event] = []
    tune_tasks(
        [plain_task()],
        Budget(trials_per_task=1 + 16 * (BAD_ROUNDS + 2)),
        store=MemoryStore(),
        builder=FakeBuilder(),
        runner=FakeRunner(),
        chooser=lambda task: Misled,
        on_event=said.append,
    )
    batches = [event for event in said if event.kind == "batch"]
    assert [event.model and event.model.correlation for event in batches] == pytest.approx([-1, -1, -1, 1, 1])
    assert "(model -1.00, top-8 0/8)" in (line(batches[0]) or "")
    assert "(model 1.00, top-8 8/8)" in (line(batches[-1]) or "")
    notes = [event.message for event in said if event.kind == "note"]
    assert notes == [
        "matmul+relu: its cost model ranked worse than chance for 3 rounds, and is built anew",
    ]


def test_a_strategy_on_traces_rebuilds_its_model_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times that turn round from batch to batch: whatever the model has learnt is wrong in the next."""
    strategy: Any = AnsorStrategy(matmul_task(64), 0, [])
    monkeypatch.setattr(type(strategy._model), "predict", lambda self, candidates: np.arange(float(len(candidates))))
    from workbench.tuning.testing import record_of

    for _ in range(BAD_ROUNDS + 1):
        asked = strategy.ask(16)
        times = [1e-3 * (1 + index) for index in range(len(asked))]
        strategy.tell(asked, [record_of(matmul_task(64), one, t) for one, t in zip(asked, times, strict=True)])
    assert strategy.watch.rebuilt == 1
    assert strategy._model.trained
