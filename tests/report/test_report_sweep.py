"""Sweeps: rows, the sentence, the plot and the files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sample_run import sample_run

from workbench.errors import StoreError
from workbench.report.document import IntervalRatio, IntervalUs
from workbench.report.sweep import Sweep, SweepPoint


def point(limit: int | None, us: float | None, compile_s: float, **more: object) -> SweepPoint:
    return SweepPoint(
        max_nodes=limit,
        kernels=12 // (limit or 12),
        largest=limit or 12,
        compile_s=compile_s,
        intermediate_bytes=0,
        latency_us=None if us is None else IntervalUs(median=us, low=0.9 * us, high=1.1 * us, n=50),
        ratio_to_unfused=None if us is None else IntervalRatio(median=200 / us, low=180 / us, high=220 / us),
        status="ok" if us is not None else "failed",
        message="" if us is not None else "not built within 30 s",
        **more,
    )


def sample(*points: SweepPoint) -> Sweep:
    run = sample_run()
    return Sweep(
        workbench="0",
        created="2026-01-01T00:00:00+00:00",
        model=run.model,
        target=run.target,
        environment=run.environment,
        objective="kernels",
        trials_per_task=1,
        points=points or (point(1, 200, 0.4), point(2, 100, 1.0), point(4, 150, 3.0), point(None, None, 30.0)),
    )


def test_the_sentence_names_the_fastest_limit_and_what_it_costs_to_compile() -> None:
    words = sample().sentence()
    assert "fastest with at most 2 operators a kernel, 100 µs, 2.00x [1.80, 2.20] against unfused" in words
    assert "6 kernels compiled in 1.0 s" in words


def test_limits_that_the_intervals_do_not_tell_from_the_fastest_are_called_ties() -> None:
    made = sample(point(1, 200, 0.4), point(2, 100, 1.0), point(4, 105, 1.2), point(8, 105, 1.2, same_as="4"))
    assert [one.name for one in made.near] == ["4"]
    assert made.sentence().endswith("a tie with limit 4 within the intervals.")
    assert "tie" not in sample().sentence()


def test_a_sweep_that_was_cut_short_says_so_first() -> None:
    assert sample().model_copy(update={"incomplete_reason": "interrupted"}).sentence().startswith("INCOMPLETE (interr")


def test_unfused_is_not_compared_with_itself() -> None:
    assert "against" not in sample(point(1, 50, 0.4), point(2, 100, 1.0)).sentence()


def test_a_limit_without_a_time_has_a_row_that_says_so_and_no_point() -> None:
    rows = sample().rows()
    assert [row[0] for row in rows] == ["1", "2", "4", "none"]
    assert rows[-1][4:] == ("FAILED", "–", "–")
    above, below = sample().plot().axes
    drawn = [line.get_xdata()[0] for line in above.lines if line.get_marker() == "o"]
    assert drawn == [0, 1, 2]
    assert [text.get_text() for text in above.texts if text.get_text() == "×"] == ["×"]
    assert [label.get_text().splitlines()[0] for label in below.get_xticklabels()] == ["1", "2", "4", "none"]


def test_points_with_the_same_kernels_are_hollow() -> None:
    made = sample(point(1, 200, 0.4), point(2, 100, 1.0), point(4, 100, 1.0, same_as="2"))
    assert made.rows()[-1][-1] == "as 2"
    above = made.plot(narrow=True).axes[0]
    faces = [line.get_markerfacecolor() for line in above.lines if line.get_marker() == "o"]
    assert [face == "white" for face in faces] == [False, False, True]


def test_nothing_timed_is_a_figure_that_says_so() -> None:
    made = sample(point(1, None, 0.4))
    assert "no limit gave a program" in made.sentence()
    assert "no limit gave a program" in made.plot().axes[0].texts[0].get_text()


def test_a_sweep_is_written_and_read_back(tmp_path: Path) -> None:
    made = sample()
    plot = made.save(tmp_path / "sweep")
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert Sweep.model_validate(json.loads((tmp_path / "sweep" / "sweep.json").read_text())) == made
    assert "<td>FAILED</td>" in made._repr_html_()


def test_a_folder_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        sample().save(tmp_path / "file")
