"""Comparing runs: verdicts need evidence, incomparable runs get none, and drift is owned up to."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_run import ENVIRONMENT, MEASURED, TVM, measurement, model, plan, sample_run, tune

from workbench.errors import InputError
from workbench.report import compare
from workbench.report.compare import judge, ratio_interval
from workbench.report.document import IntervalRatio

LATER = "2026-11-30T12:00:00+00:00"


def verdicts(comparison: Any) -> dict[str, str]:
    return {change.variant: change.verdict for change in comparison.variants}


def test_the_same_code_twice_is_no_change() -> None:
    comparison = compare(sample_run(seed=1), sample_run(seed=2, created=LATER))
    assert set(verdicts(comparison).values()) == {"no change"}
    assert not comparison.regressed
    assert comparison.exit_code == 0
    assert comparison.summary() == "no change"


def test_a_run_with_itself_is_no_change() -> None:
    run = sample_run()
    comparison = compare(run, run)
    assert {change.ratio.median for change in comparison.variants if change.ratio} == {1.0}
    assert not comparison.groups
    assert not comparison.schedules


def test_false_alarms_are_rare() -> None:
    """Two samples of one distribution: at most a few of a hundred may look different, none by 2 %."""
    alarms = 0
    for seed in range(100):
        random = np.random.default_rng(seed)
        a, b = (100 * (1 + 0.01 * np.abs(random.standard_normal(25))) for _ in range(2))
        alarms += judge(ratio_interval(b, a)) != "no change"
    assert alarms == 0


def test_slower_regresses_and_faster_does_not() -> None:
    slow = compare(sample_run(), sample_run(variants={"planned": 13.0}))
    assert verdicts(slow)["planned"] == "slower"
    assert slow.regressed
    assert slow.exit_code == 1
    change = next(one for one in slow.variants if one.variant == "planned")
    assert change.ratio is not None
    assert change.ratio.low < 13.0 / 12.1 < change.ratio.high
    fast = compare(sample_run(), sample_run(variants={"planned": 11.0}))
    assert verdicts(fast)["planned"] == "faster"
    assert not fast.regressed
    assert fast.exit_code == 0


def test_less_than_two_percent_is_no_verdict_however_sure() -> None:
    b = sample_run(variants={"planned": 12.1 * 1.012})
    comparison = compare(sample_run(), b)
    change = next(one for one in comparison.variants if one.variant == "planned")
    assert change.ratio is not None
    assert change.ratio.low > 1
    assert change.verdict == "no change"


@pytest.mark.parametrize(
    ("low", "median", "high", "verdict"),
    [
        (1.001, 1.02, 1.04, "slower"), (1.001, 1.019, 1.04, "no change"), (0.999, 1.05, 1.09, "no change"),
        (0.999, 1.05, 1.11, "not enough data"), (0.96, 0.98, 0.999, "faster"), (0.96, 0.981, 0.999, "no change"),
        (0.85, 0.95, 1.01, "not enough data"), (0.99, 1.0, 1.01, "no change"),
    ],
)  # fmt: skip
def test_judgement(low: float, median: float, high: float, verdict: str) -> None:
    assert judge(IntervalRatio(median=median, low=low, high=high)) == verdict


def test_interval_covers_the_true_ratio() -> None:
    """Nominal coverage is 95 %; the percentile bootstrap of a median is close to it."""
    covered = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        ratio = ratio_interval(random.lognormal(np.log(1.1), 0.05, 40), random.lognormal(0, 0.05, 40), seed=seed)
        covered += ratio.low <= 1.1 <= ratio.high
    assert covered >= 180


def test_newly_wrong_and_newly_failing() -> None:
    comparison = compare(sample_run(), sample_run(variants={"planned": "wrong", "greedy": "failed"}))
    assert verdicts(comparison)["planned"] == "newly wrong"
    assert verdicts(comparison)["greedy"] == "newly failing"
    assert comparison.regressed
    assert any("differs from numpy float64" in change.message for change in comparison.variants)
    again = compare(sample_run(variants={"planned": "wrong"}), sample_run(variants={"planned": "wrong"}))
    assert verdicts(again)["planned"] == "still wrong"
    assert not again.regressed
    repaired = compare(sample_run(variants={"planned": "failed"}), sample_run())
    assert verdicts(repaired)["planned"] == "now correct"
    assert not repaired.regressed
    still = compare(sample_run(variants={"planned": "failed"}), sample_run(variants={"planned": "failed"}))
    assert verdicts(still)["planned"] == "still failing"


def test_failing_then_wrong_is_newly_wrong() -> None:
    comparison = compare(sample_run(variants={"planned": "failed"}), sample_run(variants={"planned": "wrong"}))
    assert verdicts(comparison)["planned"] == "newly wrong"


def test_few_samples_and_missing_variants_are_not_enough() -> None:
    few = sample_run(measurements=[measurement("planned", 99.0, count=4)])
    comparison = compare(sample_run(), few)
    assert verdicts(comparison)["planned"] == "not enough data"
    assert verdicts(comparison)["greedy"] == "only in A"
    assert verdicts(compare(few, sample_run()))["greedy"] == "only in B"
    assert not comparison.regressed
    assert comparison.exit_code == 3


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"target": dataclasses.replace(MEASURED, device="Apple M4")}, "device"),
        ({"target": dataclasses.replace(MEASURED, threads=1)}, "threads"),
        ({"target": dataclasses.replace(MEASURED, cores=8)}, "cores"),
        ({"target": dataclasses.replace(MEASURED, features=("avx2", "fma", "avx512f"))}, "vector extensions"),
        ({"target": dataclasses.replace(MEASURED, llvm="21.0")}, "LLVM"),
        ({"environment": {**ENVIRONMENT, "tvm": "0.28.0"}}, "TVM"),
        ({"model": dataclasses.replace(model(), fingerprint="e" * 64)}, "model"),
    ],
)
def test_other_surroundings_are_not_compared(changes: dict[str, Any], what: str) -> None:
    b = sample_run(variants={"planned": 99.0, "greedy": "wrong"}, **changes)
    comparison = compare(sample_run(), b)
    assert not comparison.comparable
    assert [one.what for one in comparison.differences] == [what]
    assert set(verdicts(comparison).values()) == {"not comparable"}
    assert all(change.ratio is None for change in comparison.variants)
    assert not comparison.regressed
    assert comparison.exit_code == 3
    assert what in comparison.summary()


def test_what_weakens_a_verdict_is_said() -> None:
    b = sample_run(
        created=LATER,
        complete=False,
        incomplete_reason="stopped with Ctrl-C",
        target=dataclasses.replace(MEASURED, peak_gbps=20.0, exact_math=True),
        variants={"unfused_untuned": 120.0},
    )
    comparison = compare(sample_run(), b)
    text = "\n".join(comparison.warnings)
    assert "different times" in text
    assert LATER in text
    assert "run B is incomplete: stopped with Ctrl-C" in text
    assert "29.7 and 20.0 GB/s" in text
    assert "elementary functions differs: vectorised and the C library's" in text
    assert "unfused-untuned, whose schedules are the same in both" in text
    assert not comparison.regressed, "an untuned variant is there for orientation only"


def test_changed_groups_and_schedules_are_listed() -> None:
    groups = plan().groups
    split = (
        *groups[:4],
        dataclasses.replace(groups[4], nodes=("lv18", "lv19"), ops=("matmul", "add"), rule="bias_activation"),
        dataclasses.replace(groups[4], id="g9", nodes=("lv20",), ops=("nn.gelu",), rule="single"),
        *groups[5:],
    )
    b = sample_run(plan=dataclasses.replace(plan(), groups=split), tune=tune(0, schedule_seed=1))
    comparison = compare(sample_run(), b)
    assert [(one.side, one.nodes) for one in comparison.groups] == [
        ("A", ("lv18", "lv19", "lv20")),
        ("B", ("lv18", "lv19")),
        ("B", ("lv20",)),
    ]
    tuned = {result.task.workload.key for result in tune().results if result.best is not None}
    assert {one.workload for one in comparison.schedules} == tuned


def test_folders_files_documents_and_runs_are_taken(tmp_path: Path) -> None:
    a, b = sample_run(), sample_run(seed=5)
    a.save(tmp_path / "a")
    b.save(tmp_path / "b")
    expected = verdicts(compare(a, b))
    assert verdicts(compare(tmp_path / "a", str(tmp_path / "b" / "run.json"))) == expected
    assert verdicts(compare(a.to_json(), b)) == expected
    assert compare(tmp_path / "a", b).a == str(tmp_path / "a")
    with pytest.raises(InputError, match="no such run"):
        compare(tmp_path / "a", tmp_path / "nothing")


def test_document_is_plain_and_finite() -> None:
    comparison = compare(sample_run(), sample_run(variants={"planned": "wrong"}, environment={"tvm": TVM}))
    document = json.loads(json.dumps(comparison.to_json(), allow_nan=False))
    assert document["schema"] == 1
    assert document["regressed"] is True
    assert {row["variant"]: row["verdict"] for row in document["variants"]} == verdicts(comparison)
    ratio = next(row["ratio"] for row in document["variants"] if row["variant"] == "unfused")
    assert set(ratio) == {"median", "low", "high"}


def test_notebook_cell_holds_rows_and_warnings() -> None:
    comparison = compare(sample_run(), sample_run(variants={"planned": 13.0}))
    cell = comparison._repr_html_()
    for row in comparison.rows():
        assert row[0] in cell
        assert row[4] in cell
    assert "drift of the machine" in cell
