"""Groups as JSON: nothing that a cost depends on is lost, and names do not matter."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from workbench.errors import PlanError
from workbench.graph import Graph, from_model
from workbench.graph.serialise import from_json, to_json
from workbench.tvm_seam import relax

R = relax.op


def norm(prefix: str = "", dtype: str = "float32") -> Graph:
    """A bias, a clip with an infinite bound, a two-output split and a row-wise sum."""
    builder = relax.BlockBuilder()
    x = relax.Var(f"{prefix}x", relax.TensorType((4, 8), dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            a = builder.emit(R.add(x, relax.const(np.ones(8, dtype), dtype)), f"{prefix}a")
            b = builder.emit(R.multiply(a, relax.const(0.5, dtype)), f"{prefix}b")
            c = builder.emit(R.clip(b, 0, math.inf), f"{prefix}c")
            parts = builder.emit(R.split(c, 2, axis=1))
            d = builder.emit(R.sum(parts[0], axis=[-1]), f"{prefix}d")
            e = builder.emit(parts[1])
            out = builder.emit_output(relax.Tuple([d, e]))
        builder.emit_func_output(out)
    return from_model(SimpleNamespace(module=builder.get(), name=f"{prefix}g", source="here", fingerprint="f00d"))


def text(graph: Graph) -> str:
    return json.dumps(to_json(graph), allow_nan=False, sort_keys=True)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_what_is_written_reads_back_the_same(dtype: str) -> None:
    graph = norm(dtype=dtype)
    back = from_json(json.loads(text(graph)))
    assert [node.op for node in back.nodes] == [node.op for node in graph.nodes]
    for read, given in zip(back.nodes, graph.nodes, strict=True):
        assert (read.kind, read.flops, read.space) == (given.kind, given.flops, given.space)
        assert read.attrs == given.attrs
        assert [back.values[name].shape for name in read.outputs] == [graph.values[n].shape for n in given.outputs]
        assert [back.values[name].dtype for name in read.inputs] == [graph.values[n].dtype for n in given.inputs]
        assert [back.values[name].is_constant for name in read.inputs] == [
            graph.values[name].is_constant for name in given.inputs
        ]
    assert (len(back.inputs), len(back.outputs)) == (1, 2)
    assert back.node("n2").attrs["max"] == math.inf
    number = back.values[back.node("n1").inputs[1]].data
    assert number is not None
    assert float(number) == 0.5
    assert text(back) == text(graph)


def test_equal_groups_of_other_names_give_equal_text() -> None:
    first, second = norm("p_"), norm("q_")
    assert text(first) == text(second)
    nodes = [node.id for node in first.nodes if node.op in ("add", "multiply")]
    others = [node.id for node in second.nodes if node.op in ("add", "multiply")]
    assert text(first.subgraph(nodes)) == text(second.subgraph(others)) != text(first)


def test_a_large_constant_takes_no_space() -> None:
    graph = norm()
    assert '"constant": true' in text(graph)
    assert from_json(to_json(graph)).values["v1"].data is not None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 2}, "reads up to 1"),
        ({"schema": None}, "schema None"),
        ({"nodes": [{"op": "add"}]}, "KeyError"),
        ({"outputs": ["v99"]}, "v99"),
        ({"values": [{"shape": "a", "dtype": "float32"}]}, "ValueError"),
    ],
)
def test_a_broken_document_is_one_clear_error(change: dict, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        from_json({**to_json(norm()), **change})
