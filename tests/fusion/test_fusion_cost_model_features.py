"""Features: worked out by hand on small groups, and compared with the loop nests of lowered tensor programs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import numpy as np
import pytest
from fusion_graphs import TARGET, Net

from workbench.fusion import features, plan
from workbench.fusion.cost_models import AnalyticCostModel
from workbench.fusion.profit import work_of
from workbench.graph import Graph, from_model
from workbench.graph.serialise import from_json, to_json
from workbench.models import load
from workbench.models.zoo import build


def row(graph: Graph, *nodes: str) -> dict[str, float]:
    chosen = nodes or tuple(node.id for node in graph.nodes)
    return dict(zip(features.NAMES, features.features(graph, chosen, TARGET).tolist(), strict=True))


def log2(value: float) -> float:
    return math.log2(1 + value)


def test_every_name_is_there_once() -> None:
    assert len(set(features.NAMES)) == len(features.NAMES)


def test_a_matmul_with_a_slow_epilogue() -> None:
    net = Net()
    x = net.op("matmul", net.input("x", 64, 96), net.const(96, 32))
    graph = net.graph(net.op("exp", net.op("add", x, net.const(32))))
    found = row(graph)
    analytic = AnalyticCostModel().seconds(graph, [node.id for node in graph.nodes], TARGET)
    assert found["analytic"] == pytest.approx(math.log(analytic), rel=1e-6)
    assert found["launch_share"] == pytest.approx(3e-6 / analytic, rel=1e-6)
    assert found["flops_contraction"] == pytest.approx(log2(2 * 64 * 96 * 32))
    assert found["flops_elementwise"] == pytest.approx(log2(16 * 64 * 32))  # the exponential is written out
    assert found["flops_inlined"] == pytest.approx(log2(64 * 32))  # the bias is not
    assert found["bytes_in"] == pytest.approx(log2(4 * (64 * 96 + 96 * 32 + 32)))
    assert found["bytes_out"] == pytest.approx(log2(4 * 64 * 32))
    assert found["bytes_temporary"] == pytest.approx(log2(4 * 64 * 32))
    assert (found["operators"], found["arguments"], found["outputs"], found["dtype_bytes"]) == (3, 3, 1, 4)
    assert (found["nests"], found["nests_contraction"], found["nests_reduction"]) == (2, 1, 0)
    assert found["main_outer"] == pytest.approx(log2(64))
    assert found["main_innermost"] == pytest.approx(log2(32))
    assert found["main_reduction"] == pytest.approx(log2(96))
    assert (found["family_single"], found["family_attention"], found["slow_function"], found["softmax"]) == (1, 0, 1, 0)


def test_work_that_is_done_again_shows() -> None:
    net = Net()
    row_of = net.op("exp", net.input("x", 1, 32))
    graph = net.graph(net.op("add", net.op("broadcast_to", row_of, shape=(64, 32)), net.input("y", 64, 32)))
    assert row(graph)["recompute"] == pytest.approx(log2(64))
    assert row(graph)["inlined_share"] == pytest.approx(16 / 17)


def test_a_strided_read_shows() -> None:
    net = Net()
    turned = net.op("permute_dims", net.input("x", 32, 64), axes=(1, 0))
    graph = net.graph(net.op("exp", turned))
    found = row(graph)
    assert (found["transposed_reads"], found["transpose"]) == (1, 1)
    assert found["transposed_bytes"] == pytest.approx(log2(4 * 32 * 64))


@pytest.mark.parametrize(
    ("weights", "groups", "strides", "flag"),
    [
        ((8, 16, 1, 1), 1, (1, 1), "conv_1x1"),
        ((8, 16, 3, 3), 1, (1, 1), "conv_windowed"),
        ((16, 1, 3, 3), 16, (1, 1), "conv_depthwise"),
        ((8, 16, 3, 3), 1, (2, 2), "conv_strided"),
    ],
)
def test_convolutions_by_kind(weights: tuple[int, ...], groups: int, strides: tuple[int, int], flag: str) -> None:
    net = Net()
    out = net.op("nn.conv2d", net.input("x", 1, 16, 14, 14), net.const(*weights), groups=groups, strides=strides)
    found = row(net.graph(out))
    assert found[flag] == 1
    assert sum(found[name] for name in ("conv_1x1", "conv_windowed", "conv_depthwise")) == 1
    assert found["conv_strided"] == (max(strides) > 1)


def test_a_group_has_the_features_of_its_document() -> None:
    """What is planned (a set of nodes in a model) and what is learned from (a stored group) are the same numbers."""
    graph = from_model(build("llama_block"))
    ids = [node.id for node in graph.nodes]
    for start in range(0, len(ids), 3):
        nodes = ids[start : start + 4]
        inside = set(nodes)
        if any(user.id not in inside for node in nodes[:-1] for user in graph.successors(node)):
            continue  # cut as the planner would: no value of the middle escapes
        alone = from_json(to_json(graph.subgraph(nodes)))
        np.testing.assert_array_equal(
            features.features(graph, nodes, TARGET), features.features(alone, [n.id for n in alone.nodes], TARGET)
        )


def test_rows_are_kept_and_read_only() -> None:
    net = Net()
    graph = net.graph(net.op("exp", net.input("x", 8, 8)))
    first = features.features(graph, ["lv0"], TARGET)
    assert features.features(graph, ("lv0", "lv0"), TARGET) is first
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 0
    faster = dataclasses.replace(TARGET, peak_gbps=300.0)
    assert features.features(graph, ["lv0"], faster)[0] < first[0]


def test_no_kernels_give_an_empty_table() -> None:
    net = Net()
    graph = net.graph(net.op("exp", net.input("x", 8, 8)))
    assert features.feature_table(graph, [], TARGET).shape == (0, len(features.NAMES))


# As lowered


MEAN = """
from workbench.tvm_seam import relax, tvm


