"""Declarative patterns: what matches, what does not and why, and that large graphs are no trouble."""

from __future__ import annotations

import doctest
import time

import pytest

from workbench.errors import RuleError
from workbench.fusion import Candidate, Refusal, categories, patterns
from workbench.fusion.matching import gelus
from workbench.fusion.patterns import (
    HERE,
    _pattern,
    anything,
    bind,
    constant,
    find,
    one_of,
    op,
    optional,
    producers,
    region,
    repeat,
)
from workbench.fusion.rules import PatternRule
from workbench.fusion.rules import _pattern as pattern_rule
from workbench.graph import Graph, from_text

POINTWISE = op(kind=("elementwise", "broadcast"))


def graph(text: str, outputs: str = "y") -> Graph:
    return from_text(f"x: float32[8, 16]\nz: float32[8, 16]\nb: float32[16] = const\n{text}\nreturn {outputs}")


def matched(pattern: patterns.Pattern, net: Graph, value: str = "y") -> set[str] | None:
    found = find(net, pattern, value)
    return None if found is None else set(found.nodes)


def refused(pattern: patterns.Pattern, net: Graph, private: bool = True) -> Refusal:
    (one,) = PatternRule("mine", pattern, private=private).propose(net)
    assert isinstance(one, Refusal)
    assert one.category in categories.CATEGORIES
    return one


@pytest.mark.parametrize("operands", ["x, b", "b, x"])
@pytest.mark.parametrize("operator", ["add", "multiply", "maximum", "minimum"])
def test_commutative_operands_match_in_either_order(operator: str, operands: str):
    net = graph(f"y: float32[8, 16] = {operator}({operands})")
    assert matched(op(operator, inputs=[anything(), constant()]), net) == {"y"}
    assert matched(op(operator, inputs=[constant(), anything()]), net) == {"y"}


def test_operands_of_other_operators_keep_their_order():
    net = graph("y: float32[8, 16] = subtract(x, b)")
    assert matched(op("subtract", inputs=[anything(), constant()]), net) == {"y"}
    assert matched(op("subtract", inputs=[constant(), anything()]), net) is None


@pytest.mark.parametrize(("other", "same"), [("x", True), ("z", False)])
def test_the_same_name_twice_is_the_same_value(other: str, same: bool):
    x = anything("x")
    silu = op("multiply", inputs=[x, op("sigmoid", inputs=[x])])
    net = graph(f"s: float32[8, 16] = sigmoid(x)\ny: float32[8, 16] = multiply(s, {other})")
    assert matched(silu, net) == ({"s", "y"} if same else None)


def test_names_of_operators_and_bind_give_values_back():
    net = graph("m: float32[8, 16] = add(x, b)\ny: float32[8, 16] = nn.relu(m)")
    found = find(net, bind("out", op("nn.relu", inputs=[op("add", inputs=[anything("in"), ...], name="sum")])), "y")
    assert found is not None
    assert dict(found.bound) == {"out": "y", "sum": "m", "in": "x"}


@pytest.mark.parametrize(
    ("pattern", "category", "detail"),
    [
        (op("nn.softmax", attrs={"axis": 0}), categories.ATTRIBUTE, "axis of nn.softmax (y) is -1, 0 is expected"),
        (op("nn.softmax", attrs={"axis": lambda a: a > 0}), categories.ATTRIBUTE, "axis of nn.softmax (y) is -1"),
        (op("nn.softmax", dtype=["float16", "bfloat16"]), categories.DTYPE, "is float32, float16 or bfloat16 is"),
        (op("nn.softmax", rank=4), categories.RANK, "nn.softmax (y) has rank 2, 4 is expected"),
        (op("nn.softmax", shape=lambda s: s[-1] > 16), categories.SHAPE, "nn.softmax (y) has shape [8, 16]"),
        (op("nn.softmax", inputs=[]), categories.OPERATOR, "has 1 operands, 0 are expected"),
        (op("nn.softmax", inputs=[op("matmul")]), categories.OPERATOR, "multiply (h) where matmul is expected"),
        (op("nn.softmax", inputs=[op(kind="reduction")]), categories.OPERATOR, "multiply (h) where reduction is"),
        (op("nn.softmax", inputs=[constant()]), categories.NOT_CONSTANT, "h is computed or given"),
        (
            op("nn.softmax", inputs=[op("multiply", inputs=[anything(), constant(value=0.25)])]),
            categories.ATTRIBUTE,
            "constant 0.5 where 0.25 is expected",
        ),
        (
            op("nn.softmax", inputs=[op("multiply", inputs=[op("exp"), constant()])]),
            categories.OPERATOR,
            "x, an input, where exp is expected",
        ),
    ],
)
def test_a_near_miss_says_what_did_not_fit(pattern: patterns.Pattern, category: str, detail: str):
    net = graph("h: float32[8, 16] = multiply(x, 0.5)\ny: float32[8, 16] = nn.softmax(h){axis=-1}")
    one = refused(pattern, net)
    assert one.category == category
    assert detail in one.detail
    assert "y" in one.nodes


