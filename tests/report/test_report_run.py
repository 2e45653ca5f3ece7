"""A run: its document, how it is put together, read again, and summed up in a sentence."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pydantic
import pytest
from golden_files import check_golden
from sample_run import GROUPS, MEASURED, lowered, measurement, measurements, sample_run, tune

from workbench.errors import InputError
from workbench.measure.measurement import GroupTime
from workbench.report.run import Run, as_run
from workbench.report.summary import caveat
from workbench.stats import Interval


def keys(document: Any, prefix: str = "") -> set[str]:
    """Every path in a document; list items share one."""
    if isinstance(document, dict):
        found = {f"{prefix}{name}" for name in document}
        return found.union(*(keys(value, f"{prefix}{name}.") for name, value in document.items()))
    if isinstance(document, list):
        return set().union(*(keys(item, prefix) for item in document))
    return set()


def test_document_has_the_keys_of_the_contract() -> None:
    document = sample_run().to_json()
    document["tasks"] = [{**task, "failed": {}} for task in document["tasks"]]
    check_golden("run_keys.txt", "\n".join(sorted(keys(document))) + "\n")


def test_document_survives_a_file(tmp_path: Path) -> None:
    run = sample_run()
    path = run.save(tmp_path / "deep" / "folder")
    assert path.name == "run.json"
    assert Run.from_json(path) == run
    assert Run.from_json(path.parent) == run
    assert Run.from_json(json.loads(path.read_text())) == run
    assert as_run(run) is run
    assert Run.from_json(path).id == run.id


def test_numbers_are_the_stages_numbers_in_microseconds() -> None:
    measured = measurements()
    run = sample_run(measurements=measured)
    for one in measured:
        part = run.variant(one.name)
        assert part is not None
        assert part.latency_us is not None
        assert part.latency_us.median == pytest.approx(np.median(one.samples) * 1e6)
        assert part.samples_us == pytest.approx(np.array(one.samples) * 1e6)
    search = tune()
    for task, result in zip(run.tasks, search.results, strict=True):
        if result.best is None:
            assert task.best_us is None
            assert task.schedule_source == "default"
        else:
            assert task.best_us == pytest.approx(np.median(result.best.seconds) * 1e6)
            assert task.low_us == pytest.approx(min(result.best.seconds) * 1e6)
            assert task.high_us == pytest.approx(max(result.best.seconds) * 1e6)
            assert task.gflops == pytest.approx(result.task.workload.flops / np.median(result.best.seconds) / 1e9)
        assert sum(task.failed.values()) == sum(record.status != "ok" for record in result.records)
    assert [group.workload for group in run.plan.groups] == [call.workload for call in lowered()["planned"].calls]


def test_ratio_to_greedy_is_the_ratio_of_medians() -> None:
    run = sample_run()
    greedy, planned = run.variant("greedy"), run.variant("planned")
    assert greedy is not None
    assert planned is not None
    assert planned.ratio_to_greedy is not None
    expected = np.median(greedy.samples_us) / np.median(planned.samples_us)
    assert planned.ratio_to_greedy.median == pytest.approx(expected)
    assert planned.ratio_to_greedy.low <= expected <= planned.ratio_to_greedy.high
    assert greedy.ratio_to_greedy is None
    uneven = [one if one.name != "planned" else measurement("planned", 12.1, count=9) for one in measurements()]
    other = sample_run(measurements=uneven).variant("planned")
    assert other is not None
    assert other.ratio_to_greedy is None, "samples of different rounds must not be paired"


@pytest.mark.parametrize("status", ["wrong", "failed"])
def test_no_speed_for_what_is_wrong_or_failed(status: str) -> None:
    good = measurement("greedy", 14.9)
    bad = measurement("greedy", 14.9, status=status)
    # even where a stage hands times over with it
    bad = dataclasses.replace(bad, latency=good.latency, samples=good.samples, ratio_to_unfused=good.ratio_to_unfused)
    run = sample_run(measurements=[*measurements()[:1], bad])
    part = run.variant("greedy")
    assert part is not None
    assert part.latency_us is None
    assert part.ratio_to_unfused is None
    assert part.samples_us == ()
    assert not part.correct
    assert part.status == status
    assert part.message


def test_nan_and_infinity_never_reach_the_document() -> None:
    group = GroupTime("g0", 1e-3, 1.0, math.inf, math.nan, math.inf, "memory", math.nan)
    odd = dataclasses.replace(measurement("planned", 12.1), groups=(group,))
    environment = {"tvm": "0.27.0.post1", "load_at_start": math.nan, "temperature": math.inf}
    run = sample_run(measurements=[odd, measurement("greedy", 1.0, status="wrong")], environment=environment)
    text = json.dumps(run.to_json(), allow_nan=False)
    assert "NaN" not in text
    assert "Infinity" not in text
    with pytest.raises(pydantic.ValidationError):
        Run.model_validate({**run.to_json(), "timings_s": {"tune": math.nan}})


def test_run_is_immutable() -> None:
    with pytest.raises(pydantic.ValidationError):
        sample_run().complete = False  # type: ignore[misc]


def test_unfinished_search_makes_the_run_incomplete() -> None:
    cut = dataclasses.replace(tune(), complete=False, incomplete_reason="interrupted after 41 trials")
    run = sample_run(tune=cut)
    assert not run.complete
    assert run.incomplete_reason == "interrupted after 41 trials"


def test_extra_environment_is_kept() -> None:
    run = sample_run(environment={"tvm": "0.27", "governor": "performance", "affinity": [3, 1]})
    again = Run.from_json(run.to_json())
    assert again.environment.affinity == (3, 1)
    assert again.environment.model_dump()["governor"] == "performance"


def broken(**changes: Any) -> dict[str, Any]:
    return {**sample_run().to_json(), **changes}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (broken(schema=2), "newer workbench"),
        (broken(schema="one"), "schema 'one'"),
        ({"name": "encoder"}, "no 'schema'"),
        (broken(variants=[{"name": "planned"}]), "variants.0"),
        (broken(model=None), "'model'"),
        (broken(complete="perhaps"), "'complete'"),
    ],
)
def test_broken_documents_are_refused_in_one_line(document: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        Run.from_json(document)
    assert "\n" not in str(caught.value)


def test_broken_files_are_refused_with_their_path(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such run"):
        Run.from_json(tmp_path)
    path = tmp_path / "run.json"
    for content in (b"{", b"\xff\xfe\x00", b"[1, 2]", b"3"):
        path.write_bytes(content)
        with pytest.raises(InputError) as caught:
            Run.from_json(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_sentence_names_speed_ratio_and_agreement() -> None:
    run = sample_run()
    planned = run.variant("planned")
    assert planned is not None
    assert planned.latency_us is not None
    text = run.summary()
    assert f"{planned.latency_us.median / 1000:.1f} ms" in text
    assert "1.42x [1.39, 1.45] faster than unfused" in text
    assert "all 4 variants agree with NumPy float64" in text


def ratio_run(low: float, median: float, high: float) -> Run:
    planned = dataclasses.replace(measurement("planned", 12.1), ratio_to_unfused=Interval(median, low, high, 25))
    return sample_run(measurements=[measurement("unfused", 17.2), planned])


def test_sentence_claims_a_difference_only_when_the_interval_leaves_one_out() -> None:
    assert "faster than unfused" in ratio_run(1.01, 1.05, 1.09).summary()
    assert "without a measurable difference to unfused" in ratio_run(0.99, 1.05, 1.11).summary()
    slower = ratio_run(0.4, 0.5, 0.8).summary()
    assert "2.00x [1.25, 2.50] SLOWER than unfused" in slower


def test_sentence_claims_no_speed_without_a_right_result() -> None:
    wrong = sample_run(variants={"planned": "wrong"}).summary()
    assert "planned is wrong, so no speed is claimed" in wrong
    assert "faster" not in wrong
    assert "planned FAILED" in sample_run(variants={"planned": "failed"}).summary()
    baseline = sample_run(measurements=[measurement("unfused", 17.2, status="wrong"), measurements()[2]])
    assert "unfused is WRONG" in baseline.summary()
    nothing = sample_run(measurements=[]).summary()
    assert "nothing was measured" in nothing
    assert "faster" not in nothing


def _cut(run: Run, workload: str | None, note: str) -> Run:
    """The run with only the first trial of one task."""
    tasks = []
    for task in run.tasks:
        change = {"history": task.history[:1], "note": note} if task.workload == workload else {}
        tasks.append(task.model_copy(update=change))
    return run.model_copy(update={"tasks": tuple(tasks)})


def test_a_variant_that_was_hardly_searched_is_named() -> None:
    full = sample_run()
    assert caveat(full) == ""
    planned = [group for group in full.groups_measured if group.variant == "planned"]
    heavy = max(planned, key=lambda group: group.latency_us)
    assert heavy.share > 0.3
    words = caveat(_cut(full, heavy.workload, ""))
    assert words.startswith("Kernels of which only the default schedule was tried take ")
    assert "3" in words.partition(" of planned's time")[0][-4:]  # thirty-odd per cent
    assert caveat(_cut(full, heavy.workload, "nothing to tune: moves data only")) == ""


def test_a_run_prints_as_its_sentence() -> None:
    run = sample_run()
    assert repr(run) == str(run) == f"<Run {run.summary()}>"


def test_sentence_marks_an_incomplete_run() -> None:
    run = sample_run(complete=False, incomplete_reason="stopped with Ctrl-C")
    assert run.summary().startswith("INCOMPLETE (stopped with Ctrl-C)")


def test_missing_stages_leave_a_valid_run() -> None:
    run = sample_run(tune=None, measurements=[], lowered={}, cache=None, plan_svg="")
    assert run.tasks == ()
    assert run.variants == ()
    assert len(run.plan.groups) == len(GROUPS)
    assert run.target.peak_gflops == MEASURED.peak_gflops
    assert Run.from_json(run.to_json()) == run


def test_the_plan_of_a_real_model_is_drawn_and_kept() -> None:
    from workbench import load
    from workbench.fusion import plan as make_plan
    from workbench.graph import from_model

    real = load("residual_layernorm")
    made = make_plan(from_model(real), MEASURED)
    run = sample_run(model=real, plan=made, plan_svg=None, tune=None, measurements=[], lowered={})
    assert run.plan_svg is not None
    assert run.plan_svg.lstrip().startswith("<svg")
    assert "layer_norm" in run.plan_svg
    assert [group.nodes for group in run.plan.groups] == [group.nodes for group in made.groups]
    assert [tensor.shape for tensor in run.model.inputs] == [(1024, 768), (1024, 768)]
