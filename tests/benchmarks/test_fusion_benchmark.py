"""What the benchmark of planning is made of: the reported cases, the count of verdicts, the large graphs."""

from __future__ import annotations

from pathlib import Path

import pytest
from fusion_graphs import TARGET
from measured_kernels import contractions_slow, samples
from sample_run import sample_run

import workbench as wb
from benchmarks import fusion_cases
from benchmarks.fusion import at_most_over_greedy, ranking
from benchmarks.fusion_cases import CASES
from benchmarks.synthetic_graphs import graph_of
from benchmarks.verdicts import agreement, confusion, count, measured_verdict, predicted_verdict
from workbench.fusion import check_partition, plan
from workbench.fusion.cost_models import AnalyticCostModel, LearnedCostModel
from workbench.graph import from_model
from workbench.report.document import DecisionPart
from workbench.targets import resolve

OPERATORS = {
    "pool_of_concats": 16,
    "thin_chain_8": 25,
    "thin_chain_16": 49,
    "thin_row_chain_8": 25,
    "thin_row_chain_16": 49,
    "masked_softmax": 2,
    "paired_products": 9,
    "tree_lookups": 57,
    "window_softmax": 2,
    "row_softmax": 5,
    "norm_transpose": 7,
    "relu_transpose_sum": 4,
    "thin_producers": 48,
    "amax_cast": 3,
    "matmul_prologue": 3,
}


def test_every_case_is_listed_with_its_report():
    assert CASES.keys() == OPERATORS.keys()
    for name, case in CASES.items():
        assert case.build is getattr(fusion_cases, name)
        assert case.url.startswith("https://github.com/")
        assert case.right


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_a_model_like_any_other(name: str):
    model = wb.load(f"{Path(fusion_cases.__file__)}:{name}")
    graph = from_model(model)
    assert len(graph.nodes) == OPERATORS[name]
    made = plan(graph, resolve("llvm"))
    assert len(made.groups) < len(graph.nodes)


def decision(boundary: str, expected: str | None, **times: float) -> DecisionPart:
    return DecisionPart(
        boundary=boundary,
        rule="",
        verdict="tie",
        reason="",
        expected=expected,
        measured_us=times or None,
        measured_in="model",
    )


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(1.06, "fuse"), (1.04, "tie"), (1.0, "tie"), (0.96, "tie"), (0.94, "split")]
)
def test_a_measured_tie_is_a_band_of_five_per_cent(ratio: float, verdict: str):
    assert measured_verdict(ratio) == verdict


def test_verdicts_are_counted_against_the_best_form_apart():
    counts = count(
        [
            decision("a+b", "fuse", fused=10.0, unfused=20.0),
            decision("a+b", "split", fused=10.0, unfused=20.0),  # another rule's proposal of the same set
            decision("a+b+c", "fuse", fused=10.0, unfused=20.0, partial=8.0),
            decision("b+c", "tie", fused=10.0, unfused=10.8),  # harmless
            decision("c+d", "tie", fused=10.0, unfused=12.0),
            decision("d+e", "split", fused=10.0, unfused=10.4),  # harmless
            decision("e+f", None, fused=10.0, unfused=20.0),  # nothing was predicted
            decision("f+g", "fuse", fused=10.0),  # not measured apart
            decision("g+h", "fuse"),
        ]
    )
    assert counts == {"fuse/fuse": 1, "fuse/split": 1, "tie/fuse (near)": 1, "tie/fuse": 1, "split/tie (near)": 1}
    assert agreement(counts) == pytest.approx(3 / 5)
    table = confusion(counts)
    assert table["tie"] == {"fuse": 2, "tie": 0, "split": 0}
    assert sum(sum(row.values()) for row in table.values()) == 5


def test_what_was_measured_kernel_by_kernel_is_held_against_the_prediction_for_that():
    """In the model the two kernels' handing over makes them slower than the one."""
    made = decision("a+b", "fuse", fused=20.0, unfused=20.2).model_copy(
        update={
            "measured_in": "kernel",
            "predicted_us": {"fused": 30.0, "unfused": 40.0},
            "beside_us": {"fused": 10.0, "unfused": 20.0},
        }
    )
    assert predicted_verdict(made) == "tie"
    assert count([made]) == {"tie/tie": 1}
    assert count([made.model_copy(update={"measured_in": "model"})]) == {"fuse/tie (near)": 1}


def test_no_boundary_is_no_agreement():
    assert agreement({}) == 0.0


@pytest.mark.parametrize("operators", [40, 41, 130])
def test_a_synthetic_graph_has_as_many_operators_as_asked_for_and_a_legal_plan(operators: int):
    graph, again = graph_of(operators), graph_of(operators)
    assert len(graph.nodes) == operators
    assert graph.fingerprint == again.fingerprint
    assert any(len(graph.users(value)) > 2 for value in graph.values)
    made = plan(graph, resolve("llvm"))
    check_partition(graph, [group.nodes for group in made.groups])
    assert len(made.groups) < operators / 2


def test_no_plan_is_faster_over_greedy_than_memory_lets_inputs_and_outputs_pass():
    run = sample_run()
    (greedy,) = [variant for variant in run.variants if variant.name == "greedy"]
    megabytes = 2 * 256 * 512 * 4 / 1e6  # x and the result
    expected = sorted(greedy.samples_us)[len(greedy.samples_us) // 2] * run.target.peak_gbps / (megabytes * 1e3)
    assert at_most_over_greedy(run) == pytest.approx(expected, rel=0.01)


def test_the_ranking_of_a_cold_start_is_that_of_a_model_trained_on_what_was_measured():
    made = samples(contractions_slow, 60)
    learned = LearnedCostModel.train(made, TARGET)
    cold, warm = ranking(AnalyticCostModel(), made, TARGET), ranking(learned, (), TARGET)
    assert cold.value == warm.value == learned.evaluation.learned.rank_correlation > 0.9
    assert (cold.detail["planned_with"], warm.detail["planned_with"]) == ("analytic", "learned")
    assert cold.detail["analytic"]["rank_correlation"] < 1


def test_the_ranking_of_too_few_kernels_is_missed_and_says_so():
    figure = ranking(AnalyticCostModel(), samples(contractions_slow, 3), TARGET)
    assert not figure.passed
    assert "at least 40 measured kernels" in figure.detail["error"]
