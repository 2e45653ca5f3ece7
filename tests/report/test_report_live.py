"""Progress of a tuning job: what the table and the plain lines say."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from workbench.faces import PlainFace, TerminalFace
from workbench.report.live import Progress, duration, line, microseconds, render
from workbench.tuning.progress import Event

LABEL = "reshape+permute_dims+matmul+multiply+softmax+matmul"
TASK: Any = SimpleNamespace(
    workload=SimpleNamespace(label=LABEL, shapes="1x256x512, 512x2048 -> 1x256x2048", flops=5.37e8)
)


def _event(kind: str, **changes: Any) -> Event:
    base = {"task": None if kind in ("plan", "end", "note") else TASK, "tasks": 3, "trials_planned": 64}
    base |= {"total_planned": 192, "elapsed_s": 75.0, "remaining_s": 3725.0}
    return Event(kind, **{**base, **changes})


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (0.4, "0:00"), (75, "1:15"), (3725, "1:02:05"), (float("inf"), "-")]
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (1.5e-3, "1500"), (12.34e-6, "12.3"), (0.5e-6, "0.5"), (float("inf"), "-")]
)
def test_times_in_microseconds(seconds: float | None, text: str) -> None:
    assert microseconds(seconds) == text


def _shown(progress: Progress) -> str:
    console = Console(file=io.StringIO(), width=80, record=True)
    console.print(render(progress))
    return console.export_text()


def test_the_table_has_task_operators_trials_best_time_rate_and_what_remains() -> None:
    progress = Progress()
    progress.update(_event("plan", message="3 tasks, 64 trials each"))
    progress.update(_event("batch", trials=16, total_trials=16, best_s=2.5e-3, failed={"timeout": 2}))
    text = _shown(progress)
    assert "16/64" in text
    assert "2500" in text
    assert "215" in text  # 5.37e8 FLOP in 2.5 ms
    assert "task 1 of 3, trial 16 of 192, elapsed 1:15, remaining 1:02:05" in text
    assert all(len(row) <= 80 for row in text.splitlines())
    row = next(row for row in text.splitlines() if "16/64" in row)
    assert row.split()[-3:] == ["2", "2500", "215"]


def test_a_long_job_shows_the_rows_around_the_current_task() -> None:
    progress = Progress()
    for index in range(40):
        progress.update(_event("task_end", index=index, trials=8, best_s=1e-3, tasks=40))
    progress.update(_event("batch", index=20, trials=1, tasks=40))
    rows = _shown(progress).splitlines()
    assert len(rows) <= 18
    assert any(row.split()[0] == "21" for row in rows if row.strip())


def test_a_failed_task_is_noted_with_its_reason() -> None:
    progress = Progress()
    progress.update(_event("task_end", trials=3, best_s=None, message="no candidate worked: build error"))
    assert progress.notes == [f"{LABEL}: no candidate worked: build error"]
    assert progress.rows[0].state == "failed"


def test_plain_lines() -> None:
    text = line(_event("batch", trials=16, best_s=2.5e-3, failed={"crash": 1}))
    assert text is not None
    for part in ("[1:15]", "task 1/3", LABEL, "16/64 trials", "(1 failed)", "best 2500 us", "215 GFLOP/s"):
        assert part in text
    assert line(_event("plan", message="3 tasks")) == "3 tasks"
    assert line(_event("task_start")) is None
    assert "64/64 trials, done best 1000 us" in (line(_event("task_end", trials=64, best_s=1e-3)) or "")
    assert line(_event("task_end", trials=0, best_s=1e-3)) is None  # the job's first line has counted these
    late = line(_event("task_end", trials=0, message="the budget ended before a candidate was tried")) or ""
    assert "0/64 trials, done - the budget ended" in late
    assert "best" not in late
    assert line(_event("task_end", trials=0, best_s=1e-3, total_planned=0)) is None
    assert line(_event("end", total_trials=9, message="interrupted")) == "tuning ended after 9 trials, 1:15 interrupted"


def test_plain_face_thins_out_batches() -> None:
    stream = io.StringIO()
    face = PlainFace(stream, every_s=3600)
    for trials in range(1, 6):
        face.event(_event("batch", trials=trials, best_s=1e-3))
    face.event(_event("task_end", trials=5, best_s=1e-3))
    assert len(stream.getvalue().splitlines()) == 2  # the first batch, and the end


def test_terminal_face_draws_one_table_and_nothing_for_a_job_without_trials() -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, record=True)
    face = TerminalFace(console)
    face.event(_event("plan", message="2 tasks, no trials: every one is in the store (hit)", total_planned=0))
    face.event(_event("task_end", trials=0, best_s=1e-3, total_planned=0))
    face.event(_event("end", total_planned=0))
    assert "operators" not in console.export_text(clear=False)
    face.event(_event("plan", message="3 tasks, 64 trials each"))
    face.event(_event("batch", trials=16, best_s=1e-3))
    face.event(_event("end"))
    face.close()
    text = console.export_text()
    assert "every one is in the store" in text
    assert "16/64" in text
