"""Which model a plan gets: the store's own, the committed one, or the analytic one; and the committed one itself."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fusion_graphs import TARGET
from measured_kernels import contractions_slow, noisy, samples

from workbench.errors import CostModelError
from workbench.fusion.cost_models import AnalyticCostModel, LearnedCostModel, Sample, choose, stored_samples
from workbench.fusion.cost_models.choice import PRETRAINED, pretrained, train_on
from workbench.fusion.cost_models.evaluate import scores
from workbench.fusion.cost_models.samples import read_samples, write_samples
from workbench.graph.serialise import to_json
from workbench.store import MeasureSettings, Record, ScheduleSpec, Store
from workbench.targets import Caches, Target
from workbench.tvm_seam import tvm_version

OTHER = dataclasses.replace(TARGET, mcpu="skylake-avx512")  # no committed model is of its family
MODELS = sorted(PRETRAINED.glob("*.model.json.gz"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store") as made:
        yield made


def fill(store: Store, made: list[Sample], target: Target = OTHER) -> None:
    keys = [f"{place:04d}" for place in range(len(made))]
    store.add_groups({key: to_json(one.graph) for key, one in zip(keys, made, strict=True)})
    default = ScheduleSpec("default", "default", {})
    store.add_records(
        [
            Record(key, target.key, tvm_version(), default, "ok", (one.low, one.seconds, one.high), MeasureSettings())
            for key, one in zip(keys, made, strict=True)
        ]
    )


def test_without_measurements_the_model_is_analytic_or_of_the_processors_family(store: Store) -> None:
    assert isinstance(choose(OTHER, store), AnalyticCostModel)
    assert isinstance(choose(OTHER, None), AnalyticCostModel)
    assert isinstance(choose(TARGET, store), LearnedCostModel)  # znver3, two threads
    assert choose(TARGET, store) is choose(TARGET, None)
    assert isinstance(choose(dataclasses.replace(TARGET, threads=8), store), AnalyticCostModel)
    intel = choose(dataclasses.replace(TARGET, mcpu="sapphirerapids"), store)
    assert isinstance(intel, LearnedCostModel)
    assert intel is not choose(TARGET, store)


def test_a_model_that_was_trained_is_used_and_stays_the_same(store: Store) -> None:
    fill(store, samples(contractions_slow, 36))
    with pytest.raises(CostModelError, match="36"):
        train_on(store, OTHER)
    made = samples(contractions_slow, 60)
    fill(store, made)
    assert isinstance(choose(OTHER, store), AnalyticCostModel)  # nothing is trained unasked
    train_on(store, OTHER)
    first = choose(OTHER, store)
    assert isinstance(first, LearnedCostModel)
    assert first.kernels == 60
    fill(store, samples(contractions_slow, 61))
    one, again = made[0], choose(OTHER, store)
    assert isinstance(again, LearnedCostModel)
    assert again.kernels == 60
    assert again.predict(one.graph, [one.nodes], OTHER) == first.predict(one.graph, [one.nodes], OTHER)
    train_on(store, OTHER)
    assert choose(OTHER, store).kernels == 61  # type: ignore[attr-defined]


def test_another_targets_kernels_do_not_count(store: Store) -> None:
    fill(store, samples(contractions_slow, 60), TARGET)
    train_on(store, TARGET)
    assert isinstance(choose(OTHER, store), AnalyticCostModel)


def test_a_model_that_is_no_better_than_the_analytic_one_is_not_used(store: Store) -> None:
    fill(store, samples(noisy(1e-9, lambda graph, analytic: analytic), 60))
    train_on(store, OTHER)
    assert isinstance(choose(OTHER, store), AnalyticCostModel)


@pytest.mark.parametrize("content", [b"{", b'{"kernels":60,"model":{}}'])
def test_a_damaged_model_in_the_store_is_passed_over_with_a_word(
    store: Store, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    fill(store, samples(contractions_slow, 60))
    train_on(store, OTHER)
    (path,) = (store.path / "models").iterdir()
    path.write_bytes(content)
    assert isinstance(choose(OTHER, store), AnalyticCostModel)
    assert "workbench costmodel train" in caplog.text


def test_stored_samples_are_the_best_records_and_skip_what_cannot_be_read(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    made = samples(contractions_slow, 3)
    fill(store, made)
    store.add_groups({"broken": {"schema": 99}})
    bad = Record("broken", OTHER.key, tvm_version(), ScheduleSpec("default", "d", {}), "ok", (1e-6,), MeasureSettings())
    slower = dataclasses.replace(bad, workload="0000", seconds=(1.0,))
    store.add_records([bad, slower])
    found = stored_samples(store, OTHER.key, tvm_version())
    assert [one.seconds for one in found] == [one.seconds for one in made]
    assert [one.operators for one in found] == [one.operators for one in made]
    assert "broken is left out of the cost model" in caplog.text


# The committed models and their data


def data_of(path: Path) -> list[Sample]:
    return read_samples(path.with_name(path.name.replace(".model.json.gz", ".data.jsonl.gz")))


def recorded_target(path: Path) -> Target:
    """The machine that a committed model's kernels were measured on, as ``scripts/group_dataset.py`` keeps it."""
    document = json.loads(path.with_name(path.name.replace(".model.json.gz", ".target.json")).read_text())
    return Target(**document | {"caches": Caches(**document["caches"]), "features": tuple(document["features"])})


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.name)
def test_the_committed_model_is_what_its_data_give(path: Path) -> None:
    """When a feature or the analytic model changes: ``python scripts/group_dataset.py --train-only``."""
    committed = LearnedCostModel.load(path)
    made = data_of(path)
    target = recorded_target(path)
    assert committed.target["key"] == target.key
    assert committed.kernels == len(made)
    trained = LearnedCostModel.train(made, target)
    for name in ("median_error", "rank_correlation"):
        assert getattr(trained.evaluation.learned, name) == pytest.approx(
            getattr(committed.evaluation.learned, name), abs=0.02
        )
    expected = [committed.predict(one.graph, [one.nodes], target)[0].seconds for one in made[::6]]
    found = [trained.predict(one.graph, [one.nodes], target)[0].seconds for one in made[::6]]
    assert np.median(np.abs(np.log(np.array(found) / np.array(expected)))) < 0.02


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.name)
def test_the_committed_model_ranks_held_out_groups_and_beats_the_analytic_one(path: Path) -> None:
    evaluation = LearnedCostModel.load(path).evaluation
    assert evaluation.warning == ""
    assert evaluation.kernels >= 140
    assert evaluation.learned.rank_correlation >= 0.9
    assert evaluation.learned.median_error <= 0.8 * evaluation.analytic.median_error
    assert 0.7 <= evaluation.coverage <= 0.9


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.name)
def test_the_committed_model_knows_the_kernels_it_was_trained_on(path: Path) -> None:
    committed, made = LearnedCostModel.load(path), data_of(path)
    target = recorded_target(path)
    some = made[::3]
    predicted = [committed.predict(one.graph, [one.nodes], target)[0].seconds for one in some]
    found = scores(np.log(predicted), np.log([one.seconds for one in some]))
    assert found.rank_correlation > 0.97
    assert found.median_error < 0.2


def test_there_is_a_committed_model() -> None:
    assert MODELS
    assert pretrained(TARGET) is pretrained(TARGET) is not None


def test_samples_as_a_file(tmp_path: Path) -> None:
    made = samples(contractions_slow, 5)
    first, second = tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl.gz"
    assert write_samples(first, made) == 5
    write_samples(second, read_samples(first))
    assert first.read_bytes() == second.read_bytes()
    first.write_bytes(second.read_bytes()[:40])
    for path in (first, tmp_path / "absent"):
        with pytest.raises(CostModelError, match="holds no measured kernels"):
            read_samples(path)
