"""Factors and the analytic cost model, against figures worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fusion_graphs import TARGET, Net

from workbench.fusion.cost_models import AnalyticCostModel
from workbench.fusion.cost_models.analytic import contraction_family
from workbench.fusion.profit import factors, pressure, work_of
from workbench.graph import Graph

KIB = 1024


def thin_chain(depth: int, rows: int = 4096) -> Graph:
    """``depth`` times z = exp(x - 0.5 z) on [rows, 1], then added to [rows, rows]."""
    net = Net(f"thin_chain_{depth}")
    x, b = net.input("x", rows, 1), net.input("b", rows, rows)
    z = x
    for _ in range(depth):
        z = net.op("exp", net.op("subtract", x, net.op("multiply", 0.5, z)))
    return net.graph(net.op("add", b, z, name="wide"))


@pytest.mark.parametrize("depth", [8, 16])
def test_recompute_factor_of_a_thin_chain_is_the_ratio_of_sizes(depth: int):
    graph = thin_chain(depth)
    everything = [node.id for node in graph.nodes]
    assert factors(graph, everything, TARGET).recompute == 4096.0
    assert factors(graph, everything[:-1], TARGET).recompute == 1.0
    work = work_of(graph, everything)
    # All of the inlined work counts: (16 + 1 + 1) operations a step, once for each element of the wide result.
    assert work.flops == 4096 * 4096 * (18 * depth + 1)
    # What is the same along a row is done once for 64 elements.
    assert work.executed_flops == 4096 * 4096 * (18 * depth / 64 + 1)


def test_only_work_that_is_the_same_along_rows_is_hoisted():
    net = Net()
    column, row = net.op("exp", net.input("column", 128, 1)), net.op("exp", net.input("row", 1, 32))
    graph = net.graph(net.op("add", column, row, name="wide"))
    work = work_of(graph, [node.id for node in graph.nodes])
    assert work.flops == 128 * 32 * (16 + 16 + 1)
    assert work.executed_flops == 128 * 32 * (16 / 32 + 16 + 1)  # rows of 32: once each


def test_work_that_a_transpose_turns_along_the_row_is_not_hoisted():
    net = Net()
    wide = net.op("add", net.op("exp", net.input("column", 128, 1)), net.input("x", 128, 64))
    graph = net.graph(net.op("permute_dims", wide, axes=(1, 0)))
    work = work_of(graph, [node.id for node in graph.nodes])
    assert work.executed_flops == work.flops


def test_bytes_and_launches_saved_by_a_chain():
    net = Net()
    x, y = net.input("x", 256, 256), net.input("y", 256, 256)
    s = net.op("add", x, y)
    graph = net.graph(net.op("multiply", net.op("sigmoid", s), y))
    found = factors(graph, [node.id for node in graph.nodes], TARGET)
    tensor = 256 * KIB
    assert found.bytes_saved == 5 * tensor  # two intermediates written and read, and y read once, not twice: 8 -> 3
    assert found.launches_saved == 2
    assert found.intensity_before == pytest.approx(22 * 65536 / (8 * tensor))
    assert found.intensity_after == pytest.approx(22 * 65536 / (3 * tensor))


def test_two_users_in_one_nest_share_the_value_two_outputs_do_not():
    net = Net()
    a = net.op("tanh", net.input("x", 64, 64), name="a")
    square = net.op("multiply", a, a, name="square")
    one = net.graph(square)
    assert work_of(one, {"a", "square"}).recompute == {"a": 1.0}
    other = net.op("add", a, 1.0, name="other")
    two = net.graph(square, other)
    assert work_of(two, {"a", "square", "other"}).recompute == {"a": 2.0}


def test_a_producer_of_a_contraction_is_repeated_for_every_output_column():
    net = Net()
    a = net.op("nn.relu", net.input("x", 64, 32), name="a")
    graph = net.graph(net.op("matmul", a, net.const(32, 128), name="m"))
    assert work_of(graph, {"a", "m"}).recompute == {"a": 128.0}


def test_a_producer_of_a_row_reduction_is_not_repeated():
    net = Net()
    a = net.op("add", net.input("x", 64, 32), net.input("y", 64, 32), name="a")
    graph = net.graph(net.op("nn.softmax", a, name="s", axis=-1))
    assert work_of(graph, {"a", "s"}).recompute == {"a": 1.0}


def test_overlapping_windows_repeat_their_producer():
    net = Net()
    a = net.op("nn.relu", net.input("x", 1, 4, 8, 8), name="a")
    graph = net.graph(net.op("nn.max_pool2d", a, name="p", pool_size=(2, 2)))
    assert work_of(graph, {"a", "p"}).recompute == {"a": 1.0}  # windows that do not overlap


def test_an_escaping_value_is_a_nest_of_its_own_and_is_read_back():
    net = Net()
    a = net.op("tanh", net.input("x", 64, 64), name="a")
    graph = net.graph(net.op("nn.relu", a, name="b"), a)
    work = work_of(graph, {"a", "b"})
    assert [nest.root.id for nest in work.nests] == ["a", "b"]
    assert work.recompute == {}
    assert work.nests[1].reads == ("a",)


def test_register_pressure_uses_the_target_s_register_file():
    net = Net()
    x = net.input("x", 64)
    graph = net.graph(net.op("add", net.op("tanh", x, name="a"), x, name="b"))
    assert pressure(graph, {"a", "b"}, TARGET) == 3 / 16
    wide = replace(TARGET, features=("avx512f",))
    assert pressure(graph, {"a", "b"}, wide) == 3 / 32


def test_seconds_of_a_large_add_follow_the_memory_bandwidth():
    net = Net()
    graph = net.graph(net.op("add", net.input("x", 4096, 4096), net.input("y", 4096, 4096), name="a"))
    seconds = AnalyticCostModel().seconds(graph, {"a"}, TARGET)
    least = 3 * 64 * 2**20 / 30e9
    assert least < seconds < 1.4 * least


def test_seconds_of_a_large_matmul_follow_the_arithmetic_peak():
    net = Net()
    graph = net.graph(net.op("matmul", net.input("x", 1024, 1024), net.const(1024, 1024), name="m"))
    seconds = AnalyticCostModel().seconds(graph, {"m"}, TARGET)
    least = 2 * 1024**3 / 195e9
    assert least < seconds < 2 * least


def test_a_small_kernel_costs_its_launch():
    net = Net()
    graph = net.graph(net.op("add", net.input("x", 16), 1.0, name="a"))
    assert AnalyticCostModel().seconds(graph, {"a"}, TARGET) == pytest.approx(TARGET.launch_us * 1e-6, rel=0.01)


def test_contractions_that_no_schedule_serves_are_told_apart():
    net = Net()
    x = net.input("x", 32, 32)
    a, b = net.op("matmul", x, net.const(32, 32), name="a"), net.op("matmul", x, net.const(32, 32), name="b")
    net.op("matmul", a, b, name="c")
    graph = net.graph("c")
    assert contraction_family(graph, ("a",)) == "single"
    assert contraction_family(graph, ("a", "b")) == "parallel"
    assert contraction_family(graph, ("a", "b", "c")) == "unscheduled"
