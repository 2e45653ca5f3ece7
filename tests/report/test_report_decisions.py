"""A decision in words, and the whole against the sum of its kernels; figures worked out by hand."""

from __future__ import annotations

import dataclasses

import pytest
from sample_run import measurements, sample_run, tune

from workbench.fusion.plan import Factors
from workbench.report import decisions
from workbench.report.gap import Gap, gaps


def test_times_come_in_the_order_in_which_they_are_compared() -> None:
    given = {"unfused": 3000.0, "fused": 1500.0, "other": 7.0, "partial": 2000.0}
    ranges = {"fused": (1000.0, 2250.0), "partial": (1900.0, 2100.0)}
    assert decisions.times(given, ranges) == [
        "fused 1.50 ms [1.00, 2.25]",
        "partial 2.00 ms [1.90, 2.10]",
        "unfused 3.00 ms",
        "other 7.00 µs",
    ]
    assert decisions.times(None) == []


@pytest.mark.parametrize(
    ("times", "ratio"),
    [
        ({"fused": 2.0, "unfused": 3.0}, 1.5),
        ({"fused": 2.0, "unfused": 3.0, "partial": 1.0}, 0.5),  # a part alone is the better way
        ({"fused": 2.0}, None),
        ({"unfused": 2.0}, None),
        ({"fused": 0.0, "unfused": 2.0}, None),
        (None, None),
    ],
)
def test_the_ratio_is_the_best_other_form_over_fused(times: dict[str, float] | None, ratio: float | None) -> None:
    assert decisions.ratio(times) == ratio


def test_every_factor_has_a_row() -> None:
    factors = Factors(
        bytes_saved=4_194_304, launches_saved=1, intensity_before=2.5, intensity_after=30.0, recompute=4096.0,
        parallelism=512, pressure=0.75, recomputed_flops=1.5e9, level="L2", bound_before="memory",
        bound_after="compute", compile_s=0.088, arguments=4,
    )  # fmt: skip
    assert dict(decisions.factor_rows(factors)) == {
        "saves": "4.19 MB between kernels, 1 launch",
        "intensity": "2.50 -> 30.0 FLOP/byte",
        "bound by": "memory -> compute",
        "arguments in": "L2",
        "recompute": "factor 4096, 1.50 GFLOP again in all",
        "parallelism": "512 outer iterations",
        "registers": "0.750 of the vector registers live",
        "signature": "4 tensors",
        "compiles in": "0.09 s (estimated)",
    }


def test_factors_of_an_older_plan_leave_out_what_they_do_not_know() -> None:
    rows = dict(decisions.factor_rows(Factors(100, 2, 1.0, 2.0, 1.0, 8, 0.5)))
    assert set(rows) == {"saves", "intensity", "recompute", "parallelism", "registers"}
    assert rows["recompute"] == "nothing is computed twice"


def test_the_gap_is_the_whole_over_the_kernels_alone() -> None:
    run = sample_run()
    planned = next(gap for gap in gaps(run) if gap.variant == "planned")
    # matmuls 1250, attention 1270, residual norms 61 twice (one task), and so on; the reshape has its default alone.
    best = {task.workload: task.best_us or task.default_us for task in run.tasks}
    calls = [group for group in run.groups_measured if group.variant == "planned"]
    assert len(calls) == 8
    assert planned.alone_us == pytest.approx(sum(best[call.workload] or 0.0 for call in calls))
    assert planned.inside_us == pytest.approx(sum(call.latency_us for call in calls))
    assert planned.whole_us == run.variants[2].latency_us.median  # type: ignore[union-attr]
    assert planned.ratio == planned.whole_us / planned.alone_us


def test_words_say_more_or_less() -> None:
    assert Gap("planned", 120.0, None, 100.0).words == "20 % more than its kernels alone"
    assert Gap("planned", 95.0, None, 100.0).words == "5.0 % less than its kernels alone"
    assert Gap("planned", 95.0, 99.0, None).words == "some kernel was not measured alone"


def test_a_kernel_that_was_not_measured_alone_leaves_no_sum() -> None:
    unfused = next(gap for gap in gaps(sample_run()) if gap.variant == "unfused")
    assert (unfused.alone_us, unfused.ratio) == (None, None)
    assert unfused.inside_us is not None


def test_what_was_not_timed_has_no_gap() -> None:
    run = sample_run(variants={"planned": "failed"})
    assert "planned" not in {gap.variant for gap in gaps(run)}
    bare = tuple(dataclasses.replace(one, groups=()) for one in measurements())
    assert gaps(sample_run(measurements=bare)) == ()
    assert gaps(sample_run(tune=None))[0].alone_us is None
    assert {gap.variant for gap in gaps(sample_run(tune=tune(cached=True)))} >= {"planned", "unfused"}
