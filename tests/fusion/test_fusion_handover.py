"""What a kernel costs inside a model beyond its time alone, and that plans and decisions count it."""

from __future__ import annotations

import pytest
from fusion_graphs import TARGET, Net

from workbench.fusion import Evidence, Measured, plan
from workbench.fusion.handover import CALL_SECONDS, HANDOVER_SPEEDUP, WAKE_SECONDS, beside
from workbench.graph import Graph

FIXED = CALL_SECONDS + WAKE_SECONDS
PER_BYTE = 1 / (TARGET.peak_gbps * 1e9 * HANDOVER_SPEEDUP)


def pair(rows: int) -> Graph:
    net = Net()
    a = net.op("exp", net.input("x", rows, 256), name="a")
    return net.graph(net.op("tanh", a, name="b"))


def test_arguments_that_fit_the_second_level_caches_are_handed_over() -> None:
    graph = pair(256)
    assert beside(graph, ("a",), TARGET) == pytest.approx(FIXED + 2 * 4 * 256 * 256 * PER_BYTE)
    assert beside(graph, ("a", "b"), TARGET) == pytest.approx(beside(graph, ("a",), TARGET))


def test_larger_ones_come_from_beyond_them_in_either_case() -> None:
    assert beside(pair(4096), ("a",), TARGET) == pytest.approx(FIXED)


def test_weights_are_nobodys_results_and_views_no_kernels() -> None:
    net = Net()
    m = net.op("matmul", net.input("x", 64, 64), net.const(64, 64), name="m")
    graph = net.graph(net.op("reshape", m, shape=(4096,), name="r"))
    assert beside(graph, ("m",), TARGET) == pytest.approx(FIXED + 2 * 4 * 64 * 64 * PER_BYTE)
    assert beside(graph, ("r",), TARGET) == 0.0


def test_a_decision_says_what_part_of_its_prediction_it_is() -> None:
    made = plan(pair(256), TARGET)
    decision = next(one for one in made.decisions if one.nodes == ("a", "b"))
    each = 1e6 * beside(made.graph, ("a",), TARGET)
    assert decision.beside_us == pytest.approx({"fused": each, "unfused": 2 * each})
    assert all(decision.predicted_us[form] > decision.beside_us[form] for form in ("fused", "unfused"))


def test_kernels_that_are_as_fast_apart_by_themselves_are_fused_for_the_models_sake() -> None:
    graph = pair(256)
    times = {frozenset("a"): 10e-6, frozenset("b"): 10e-6, frozenset("ab"): 22e-6}
    measured = {nodes: Measured(seconds, seconds, seconds) for nodes, seconds in times.items()}
    made = plan(graph, TARGET, evidence=Evidence(measured))
    assert [group.nodes for group in made.groups] == [("a", "b")]
    decision = next(one for one in made.decisions if one.nodes == ("a", "b"))
    assert decision.measured_us == pytest.approx({"fused": 22, "unfused": 20})  # as they were measured
    assert decision.verdict == "fuse"
    assert "measured 22.0 µs fused, 20.0 µs apart; " in decision.reason