def reductions():
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 8, 12, 12), "float32"))
    op = relax.op
    with builder.function("main", [x]):
        with builder.dataflow():
            emit = builder.emit
            mean = emit(op.mean(emit(op.exp(x)), axis=[2, 3], keepdims=True))
            highest = emit(op.max(emit(op.abs(x)), axis=[-1]))
            pooled = emit(op.nn.avg_pool2d(emit(op.add(x, x)), pool_size=(2, 2), strides=(2, 2)))
            adaptive = emit(op.nn.adaptive_avg_pool2d(x, (1, 1)))
            logs = emit(op.nn.log_softmax(x, axis=-1))
            spread = emit(op.variance(x, axis=[-1]))
            scaled = emit(op.multiply(emit(op.nn.softmax(x, axis=-1)), x))
            out = builder.emit_output(relax.Tuple([mean, highest, pooled, adaptive, logs, spread, scaled]))
        builder.emit_func_output(out)
    return builder.get()
"""


def lowered(model) -> Iterator[tuple[str, Graph, int]]:
    """(operators, group, loop nests of its tensor program once all that can be inlined is) of a model's variants."""
    from workbench.kernels import lower, lower_greedy
    from workbench.tvm_seam import tvm

    graph = from_model(model)
    unfused = plan(graph, TARGET, rules=(), planner="unfused")
    for variant in (
        lower(model, unfused, "unfused"),
        lower(model, plan(graph, TARGET), "planned"),
        lower_greedy(model),
    ):
        for workload in variant.workloads.values():
            if workload.graph is None:
                continue
            schedule = tvm.s_tir.Schedule(workload.module)
            root = schedule.get_sblock("root", "main")
            for block in schedule.get_child_blocks(root):
                try:
                    schedule.compute_inline(block)
                except tvm.s_tir.ScheduleError:  # a reduction, or a result
                    continue
            yield workload.label, workload.graph, len(schedule.get_child_blocks(root))


@pytest.mark.parametrize(
    "name", ["gelu", "swiglu", "residual_layernorm", "conv_bn_relu", "pool_add", "attention", "mha", "llama_block"]
)
def test_loop_nests_are_those_of_the_lowered_program(name: str) -> None:
    found = {(label, nests): len_of(graph) for label, graph, nests in lowered(load(name))}
    assert found
    assert {key: nests for key, nests in found.items() if nests != key[1]} == {}


def test_loop_nests_of_reductions_that_end_with_a_pass(tmp_path) -> None:
    (tmp_path / "mean.py").write_text(MEAN)
    found = {label: (len_of(graph), nests) for label, graph, nests in lowered(load(f"{tmp_path}/mean.py:reductions"))}
    assert found["mean"] == (2, 2)
    assert found["softmax"] == (3, 3)
    assert found["max"] == (1, 1)
    assert {label: counts for label, counts in found.items() if counts[0] != counts[1]} == {}


def len_of(graph: Graph) -> int:
    return features.lowered_nests(work_of(graph, [node.id for node in graph.nodes]))
