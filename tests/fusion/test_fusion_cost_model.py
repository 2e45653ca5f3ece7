"""Cost models: what every one keeps, and what a learned one learns, promises, refuses and remembers."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from fusion_graphs import TARGET, Net
from measured_kernels import contractions_slow, group, noisy, samples

from workbench.errors import CostModelError
from workbench.fusion import features
from workbench.fusion.cost_models import AnalyticCostModel, CostModel, Evaluation, LearnedCostModel, Prediction, Scores
from workbench.fusion.cost_models._boosting import folds, widened, widening
from workbench.fusion.cost_models.evaluate import spearman
from workbench.graph import Graph


@pytest.fixture(scope="module")
def learned() -> LearnedCostModel:
    return LearnedCostModel.train(samples(contractions_slow), TARGET)


@pytest.fixture(params=["analytic", "learned"])
def model(request: pytest.FixtureRequest, learned: LearnedCostModel) -> CostModel:
    return learned if request.param == "learned" else AnalyticCostModel()


def chain() -> Graph:
    net = Net()
    x = net.op("matmul", net.input("x", 128, 256), net.const(256, 64), name="product")
    x = net.op("nn.gelu", net.op("add", x, net.const(64), name="bias"), name="gelu")
    return net.graph(net.op("reshape", x, shape=(64, 128), name="view"))


class TestEveryModel:
    def test_predictions_come_in_the_order_given_with_bounds_around_them(self, model: CostModel) -> None:
        graph = chain()
        sets = [("product", "bias", "gelu"), ("gelu",), ("product",), ("view",), ("bias", "gelu")]
        found = model.predict(graph, sets, TARGET)
        assert [model.seconds(graph, nodes, TARGET) for nodes in sets] == [one.seconds for one in found]
        assert all(0 < one.low <= one.seconds <= one.high < 1 for one in found)

    def test_neither_order_nor_repetition_counts(self, model: CostModel) -> None:
        graph = chain()
        assert model.predict(graph, [("gelu", "bias")], TARGET) == model.predict(graph, [["bias", "gelu"]], TARGET)
        assert model.predict(graph, [], TARGET) == []

    def test_a_view_costs_what_the_analytic_model_says(self, model: CostModel) -> None:
        assert model.seconds(chain(), ["view"], TARGET) == AnalyticCostModel().seconds(chain(), ["view"], TARGET)


# Learning


def test_a_law_is_learned_and_holds_for_shapes_that_were_not_measured(learned: LearnedCostModel) -> None:
    for name, factor in (("matmul+add", 3.0), ("exp", 0.5), ("multiply+add", 0.5), ("matmul", 3.0)):
        graph = group(name, 200, 300, 80)
        nodes = [node.id for node in graph.nodes]
        expected = factor * AnalyticCostModel().seconds(graph, nodes, TARGET)
        assert learned.seconds(graph, nodes, TARGET) == pytest.approx(expected, rel=0.15)


def test_held_out_sequences_show_what_was_learned(learned: LearnedCostModel) -> None:
    evaluation = learned.evaluation
    assert (evaluation.kernels, evaluation.sequences, evaluation.folds) == (96, 12, 10)
    assert evaluation.warning == ""
    assert evaluation.learned.median_error < 0.1 < evaluation.analytic.median_error
    assert evaluation.learned.rank_correlation > evaluation.analytic.rank_correlation


def test_the_interval_holds_eight_measurements_in_ten() -> None:
    noise = noisy(0.3, contractions_slow)
    model = LearnedCostModel.train(samples(noise, 240), TARGET)
    assert 0.7 <= model.evaluation.coverage <= 0.9
    inside = 0
    fresh = samples(noise, 200)
    for one in fresh:
        (predicted,) = model.predict(one.graph, [one.nodes], TARGET)
        inside += predicted.low <= one.seconds <= predicted.high
    assert 0.68 <= inside / len(fresh) <= 0.95


def test_where_nothing_can_be_learned_a_warning_says_so() -> None:
    model = LearnedCostModel.train(samples(noisy(1e-9, lambda graph, analytic: analytic)), TARGET)
    assert "no better than the analytic one" in model.evaluation.warning


@pytest.mark.parametrize(
    ("learned", "analytic", "warned"),
    [
        (Scores(0.1, 0.5, 0.95), Scores(0.2, 0.6, 0.94), ""),
        (Scores(0.2, 0.5, 0.95), Scores(0.2, 0.6, 0.94), "median error 20% against 20%"),
        (Scores(0.1, 0.5, 0.93), Scores(0.2, 0.6, 0.94), "rank correlation 0.930 against 0.940"),
    ],
)
def test_the_warning_names_what_is_not_better(learned: Scores, analytic: Scores, warned: str) -> None:
    evaluation = Evaluation(100, 10, 10, learned, analytic, 0.8)
    assert warned in evaluation.warning
    assert bool(evaluation.warning) == bool(warned)
    assert Evaluation.from_json(json.loads(json.dumps(evaluation.to_json()))) == evaluation


@pytest.mark.parametrize("count", [0, 39])
def test_too_few_kernels_are_refused_with_their_number(count: int) -> None:
    with pytest.raises(CostModelError, match=f"at least 40 measured kernels .*there are {count} of .*test machine"):
        LearnedCostModel.train(samples(contractions_slow, count), TARGET)


def test_views_teach_nothing() -> None:
    net = Net()
    graph = net.graph(net.op("reshape", net.input("x", 8, 8), shape=(64,)))
    one = samples(contractions_slow, 1)[0]
    views = [type(one)(graph, 1e-6, 1e-6, 1e-6)] * 100
    with pytest.raises(CostModelError, match="there are 0 of 0"):
        LearnedCostModel.train(views, TARGET)


def test_the_same_kernels_give_the_same_model_in_any_process(learned: LearnedCostModel) -> None:
    code = (
        "import hashlib\nfrom fusion_graphs import TARGET\nfrom measured_kernels import contractions_slow, samples\n"
        "from workbench.fusion.cost_models import LearnedCostModel\n"
        "print(hashlib.sha256(LearnedCostModel.train(samples(contractions_slow), TARGET).dump()).hexdigest())"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.strip() == hashlib.sha256(learned.dump()).hexdigest()


def test_importances_are_shares_of_known_features(learned: LearnedCostModel) -> None:
    importances = learned.importances()
    assert importances.keys() <= set(features.NAMES)
    assert sum(importances.values()) == pytest.approx(1.0)
    assert list(importances.values()) == sorted(importances.values(), reverse=True)


def test_two_thousand_kernels_of_a_large_graph_take_about_a_second(learned: LearnedCostModel) -> None:
    net = Net()
    x = net.input("x", 64, 256)
    for _ in range(125):
        y = net.op("add", net.op("matmul", x, net.const(256, 256)), net.const(256))
        x = net.op("add", net.op("nn.gelu", y), x)
    graph = net.graph(x)
    ids = [node.id for node in graph.nodes]
    sets = [tuple(ids[start : start + size]) for size in range(1, 6) for start in range(400)]
    began = time.process_time()
    assert len(learned.predict(graph, sets, TARGET)) == 2000
    assert time.process_time() - began < 4  # 0.6 s on an idle core


# Documents


@pytest.mark.parametrize("name", ["model.json", "model.json.gz"])
def test_a_saved_model_predicts_the_same(learned: LearnedCostModel, tmp_path: Path, name: str) -> None:
    learned.save(tmp_path / name)
    loaded = LearnedCostModel.load(tmp_path / name)
    graph = chain()
    sets = [("product", "bias", "gelu"), ("gelu",), ("view",)]
    assert loaded.predict(graph, sets, TARGET) == learned.predict(graph, sets, TARGET)
    assert loaded.dump() == learned.dump()
    assert (loaded.kernels, loaded.target["key"]) == (96, TARGET.key)
    assert json.loads(learned.dump())["features"] == list(features.NAMES)


def _drop_feature(document: dict) -> None:
    document["features"] = document["features"][:-1]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_drop_feature, "trained on other features, such as opaque; train it again"),
        (lambda d: d.update(features=d["features"][::-1]), "other features in another order"),
        (lambda d: d.update(stamp="0"), "gave other numbers; train it again"),
        (lambda d: d.update(schema=2), "schema 2, and this workbench reads up to 1"),
        (lambda d: d.update(format="else"), "is no cost model"),
        (lambda d: d.update(booster={}), "broken cost model"),
        (lambda d: d.pop("evaluation"), "broken cost model: 'evaluation'"),
    ],
)
def test_a_document_that_cannot_be_used_says_why(
    learned: LearnedCostModel, tmp_path: Path, damage: Callable, message: str
) -> None:
    document = learned.to_json()
    damage(document)
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document))
    with pytest.raises(CostModelError, match=message) as raised:
        LearnedCostModel.load(path)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("content", [b"", b"[1]", b"\x1f\x8bxx", b"{"])
def test_a_file_of_something_else(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.json"
    with pytest.raises(CostModelError, match="cannot be read"):
        LearnedCostModel.load(path)
    path.write_bytes(content)
    with pytest.raises(CostModelError, match="is no cost model"):
        LearnedCostModel.load(path)


# The parts of an evaluation


def test_rank_correlation_is_spearmans() -> None:
    random = np.random.default_rng(0)
    first = random.integers(0, 9, 50).astype(float)  # with ties
    second = first + random.standard_normal(50)
    assert spearman(first, second) == pytest.approx(scipy.stats.spearmanr(first, second).statistic)
    assert spearman(first, np.exp(first)) == pytest.approx(1.0)
    assert spearman(first, np.zeros(50)) == 0.0


def test_folds_split_no_group_and_are_of_about_one_size() -> None:
    groups = ["a"] * 7 + ["b"] * 5 + ["c"] * 4 + ["d"] * 3 + ["e"] * 1
    found = folds(groups, 3)
    assert all(len({fold for name, fold in zip(groups, found, strict=True) if name == one}) == 1 for one in "abcde")
    assert sorted(np.bincount(found)) == [6, 7, 7]
    assert list(folds(groups[::-1], 3)) == list(found[::-1])


def test_widening_is_the_conformal_quantile() -> None:
    """Nine held-out scores: the ceil(10 x 0.8) = 8th smallest distance outside the bounds."""
    found = np.tile([-1.0, 0.0, 1.0], (9, 1))
    targets = np.array([0.0, 0.5, 1.1, 1.2, 1.3, -1.4, -1.5, -1.6, 3.0])
    assert widening(found, targets) == pytest.approx(0.6)
    assert widened(found, 0.6)[0] == pytest.approx([-1.6, 0.0, 1.6])
    assert widened(found, -5.0)[0] == pytest.approx([0.0, 0.0, 0.0])  # bounds never pass the prediction


def test_a_prediction_is_what_it_says() -> None:
    assert Prediction(2.0, 1.0, 3.0) == Prediction(seconds=2.0, low=1.0, high=3.0)