def test_an_axis_counts_from_either_end():
    net = graph("y: float32[8, 16] = nn.softmax(x){axis=1}")
    assert matched(op("nn.softmax", attrs={"axis": -1}), net) == {"y"}
    assert matched(op("nn.softmax", attrs={"axis": 0}), net) is None


def test_a_graph_without_the_root_operator_has_no_near_miss():
    net = graph("y: float32[8, 16] = nn.relu(x)")
    assert list(PatternRule("mine", op("nn.softmax")).propose(net)) == []


def test_an_item_of_a_tuple_result():
    net = graph("s: (l: float32[8, 8], r: float32[8, 8]) = split(x){axis=1}\ny: float32[8, 8] = negative(r)")
    assert matched(op("negative", inputs=[op("split", item=1)]), net) == {"s", "y"}
    assert "l" not in refused(op("negative", inputs=[op("split", item=0)]), net).nodes


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y: float32[8, 16] = nn.softmax(x)", {"y"}),
        ("a: float32[8, 16] = add(x, b)\ny: float32[8, 16] = nn.softmax(a)", {"a", "y"}),
        ("a: float32[8, 16] = add(z, x)\ny: float32[8, 16] = nn.softmax(a)", {"y"}),
    ],
)
def test_optional_takes_the_step_where_it_is(body: str, expected: set[str]):
    pattern = op("nn.softmax", inputs=[optional(op("add", inputs=[HERE, constant()]), anything())])
    assert matched(pattern, graph(body)) == expected


@pytest.mark.parametrize(("least", "most", "expected"), [(0, 8, 5), (0, 2, None), (4, 8, 5), (5, 8, None)])
def test_repeat_counts_its_steps(least: int, most: int, expected: int | None):
    body = "m: float32[8, 8] = matmul(x, w)\n" + "\n".join(
        f"v{i}: float32[8, 8] = {name}({'m' if i == 0 else f'v{i - 1}'})"
        for i, name in enumerate(["exp", "tanh", "nn.relu", "erf"])
    )
    net = from_text(f"x: float32[8, 16]\nw: float32[16, 8]\n{body}\nreturn v3")
    found = matched(repeat(POINTWISE, op("matmul"), min=least, max=most), net, "v3")
    assert (None if found is None else len(found)) == expected


def test_repeat_finds_its_way_through_any_operand():
    net = from_text("""
        x: float32[8, 16]
        w: float32[16, 8]
        r: float32[8, 8]
        m: float32[8, 8] = matmul(x, w)
        a: float32[8, 8] = subtract(r, m)
        y: float32[8, 8] = divide(r, a)
        return y""")
    assert matched(repeat(POINTWISE, op("matmul")), net) == {"m", "a", "y"}


@pytest.mark.parametrize(("least", "most"), [(-1, 2), (3, 2), (0, 0)])
def test_repeat_refuses_counts_that_do_not_fit(least: int, most: int):
    with pytest.raises(RuleError, match="give 0 <= min <= max"):
        repeat(POINTWISE, op("matmul"), min=least, max=most)


def test_op_refuses_dots_in_the_middle_and_operands_that_are_no_patterns():
    with pytest.raises(RuleError, match="may only be the last"):
        op("add", inputs=[..., anything()])
    with pytest.raises(RuleError, match="inputs must be patterns"):
        op("add", inputs=["x"])  # type: ignore[list-item]


def test_one_of_takes_the_first_that_fits():
    first = one_of(op("nn.relu", inputs=[op("add")]), op("nn.relu", inputs=[anything()]))
    assert matched(first, graph("a: float32[8, 16] = add(x, z)\ny: float32[8, 16] = nn.relu(a)")) == {"a", "y"}
    assert matched(first, graph("y: float32[8, 16] = nn.relu(x)")) == {"y"}


