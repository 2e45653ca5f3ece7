"""Graphs as text: read, written, read back; and one clear line for what cannot be read."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

from workbench.errors import PlanError
from workbench.graph import Graph, from_model, from_text, text, to_text
from workbench.models import zoo

EXAMPLE = """\
x: float32[8, 16]
W: float32[16, 4] = const
m: float32[8, 4] = matmul(x, W)
h: float32[8, 4] = multiply(m, 0.5)
y: float32[8, 4] = nn.softmax(h){axis=-1}
s: (a: float32[8, 2], b: float32[8, 2]) = split(y){indices_or_sections=2, axis=1}
return a, b
"""


def shape_of(graph: Graph) -> list[tuple[object, ...]]:
    """Everything but the values of constants and attributes that are None or no plain values."""
    rows: list[tuple[object, ...]] = []
    for node in graph.nodes:
        made = [(o, graph.values[o].shape, graph.values[o].dtype) for o in node.outputs]
        read = [(graph.values[i].shape, graph.values[i].dtype, graph.values[i].is_constant) for i in node.inputs]
        attrs = {name: value for name, value in node.attrs.items() if value is not None}
        rows.append((node.id, node.op, node.kind, made, read, attrs, node.flops, node.space))
    return rows


def test_every_part_of_the_language_is_read():
    graph = from_text(EXAMPLE)
    assert [node.op for node in graph.nodes] == ["matmul", "multiply", "nn.softmax", "split"]
    assert [node.kind for node in graph.nodes] == ["contraction", "elementwise", "reduction", "injective"]
    assert graph.node("m").flops == 2 * 8 * 4 * 16
    assert graph.node("s").outputs == graph.outputs == ("a", "b")
    assert graph.node("y").attrs["axis"] == -1
    half = graph.values[graph.node("h").inputs[1]]
    assert (half.shape, half.dtype, float(half.data)) == ((), "float32", 0.5)
    weight = graph.values["W"].data
    np.testing.assert_allclose(weight.reshape(-1), np.linspace(0.5, 1.5, 64, dtype=np.float32))


def test_printing_gives_the_text_back():
    assert to_text(from_text(EXAMPLE)) == EXAMPLE


def test_comments_blank_lines_named_scalars_and_other_dtypes():
    graph = from_text("""
        x: bfloat16[2,3]   # an input
        c: int64 = 7
        t: bfloat16[2, 3] = add(x, 1)

        i: int64[2] = const
        z: int64[2] = add(i, c)
        return t, z
    """)
    assert graph.values[graph.node("t").inputs[1]].dtype == "bfloat16"
    assert int(graph.values["c"].data) == 7
    assert graph.inputs == ("x",)


def test_a_scalar_of_another_dtype_than_its_neighbour_keeps_it_when_printed():
    source = "m: bool[4]\nx: float32[4]\nc: float32 = -inf\ny: float32[4] = where(m, x, c)\nreturn y\n"
    assert to_text(from_text(source)) == source


@pytest.mark.parametrize("name", ["gelu", "encoder", "llama_block", "conv_bn_relu", "pool_add"])
def test_built_in_models_survive_the_round_trip(name: str):
    graph = from_model(zoo.build(name))
    assert shape_of(from_text(to_text(graph))) == shape_of(graph)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("y: float32[4] = nn.relu(z)", "'z' is not defined above; defined are x"),
        ("y: float33[4] = nn.relu(x)", "dtype 'float33' is not known"),
        ("y: object[4] = nn.relu(x)", "dtype 'object' is not known"),
        ("y: float32[4] = nn.conv2d(x)", "operands or attributes do not suit nn.conv2d"),
        ("y: float32[4] = nn.softmax(x){axis='last'}", "operands or attributes do not suit nn.softmax"),
        ("x: float32[4]", "'x' is defined twice"),
        ("y: float32[4 = nn.relu(x)", "expected name: dtype"),
        ("y: float32[4] = nn.relu x", "expected operator(operands)"),
        ("y: float32[4] = nn.relu(x){axis=}", "cannot read the attributes"),
        ("y: float32[4] = nn.relu(x){__import__('os')}", "cannot read the attributes"),
        ("y: float32[4] = nn.relu(x){axis=open('f')}", "cannot read the attributes"),
        ("y: float32[4] = nn.relu(x){a=1) + f(b=2}", "cannot read the attributes"),
        ("return y", "'y' is not defined above"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(line: str, message: str):
    with pytest.raises(PlanError) as caught:
        from_text(f"x: float32[4]\n{line}\nreturn x", "mine")
    assert str(caught.value).startswith("mine, line 2 '")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_end_without_return_and_a_line_behind_it_are_refused():
    with pytest.raises(PlanError, match="ends without 'return"):
        from_text("x: float32[4]")
    with pytest.raises(PlanError, match=r"line 3 .*nothing may follow return"):
        from_text("x: float32[4]\nreturn x\ny: float32[4]")


def test_the_example_of_the_documentation_runs():
    assert doctest.testmod(text, raise_on_error=False).failed == 0
