"""Strategies rerun on recorded measurements."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from tuning_tasks import plain_task

from workbench.errors import BudgetError, InputError
from workbench.report.replay import replay_plot, replay_table
from workbench.store.record import Record, ScheduleSpec
from workbench.tuning.replay import LEAST, replay
from workbench.tuning.strategies.recorded import ByModel, parameters_of
from workbench.tuning.task import Candidate
from workbench.tuning.testing import StrategyContract, record_of

TASK = plain_task()


def recorded(count: int = 200, task=TASK, fail_every: int = 10) -> list[Record]:
    """Schedules with three parameters; the time depends on two of them, and some fail."""
    found = []
    for index in range(count):
        rows, columns, order = 2 ** (index % 8), 2 ** (index // 8 % 5), index % 3
        spec = ScheduleSpec("library", "tile", {"rows": rows, "columns": columns, "order": order, "index": index})
        seconds = 1e-3 * (1 + abs(math.log2(rows) - 5) + abs(math.log2(columns) - 3))
        failed = bool(fail_every) and index % fail_every == 3
        found.append(record_of(task, Candidate(spec, None), None if failed else seconds * (1 + 1e-3 * (index % 7))))
    return found


class TestByModel(StrategyContract):
    task = TASK

    def make(self, seed, history):
        return type("Here", (ByModel,), {"pool": tuple(recorded(60))})(self.task, seed, history)


def test_a_recorded_search_is_replayed_as_it_was() -> None:
    records = recorded()
    made = replay(records, ["recorded"], trials=64)
    (curve,) = made.curves
    least, expected = math.inf, []
    for record in records[:64]:
        least = min(least, record.median_s)
        expected.append(least)
    assert list(curve.best_so_far) == expected
    assert curve.best_s == min(record.median_s for record in records)
    assert curve.ratio(64) == expected[-1] / curve.best_s
    assert curve.ratio(1000) == curve.ratio(64)


def test_a_model_finds_the_best_sooner_than_chance() -> None:
    made = replay(recorded(), trials=48, seeds=5)
    assert made.strategies == ("recorded", "random", "model")
    assert made.mean_ratio("model", 48) < made.mean_ratio("random", 48)
    assert made.mean_ratio("model", 48) < 1.02
    again = replay(recorded(), trials=48, seeds=5)
    assert again == made


def test_workloads_with_too_few_schedules_are_counted() -> None:
    few = recorded(LEAST - 1, plain_task("few"))
    broken = [dataclasses.replace(one, status="crash", seconds=(), error="x") for one in recorded(40, plain_task("no"))]
    made = replay([*recorded(), *few, *broken], ["random"], trials=16)
    assert (made.workloads, made.left_out) == (1, 2)
    with pytest.raises(InputError, match="no workload has 16 recorded schedules"):
        replay(few)
    with pytest.raises(BudgetError, match="strategy 'luck' cannot be replayed; give some of recorded, random, model"):
        replay(recorded(), ["luck"])


def test_parameters_of_traces_are_their_decisions() -> None:
    trace = [[["GetSBlock", [], [], []], ["SamplePerfectTile", [], [], []]], [[1, [4, 2, 8]], [0, 3]]]
    found = parameters_of(ScheduleSpec("trace", "metaschedule", trace))
    (sketch,) = [name.removeprefix("sketch:") for name in found if name.startswith("sketch:")]
    assert {name.removeprefix(f"{sketch}."): value for name, value in found.items() if "." in name} == {
        "0.0": 4, "0.1": 2, "0.2": 8, "1.0": 3,
    }  # fmt: skip
    other = [[["GetSBlock", [], [], []], ["SampleCategorical", [], [], []]], [[1, 2]]]
    assert not set(found) & set(parameters_of(ScheduleSpec("trace", "metaschedule", other)))
    assert parameters_of(ScheduleSpec("default", "default", {})) == {}


def test_the_table_and_the_plot_say_how_close_each_came() -> None:
    made = replay(recorded(), trials=32)
    table, note = replay_table(made, [8, 16, 32])
    assert table.row_count == 3  # type: ignore[union-attr]
    assert "geometric mean over 1 workload: 1.00x" in str(note)
    (axes,) = replay_plot(made).axes
    assert [line.get_label() for line in axes.get_lines()] == ["recorded", "random", "model"]
    for line, name in zip(axes.get_lines(), made.strategies, strict=True):
        assert line.get_ydata()[-1] == pytest.approx(made.mean_ratio(name, 32))


def test_the_command_replays_a_file(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from workbench.cli import app
    from workbench.store.exchange import write_records
    from workbench.store.serialise import dump_record

    path = tmp_path / "records.jsonl.gz"
    write_records(path, map(dump_record, recorded()))
    run: Callable = CliRunner().invoke
    done = run(app, ["replay", str(path), "--trials", "32", "--out", str(tmp_path / "curves.png")])
    assert done.exit_code == 0, done.output
    assert "strategy" in done.output
    assert all(len(line) <= 80 for line in done.output.splitlines())
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