def test_producers_are_a_tree_that_nobody_else_reads():
    body = """
        c: float32[8, 16] = exp(x)
        a: float32[8, 16] = add(c, b)
        d: float32[8, 16] = tanh(z)
        h: float32[8, 16] = maximum(a, d)
        y: float32[8, 16] = nn.softmax(h)"""
    pattern = op("nn.softmax", inputs=[producers(POINTWISE, min=1)])
    assert matched(pattern, graph(body)) == {"c", "a", "d", "h", "y"}
    assert matched(pattern, graph(body, "y, a")) == {"d", "h", "y"}
    one = refused(pattern, graph(body, "y, h"))
    assert (one.category, one.detail) == (categories.ESCAPES, "h of maximum is an output of the model")


def test_a_region_that_a_python_function_finds():
    body = """
        d: float32[8, 16] = divide(a, 1.4142135)
        e: float32[8, 16] = erf(d)
        o: float32[8, 16] = add(e, 1.0)
        p: float32[8, 16] = multiply(a, o)
        y: float32[8, 16] = multiply(p, 0.5)"""
    pattern = region(gelus, op("add", inputs=[anything(), constant("bias")]))
    assert len(matched(pattern, graph(f"a: float32[8, 16] = add(x, b)\n{body}")) or ()) == 6
    net = graph(f"a: float32[8, 16] = subtract(x, b)\n{body}")
    assert "subtract (a) where add is expected" in {r.detail for r in PatternRule("mine", pattern).propose(net)}


ESCAPING = """
    a: float32[8, 16] = add(x, b)
    t: float32[8, 16] = tanh(a)
    y: float32[8, 16] = nn.relu(a)"""


def test_an_inner_value_that_is_read_elsewhere_is_refused_by_name():
    one = refused(op("nn.relu", inputs=[op("add")]), graph(ESCAPING, "y, t"))
    assert (one.category, one.detail) == (categories.ESCAPES, "a of add is read by t too")
    assert one.nodes == ("a", "y")


def test_without_private_it_becomes_a_further_output():
    rule = PatternRule("mine", op("nn.relu", inputs=[op("add")]), private=False)
    (one,) = rule.propose(graph(ESCAPING, "y, t"))
    assert isinstance(one, Candidate)
    assert (one.nodes, one.private) == (("a", "y"), ())


def test_a_shorter_match_is_proposed_where_the_longer_one_escapes():
    long_or_short = one_of(op("nn.relu", inputs=[op("add")]), op("nn.relu", inputs=[anything()]))
    refusal, candidate = PatternRule("mine", long_or_short).propose(graph(ESCAPING, "y, t"))
    assert isinstance(refusal, Refusal)
    assert isinstance(candidate, Candidate)
    assert (refusal.category, candidate.nodes) == (categories.ESCAPES, ("y",))


def test_where_has_the_last_word():
    rule = PatternRule(
        "mine", op("nn.relu", inputs=[anything("x")]), where=lambda g, m: (categories.SHAPE, m.bound["x"])
    )
    (one,) = rule.propose(graph("y: float32[8, 16] = nn.relu(x)"))
    assert isinstance(one, Refusal)
    assert (one.category, one.detail) == (categories.SHAPE, "x")


def ladder(steps: int) -> Graph:
    """Each operator reads the two before it: as many paths as Fibonacci numbers."""
    lines = ["x: float32[64, 64]", "v0: float32[64, 64] = nn.relu(x)", "v1: float32[64, 64] = exp(v0)"]
    for i in range(2, steps):
        lines.append(f"v{i}: float32[64, 64] = {('add', 'multiply')[i % 2]}(v{i - 1}, v{i - 2})")
    return from_text("\n".join([*lines, f"return v{steps - 1}"]))


@pytest.mark.parametrize(
    "pattern",
    [
        repeat(POINTWISE, op("matmul"), min=1, max=8),
        repeat(POINTWISE, anything("x"), min=1, max=8),
        repeat(op("add", "multiply", inputs=[HERE, anything()]), op("matmul"), max=40),
        op("multiply", inputs=[producers(POINTWISE, min=1), anything()]),
        op("multiply", inputs=[op("add", inputs=[op("multiply", inputs=[op("add"), op("add")]), op("tanh")]), op()]),
    ],
)
def test_a_rule_looks_through_5000_operators_within_two_seconds(pattern: patterns.Pattern):
    net = ladder(5000)
    start = time.process_time()
    proposed = list(PatternRule("mine", pattern).propose(net))
    assert time.process_time() - start < 2.0
    assert len(proposed) > 2000


def test_what_a_repetition_remembers_names_no_nodes_of_another_root():
    for one in PatternRule("mine", repeat(POINTWISE, op("matmul"), min=1, max=8)).propose(ladder(60)):
        assert len(one.nodes) <= 10


@pytest.mark.parametrize("module", [patterns, _pattern, pattern_rule])
def test_the_examples_of_the_documentation_run(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
