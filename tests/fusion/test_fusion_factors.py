"""Every factor of a decision, against figures worked out by hand."""

from __future__ import annotations

import dataclasses
import time

import pytest
from fusion_graphs import TARGET, Net

from workbench.fusion.compile_time import compile_seconds
from workbench.fusion.plan import Factors
from workbench.fusion.profit import cache_level, factors, work_of
from workbench.graph import Graph

KIB, MIB = 1 << 10, 1 << 20


def of(graph: Graph, *nodes: str) -> Factors:
    return factors(graph, nodes or [node.id for node in graph.nodes], TARGET)


def test_recomputed_work_is_summed_over_operators_and_consumers():
    net = Net()
    a = net.op("tanh", net.input("x", 64, 64), name="a")
    b = net.op("sigmoid", a, name="b")
    wide = net.op("add", net.op("sum", b, axis=(1,), keepdims=True, name="s"), b, name="wide")
    graph = net.graph(wide, net.op("nn.relu", a, name="r"))
    found = of(graph, "a", "b", "wide", "r", "s")
    each = {node.id: node.flops for node in graph.nodes}
    # a feeds three nests (s and wide through b, and r), b feeds two: everything beyond the first time is done again.
    assert found.recompute == 3.0
    assert found.recomputed_flops == 2 * each["a"] + 1 * each["b"]


@pytest.mark.parametrize("depth", [1, 8])
def test_recomputed_work_of_a_thin_chain_grows_with_its_depth_the_factor_does_not(depth: int):
    net = Net()
    z = x = net.input("x", 1024, 1)
    for _ in range(depth):
        z = net.op("exp", net.op("subtract", x, z))
    graph = net.graph(net.op("add", z, net.input("b", 1024, 1024)))
    found = of(graph)
    assert found.recompute == 1024.0
    assert found.recomputed_flops == 1023 * 1024 * (16 + 1) * depth
    assert of(graph, *[node.id for node in graph.nodes][:-1]).recomputed_flops == 0.0


@pytest.mark.parametrize(
    ("footprint", "level"),
    [
        (64 * KIB, "L1"),
        (64 * KIB + 1, "L2"),
        (MIB, "L2"),
        (MIB + 1, "L3"),
        (32 * MIB, "L3"),
        (32 * MIB + 1, "memory"),
    ],
)
def test_private_caches_count_once_a_thread_the_shared_one_once(footprint: int, level: str):
    assert cache_level(footprint, TARGET) == level  # 32 KiB, 512 KiB a core; 32 MiB; two threads


@pytest.mark.parametrize(("rows", "level"), [(64, "L1"), (256, "L2"), (2048, "L3"), (65536, "memory")])
def test_level_is_where_arguments_and_results_fit(rows: int, level: str):
    net = Net()
    graph = net.graph(net.op("nn.relu", net.op("tanh", net.input("x", rows, 128), name="a"), name="b"))
    assert of(graph).level == level  # x in, b out: 1 KiB a row; a is inside


def test_one_thread_has_one_private_cache():
    net = Net()
    graph = net.graph(net.op("nn.relu", net.input("x", 64, 128), name="a"))
    assert factors(graph, ["a"], TARGET).level == "L1"
    assert factors(graph, ["a"], dataclasses.replace(TARGET, threads=1)).level == "L2"


def test_a_small_kernel_is_bound_by_its_launch():
    net = Net()
    graph = net.graph(net.op("nn.relu", net.op("tanh", net.input("x", 64, 64))))
    found = of(graph)
    # 86 kFLOP take 0.4 us, 32 KiB out of L1 0.07 us; a launch takes 3 us.
    assert (found.bound_before, found.bound_after) == ("launch", "launch")


def test_a_long_chain_turns_from_memory_to_compute_bound():
    net = Net()
    value = net.input("x", 4096, 4096)
    for _ in range(12):
        value = net.op("tanh", value)
    found = of(net.graph(value))
    # An element and operator: 20 FLOP at 195 GFLOP/s take 0.10 ns, 8 bytes at 30 GB/s 0.27 ns. Fused: 1.23 to 0.27.
    assert (found.bound_before, found.bound_after) == ("memory", "compute")
    assert found.intensity_before == pytest.approx(2.5)
    assert found.intensity_after == pytest.approx(30.0)


def test_a_matmul_is_bound_by_arithmetic_before_and_after():
    net = Net()
    m = net.op("matmul", net.input("x", 1024, 1024), net.const(1024, 1024))
    found = of(net.graph(net.op("add", m, net.const(1024))))
    assert (found.bound_before, found.bound_after) == ("compute", "compute")


def test_arguments_are_the_tensors_of_the_signature_scalars_are_inlined():
    net = Net()
    x, y = net.input("x", 64, 64), net.input("y", 64)
    a = net.op("multiply", net.op("add", x, y), 0.5)
    found = of(net.graph(net.op("add", a, net.const(64))))
    assert found.arguments == 4  # x, y and a constant tensor in, one tensor out; 0.5 is in the code


def test_a_reshape_on_its_own_is_a_view_and_saves_neither_launch_nor_traffic():
    net = Net()
    a = net.op("tanh", net.input("x", 64, 64), name="a")
    graph = net.graph(net.op("reshape", a, name="r", shape=(4096,)))
    found = of(graph)
    assert (found.launches_saved, found.bytes_saved) == (0, 0)


def test_compile_time_follows_the_measured_line():
    net = Net()
    m = net.op("matmul", net.input("x", 64, 64), net.const(64, 64))
    found = of(net.graph(net.op("nn.softmax", m, axis=-1)))
    assert found.compile_s == compile_seconds(operators=2, contractions=1, reductions=1, arguments=3)
    assert 0.05 < found.compile_s < 0.3  # seconds, as kernels of this size took
    assert compile_seconds(40, 0, 0, 3) > compile_seconds(2, 0, 0, 3)


def test_parallelism_and_pressure_are_those_of_the_narrowest_nest():
    net = Net()
    s = net.op("nn.softmax", net.input("x", 8, 4096), axis=-1, name="s")
    found = of(net.graph(net.op("nn.relu", s, name="r")))
    assert found.parallelism == 8
    assert found.pressure == 2 / 16


def test_factors_of_a_known_kernel_are_the_same_without_walking_it_again():
    net = Net()
    value = net.input("x", 256, 256)
    for _ in range(100):
        value = net.op("tanh", value)
    graph = net.graph(value)
    nodes = [node.id for node in graph.nodes]
    work = work_of(graph, nodes)
    assert factors(graph, nodes, TARGET, work) == of(graph)
    began = time.perf_counter()
    for start in range(len(nodes) - 4):
        factors(graph, nodes[start : start + 4], TARGET)
    assert time.perf_counter() - began < 1.0  # hundreds of sets are asked for in a planning
