"""Tables made of a run, and numbers made readable."""

from __future__ import annotations

import numpy as np
import pytest
from sample_run import GROUPS, sample_run, tune

from workbench.report import format as fmt
from workbench.report.document import IntervalRatio, IntervalUs
from workbench.report.frames import (
    category,
    groups_frame,
    roofline_points,
    search_frame,
    tasks_frame,
    throughput,
    variants_frame,
)


def test_variants_frame_has_a_row_each_and_no_time_for_the_wrong() -> None:
    frame = variants_frame(sample_run(variants={"greedy": "wrong"})).set_index("variant")
    assert list(frame.index) == ["unfused", "greedy", "planned", "unfused-untuned"]
    assert np.isnan(frame.loc["greedy", "median_us"])
    assert frame.loc["planned", "median_us"] == pytest.approx(12100, rel=0.05)
    assert frame.loc["planned", "kernels"] == len(GROUPS)


def test_search_frame_keeps_the_least_time_so_far() -> None:
    frame = search_frame(sample_run())
    for index, result in enumerate(tune().results):
        rows = frame[frame.task == index]
        times = [record.median_s * 1e6 for record in sorted(result.records, key=lambda one: one.trial)]
        expected = np.minimum.accumulate(times) if times else np.array([])
        expected = np.where(np.isinf(expected), np.nan, expected)
        np.testing.assert_allclose(rows.best_us.to_numpy(dtype=float), expected)


def test_search_frame_of_a_cached_run_is_empty_with_its_columns() -> None:
    frame = search_frame(sample_run(tune=tune(cached=True)))
    assert frame.empty
    assert "best_us" in frame.columns


def test_tasks_frame_gives_speedup_over_the_default() -> None:
    frame = tasks_frame(sample_run())
    np.testing.assert_allclose(frame.speedup.dropna(), (frame.default_us / frame.best_us).dropna())


def test_groups_frame_has_predictions_for_planned_only() -> None:
    frame = groups_frame(sample_run())
    planned = frame[frame.variant == "planned"]
    assert planned.predicted_us.notna().all()
    assert frame[frame.variant == "unfused"].predicted_us.isna().all()
    assert planned.share.sum() == pytest.approx(1)


def test_roofline_points_leave_out_what_computes_nothing() -> None:
    run = sample_run()
    points = roofline_points(run, ("planned",))
    assert {point.id for point in points} == {name for name, *_ in GROUPS} - {"g7"}
    assert [point.share for point in points] == sorted((point.share for point in points), reverse=True)
    assert {point.variant for point in roofline_points(run)} == {"unfused", "greedy", "planned"}


def test_throughput_weighs_kernels_by_their_time() -> None:
    run = sample_run()
    groups = [group for group in run.groups_measured if group.variant == "planned"]
    flop = sum((group.gflops or 0) * 1e9 * group.latency_us * 1e-6 for group in groups)
    seconds = sum(group.latency_us for group in groups) * 1e-6
    rate = throughput(run, "planned")
    assert rate is not None
    assert rate.gflops == pytest.approx(flop / seconds / 1e9)
    assert throughput(run, "nobody") is None


@pytest.mark.parametrize(
    ("ops", "kind"),
    [
        (("matmul", "add", "nn.gelu"), "contraction"),
        (("nn.conv2d", "nn.batch_norm", "nn.relu"), "contraction"),
        (("matmul", "nn.softmax", "matmul"), "attention, softmax"),
        (("add", "nn.layer_norm"), "normalisation"),
        (("add", "multiply"), "elementwise"),
        (("reshape", "permute_dims"), "data movement"),
        (("nn.max_pool2d",), "other"),
        ((), "other"),
    ],
)
def test_categories(ops: tuple[str, ...], kind: str) -> None:
    assert category(ops) == kind


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0.0123, "0.0123 µs"), (4.5678, "4.57 µs"), (61.6, "61.6 µs"), (812.0, "812 µs"), (999.9, "1000 µs"),
        (12140.0, "12.1 ms"), (12000.0, "12.0 ms"), (123456.0, "123 ms"), (2.5e6, "2.50 s"), (4.5e9, "4500 s"),
        (0.0, "0 µs"), (None, "–"),
    ],
)  # fmt: skip
def test_times_have_three_digits_and_a_unit(us: float | None, text: str) -> None:
    assert fmt.time(us) == text


def test_other_numbers() -> None:
    assert fmt.interval(IntervalUs(median=12140, low=11960, high=12300, n=9)) == "[12.0, 12.3]"
    assert fmt.interval(IntervalUs(median=990, low=980, high=1010, n=9)) == "[980, 1010]"
    assert fmt.ratio(IntervalRatio(median=1.4249, low=1.3881, high=1.4512)) == "1.42x [1.39, 1.45]"
    assert [fmt.size(n) for n in (12, 1000, 4194304, 2.5e9)] == ["12 B", "1.00 kB", "4.19 MB", "2.50 GB"]
    assert [fmt.percent(n) for n in (0.0, 0.004, 0.0956, 0.43, 1.5)] == ["0 %", "0.4 %", "9.6 %", "43 %", "150 %"]
    assert fmt.operators(("nn.conv2d", "add", "add", "add", "nn.relu")) == "conv2d+add×3+relu"
    assert fmt.seconds(281.4) == "4 min 41 s"
    assert fmt.seconds(59.96) == "60.0 s"
    assert fmt.seconds(119.7) == "2 min 0 s"
    assert fmt.error(0.0) == "0"
    assert fmt.error(None) == "–"


def test_lines_break_after_the_mark_and_lose_nothing() -> None:
    words = "matmul+add+a_very_long_operator_name+gelu"
    lines = fmt.broken(words, 12).split("\n")
    assert lines == ["matmul+add+", "a_very_long_operator_name+", "gelu"]
    assert "".join(lines) == words
