"""Strategies: the contract, what is not tunable, duplicates, stored traces, and the choice among them."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from tuning_tasks import TARGET, TwoTiles, matmul_task, plain_task, te_task

import schedules
from workbench.errors import BudgetError, KernelError
from workbench.kernels.schedule import schedule_workload
from workbench.store.record import Record, ScheduleSpec
from workbench.tuning import Task
from workbench.tuning.analysis import inlined_size, structure
from workbench.tuning.cost_models import rank_correlation
from workbench.tuning.cost_models.xgboost import ParameterModel
from workbench.tuning.strategies import (
    STRATEGIES,
    AnsorStrategy,
    LibraryStrategy,
    MetaScheduleStrategy,
    NotTunable,
    RandomStrategy,
    Strategy,
    UnionStrategy,
    choose,
    chooser,
    metaschedule,
)
from workbench.tuning.strategies.fake import GridStrategy
from workbench.tuning.strategies.metaschedule import population_for
from workbench.tuning.testing import StrategyContract, key_of, record_of
from workbench.tvm_seam import tvm, tvm_ffi

te, topi = tvm.te, tvm.topi


def placeholder(*shape: int, name: str = "a", dtype: str = "float32") -> Any:
    return te.placeholder(shape, name=name, dtype=dtype)


def softmax_task() -> Task:
    a = placeholder(64, 128)
    return te_task([a, topi.nn.softmax(a)], ("nn.softmax",), "softmax")


def two_matmuls() -> Task:
    a, b = placeholder(32, 32), placeholder(32, 32, name="b")
    return te_task([a, b, topi.matmul(topi.matmul(a, b), b)], ("matmul", "matmul"), "two")


def constant_fill() -> Task:
    return te_task([topi.full((1, 12, 4096), "int64", 3)], ("full",), "fill")


def searchsorted() -> Task:
    sorted_, queries = placeholder(10, dtype="int32"), placeholder(5, name="q", dtype="int32")
    return te_task([sorted_, queries, topi.searchsorted(sorted_, queries)], ("searchsorted",), "search")


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[TwoTiles]:
    entry = TwoTiles()
    monkeypatch.setattr(schedules, "for_workload", lambda workload, target: [entry] if entry.serves(workload) else [])
    monkeypatch.setattr(schedules, "get", lambda name: entry)
    return entry


class TestGrid(StrategyContract):
    task = plain_task()

    def make(self, seed: int, history: Sequence[Record]) -> Strategy:
        return GridStrategy(self.task, seed, history)


class TestMetaSchedule(StrategyContract):
    task = matmul_task(64)

    def make(self, seed: int, history: Sequence[Record]) -> Strategy:
        return MetaScheduleStrategy(self.task, seed, history, population=48, generations=1)


class TestAnsor(StrategyContract):
    task = matmul_task(64)

    def make(self, seed: int, history: Sequence[Record]) -> Strategy:
        return AnsorStrategy(self.task, seed, history)


class TestRandom(StrategyContract):
    task = matmul_task(64)

    def make(self, seed: int, history: Sequence[Record]) -> Strategy:
        return RandomStrategy(self.task, seed, history)


@pytest.mark.usefixtures("library")
class TestLibrary(StrategyContract):
    task = matmul_task(64)

    def make(self, seed: int, history: Sequence[Record]) -> Strategy:
        return LibraryStrategy(self.task, seed, history)


@pytest.mark.usefixtures("library")
class TestUnion(StrategyContract):
    task = matmul_task(64)

    def make(self, seed: int, history: Sequence[Record]) -> Strategy:
        return UnionStrategy(self.task, seed, history)


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("winner", ["library", "trace"])
def test_a_union_follows_the_part_that_leads(winner: str) -> None:
    task = matmul_task(64)
    strategy = UnionStrategy(task, 0, [])
    shares = []
    for _ in range(3):
        batch = strategy.ask(8)
        shares.append(sum(item.schedule.kind == winner for item in batch))
        strategy.tell(batch, [record_of(task, item, 1e-3 if item.schedule.kind == winner else 2e-3) for item in batch])
    assert shares == [4, 6, 6]


@pytest.mark.usefixtures("library")
def test_a_union_goes_on_without_a_part_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> Any:
        raise KernelError("made to fail")

    monkeypatch.setattr(MetaScheduleStrategy, "ask", broken)
    strategy = UnionStrategy(matmul_task(64), 0, [])
    batch = strategy.ask(8)
    assert {item.schedule.kind for item in batch} == {"library"}
    strategy.tell(batch, [record_of(matmul_task(64), item, 1e-3) for item in batch])
    assert strategy.ask(8)
    monkeypatch.setattr(MetaScheduleStrategy, "__init__", broken)
    assert UnionStrategy(matmul_task(64), 0, []).ask(4)
    monkeypatch.setattr(LibraryStrategy, "__init__", broken)
    with pytest.raises(KernelError, match="made to fail"):
        UnionStrategy(matmul_task(64), 0, [])


@pytest.mark.usefixtures("library")
def test_library_asks_its_default_first_then_everything_once() -> None:
    strategy = LibraryStrategy(matmul_task(), 0, [])
    first = strategy.ask(1)
    assert first[0].schedule == ScheduleSpec("library", "two-tiles", {"rows": 4, "columns": 16, "order": 0})
    asked = list(first)
    while batch := strategy.ask(16):
        strategy.tell(batch, [record_of(matmul_task(), item, 1e-3) for item in batch])
        asked += batch
    legal = [(r, c, o) for r in (1, 2, 4, 8) for c in (4, 8, 16, 32, 64) for o in (0, 1) if r * c <= 256]
    points = [tuple(item.schedule.data[name] for name in ("rows", "columns", "order")) for item in asked]
    assert sorted(points) == sorted(legal)
    assert sum(strategy.rejected.values()) == len([c for c in (4, 8, 16) for o in (0, 1)])  # 16 rows cannot be applied


@pytest.mark.usefixtures("library")
def test_library_finds_the_best_parameters_sooner_than_chance() -> None:
    task = matmul_task()

    def seconds(data: Mapping[str, int]) -> float:
        distance = abs(math.log2(data["rows"]) - 3) + abs(math.log2(data["columns"]) - 5) + data["order"]
        return 1e-3 * (1 + distance)

    ranks = []
    for seed in range(6):
        strategy, position = LibraryStrategy(task, seed, []), 0
        while batch := strategy.ask(6):
            times = [seconds(item.schedule.data) for item in batch]
            strategy.tell(batch, [record_of(task, item, time) for item, time in zip(batch, times, strict=True)])
            if 1e-3 in times:
                ranks.append(position + times.index(1e-3))
                break
            position += len(batch)
    assert len(ranks) == 6
    assert np.mean(ranks) < 15.5  # of about 36 points a random order finds it at 18 on average


def test_choice_by_structure() -> None:
    assert choose(matmul_task()) is MetaScheduleStrategy
    assert choose(softmax_task()) is MetaScheduleStrategy
    with pytest.raises(KernelError, match=r"nothing can schedule this group.*2 contractions.*split it") as split:
        choose(two_matmuls())
    assert not isinstance(split.value, NotTunable)


# T06 and T09.
@pytest.mark.parametrize(("make", "reason"), [(searchsorted, "while loop"), (constant_fill, "reads nothing")])
def test_what_cannot_be_searched_is_classed_not_tunable(make: Any, reason: str) -> None:
    with pytest.raises(NotTunable, match=f"not tunable.*{reason}"):
        choose(make())
    assert not MetaScheduleStrategy.serves(make())


@pytest.mark.usefixtures("library")
def test_the_library_takes_part_where_it_serves() -> None:
    assert choose(matmul_task()) is UnionStrategy
    assert choose(two_matmuls()) is LibraryStrategy
    assert choose(softmax_task()) is MetaScheduleStrategy


def test_convolutions_and_reductions_are_told_apart() -> None:
    x, w, d = placeholder(1, 8, 16, 16), placeholder(8, 8, 3, 3, name="w"), placeholder(8, 1, 3, 3, name="d")
    counts = {
        "conv": te_task([x, w, topi.nn.conv2d(x, w, 1, 1, 1)], ("nn.conv2d",), "c"),
        "depthwise": te_task([x, d, topi.nn.depthwise_conv2d_nchw(x, d, 1, 1, 1)], ("nn.conv2d",), "d"),
        "pool": te_task([x, topi.nn.pool2d(x, [2, 2], [2, 2], [1, 1], [0, 0, 0, 0], "max")], ("nn.max_pool2d",), "p"),
    }
    assert {name: structure(task.workload.module).contractions for name, task in counts.items()} == {
        "conv": 1,
        "depthwise": 1,
        "pool": 0,
    }


def _doubled(times: int) -> Any:
    """``x * x`` again and again: the expression for one element doubles each time."""
    x = y = placeholder(8, 8)
    for _ in range(times):
        y = topi.multiply(y, y)
    return te_task([x, y], ("multiply",) * times, f"doubled{times}").workload.module


def test_long_expressions_have_small_populations() -> None:
    assert inlined_size(matmul_task().workload.module) == 4 * 3  # three blocks and the root; max(sum + c, 0)
    assert inlined_size(_doubled(3)) == 4 * 7
    assert [population_for(_doubled(times)) for times in (3, 7, 9, 40)] == [128, 125, 25, 16]


def test_duplicates_by_code_are_asked_once() -> None:
    strategy = MetaScheduleStrategy(matmul_task(16), 0, [], population=48, generations=1)
    hashes = []
    for _ in range(4):
        batch = strategy.ask(16)
        hashes += [tvm_ffi.structural_hash(item.module) for item in batch]
        strategy.tell(batch, [record_of(matmul_task(16), item, 1e-3) for item in batch])
    assert len(hashes) == len(set(hashes)) >= 32


def test_a_small_space_ends() -> None:
    a = placeholder(128, 128)
    strategy = MetaScheduleStrategy(te_task([a, topi.tanh(a)], ("tanh",), "tanh"), 0, [])
    asked = 0
    while batch := strategy.ask(16):
        asked += len(batch)
        strategy.tell(batch, [record_of(matmul_task(), item, 1e-3) for item in batch])
    assert 1 <= asked < 100


# T22: what is stored can be read back.
def test_traces_are_stored_only_when_they_read_back_to_the_same_program(monkeypatch: pytest.MonkeyPatch) -> None:
    task = matmul_task(64)
    strategy = MetaScheduleStrategy(task, 0, [], population=48, generations=1)
    for candidate in strategy.ask(8):
        spec = ScheduleSpec.from_json(json.loads(json.dumps(candidate.schedule.to_json())))
        assert tvm_ffi.structural_equal(schedule_workload(task.workload, TARGET, spec), candidate.module)
        assert metaschedule.unreadable(task, candidate.schedule, candidate.module) is None
        assert "another program" in str(metaschedule.unreadable(task, candidate.schedule, task.workload.module))
    broken = dataclasses.replace(candidate.schedule, data=candidate.schedule.data[:1])
    assert "cannot be read back" in str(metaschedule.unreadable(task, broken, candidate.module))

    original = metaschedule.trace_to_json
    count = 0

    def every_second_breaks(trace: Any) -> Any:
        nonlocal count
        count += 1
        return original(trace) if count % 2 else [[["NoSuchInstruction", [], [], []]], []]

    monkeypatch.setattr(metaschedule, "trace_to_json", every_second_breaks)
    again = MetaScheduleStrategy(task, 1, [], population=48, generations=1)
    asked = again.ask(8)
    assert len(asked) == 8
    assert again.rejected["invalid"] >= 7
    assert all(metaschedule.unreadable(task, item.schedule, item.module) is None for item in asked)


def test_a_broken_stored_trace_is_left_out_and_the_others_are_learnt_from() -> None:
    task = matmul_task(64)
    first = MetaScheduleStrategy(task, 0, [], population=48, generations=1)
    candidates = first.ask(4)
    records = [record_of(task, item, 1e-3) for item in candidates]
    broken = dataclasses.replace(records[0], schedule=ScheduleSpec("trace", "metaschedule", [["x"], []]))
    second = MetaScheduleStrategy(task, 0, [broken, *records], population=48, generations=1)
    known = {key_of(item) for item in candidates}
    assert not known & {key_of(item) for item in second.ask(16)}


def test_the_cost_model_learns_to_rank() -> None:
    task = matmul_task(64)
    strategy = MetaScheduleStrategy(task, 0, [], population=64, generations=1)

    def seconds(module: Any) -> float:
        vectors = str(module.script()).count("T.vectorized")
        return 1e-3 / (1 + vectors) + 1e-6 * len(str(module.script()))

    correlations = []
    for _ in range(4):
        batch = strategy.ask(16)
        strategy.tell(batch, [record_of(task, item, seconds(item.module)) for item in batch])
        correlations.append(strategy.rank_correlation)
    assert correlations[0] is None  # nothing had been learnt when the first batch was measured
    assert max(value for value in correlations[1:] if value is not None) > 0.3


def test_rank_correlation_equals_its_definition() -> None:
    random = np.random.default_rng(0)
    scores, seconds = random.normal(size=20), random.uniform(1e-3, 2e-3, size=20)
    ranks = [np.argsort(np.argsort(column)).astype(float) for column in (scores, -seconds)]
    expected = np.corrcoef(ranks[0], ranks[1])[0, 1]
    assert rank_correlation(scores.tolist(), seconds.tolist()) == pytest.approx(expected)
    with_failed = [*seconds.tolist(), math.inf]
    assert rank_correlation([*scores.tolist(), 9.0], with_failed) == pytest.approx(expected)
    assert rank_correlation([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]) is None
    assert rank_correlation([1.0, 2.0], [1.0, 2.0]) is None


def test_the_parameter_model_learns_a_monotone_law() -> None:
    model = ParameterModel(["tile"], seed=0)
    points = [{"tile": 1 << power} for power in range(10)]
    model.update(points, [1e-3 * (1 + power) for power in range(10)])
    assert not model.trained
    model.update(points[:4], [1e-3, 2e-3, 3e-3, math.inf])
    assert model.trained
    scores = model.predict(points)
    assert scores[0] == max(scores)
    assert scores[9] < scores[1]


# T37: TVM's rules need the core count, which a target of ours always has.
def test_the_target_always_has_its_core_count() -> None:
    from workbench.kernels.build import tvm_target

    assert TARGET.tvm_dict()["num-cores"] == 2
    assert int(tvm_target(TARGET).attrs["num-cores"]) == 2
    without = {key: value for key, value in TARGET.tvm_dict().items() if key != "num-cores"}
    with pytest.raises(tvm.error.InternalError, match="num-cores"):
        tvm.s_tir.meta_schedule.TuneContext(
            matmul_task().workload.module,
            target=tvm.target.Target(without),
            space_generator="post-order-apply",
            search_strategy="evolutionary",
        )
    with_count = MetaScheduleStrategy(matmul_task(), 0, [], population=32, generations=1)
    assert with_count.ask(1)


def test_a_strategy_can_be_named_and_serves_what_it_can() -> None:
    for name, kind in STRATEGIES.items():
        assert kind.name == name
    assert chooser("auto") is choose
    assert chooser("ansor")(matmul_task(64)) is AnsorStrategy
    assert chooser("library")(matmul_task(64)) is MetaScheduleStrategy  # no entry serves it, so it is chosen for
    with pytest.raises(BudgetError, match="strategy 'luck' is not known; give one of auto, metaschedule, ansor"):
        chooser("luck")


def test_crossed_decisions_of_a_block_come_from_one_parent() -> None:
    strategy = AnsorStrategy(matmul_task(64), 0, [])
    assert strategy._nodes[0][:3] == ["T_matmul"] * 3
    count = len(strategy._nodes[0])
    better, worse = (0, ("a",) * count), (0, ("b",) * count)
    for _ in range(50):
        _, child = strategy._cross(better, worse)
        assert len(set(child[:3])) == 1
    assert {strategy._cross(better, worse)[1][0] for _ in range(50)} == {"a", "b"}


@pytest.mark.parametrize("tile", [[1, 4, 2, 8], [64, 1], [3, 7, 1, 1]])
def test_a_moved_tile_covers_the_same_extent(tile: list[int]) -> None:
    strategy = AnsorStrategy(matmul_task(64), 0, [])
    moved = [strategy._moved(tile) for _ in range(40)]
    assert {math.prod(one) for one in moved} == {math.prod(tile)}
    assert len({tuple(one) for one in moved}) > 1
    assert strategy._moved([1, 1]) is None  # nothing to move: it is drawn again
    assert strategy._moved(3) is None


def test_ansor_learns_which_of_its_candidates_are_fast() -> None:
    """On a device that likes small vectors, what it asks for in the end beats what it asked for at first."""
    task = matmul_task(64)

    def seconds(candidate: Any) -> float:
        tiles = [part for one in candidate.handle.genes[1] if isinstance(one, list) for part in one[-1:]]
        return 1e-4 * (1 + sum(math.log2(part) for part in tiles))

    strategy, means = AnsorStrategy(task, 0, []), []
    for _ in range(4):
        asked = strategy.ask(16)
        times = [seconds(one) for one in asked]
        means.append(float(np.mean(times)))
        strategy.tell(asked, [record_of(task, one, time) for one, time in zip(asked, times, strict=True)])
    assert means[-1] < 0.8 * means[0]
