"""Each built-in rule on its own example, before and after, and on what it must not take, with the reason."""

from __future__ import annotations

import doctest
import os
import time
from pathlib import Path
from random import Random

import pytest

from workbench.errors import PlanError
from workbench.fusion import Rule, builtin_rules, categories, rule, rules
from workbench.fusion.rules import example_of, propose
from workbench.graph import Graph, from_text

FOLDER = Path(__file__).parent / "golden"
RULES = {one.name: one for one in builtin_rules()}


def check_golden(name: str, text: str) -> None:
    path = FOLDER / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{name} differs; if that is meant, UPDATE_GOLDEN=1 renews it"


@pytest.mark.parametrize("one", RULES.values(), ids=RULES)
def test_before_and_after(one: Rule):
    example = example_of(one)
    assert example.after
    assert from_text(example.before).outputs == from_text(one.example).outputs
    check_golden(f"rule_{one.name}.txt", f"{one.name}: {one.summary}\n\n{example}")


def test_every_golden_file_has_its_rule():
    assert {path.stem.removeprefix("rule_") for path in FOLDER.glob("rule_*.txt")} == set(RULES)


def test_a_rule_without_example_says_so():
    @rule(name="mine")
    def mine(graph):
        return ()

    assert str(example_of(mine)) == "no example\n"


def test_an_example_that_is_no_graph_is_named():
    @rule(name="mine")
    def mine(graph):
        return ()

    mine.example = "x: float32[4]\nreturn y"  # type: ignore[misc]
    with pytest.raises(PlanError, match="mine, line 2 'return y': 'y' is not defined"):
        example_of(mine)


def edited(name: str, *changes: tuple[str, str]) -> str:
    """A rule's example with some of its text replaced; each change must change something."""
    text = RULES[name].example
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


NEAR_MISSES = [
    ("attention", [("return y", "return y, weights")], categories.ESCAPES, "the weights, weights, are read by more"),
    ("attention", [("return y", "return y, scores")], categories.ESCAPES, "scores of matmul is an output of the model"),
    ("attention", [("axis=-1}", "axis=1}")], categories.ATTRIBUTE, "axis of nn.softmax (weights) is 1"),
    ("attention", [("matmul(weights, values)", "multiply(weights, values)")], categories.OPERATOR, "multiply (heads)"),
    ("attention", [("multiply(scores, 0.125)", "power(scores, 2.0)")], categories.OPERATOR, "leads to no single"),
    ("rotary_projection", [("negative(high)", "exp(high)")], categories.OPERATOR, "exp (minus) where negative"),
    ("rotary_projection", [("return y", "return y, q")], categories.ESCAPES, "q of permute_dims is an output"),
    (
        "rotary_projection",
        [("negative(high)", "multiply(high, 1.0)")],
        categories.ATTRIBUTE,
        "constant 1 where -1 is expected",
    ),
    ("swiglu", [("return y", "return y, silu")], categories.ESCAPES, "silu of nn.silu is an output of the model"),
    (
        "swiglu",
        [("return y", "z: float32[128, 1408] = exp(gate)\nreturn y, z")],
        categories.ESCAPES,
        "is read by z too",
    ),
    (
        "swiglu",
        [("matmul(x, V)", "matmul(z, V)"), ("W: ", "z: float32[128, 512]\nW: ")],
        categories.OPERATOR,
        "z where x",
    ),
    ("conv_bn_relu", [("= nn.conv2d", "= nn.conv2d_other")], categories.OPERATOR, "where nn.conv2d is expected"),
    ("conv_bn_relu", [("return y", "return y, conv")], categories.ESCAPES, "conv of nn.conv2d is an output"),
    (
        "conv_bn_relu",
        [("gamma: float32[64] = const", "gamma: float32[64]")],
        categories.NOT_CONSTANT,
        "gamma, an input",
    ),
    ("conv_bn_relu", [("axis=1,", "axis=1, training=True,")], categories.ATTRIBUTE, "training of nn.batch_norm (bn)"),
    ("bias_activation", [("return y", "return y, biased")], categories.ESCAPES, "biased of add is read by active"),
    (
        "bias_activation",
        [("b: float32[4096]", "b: float32[256, 1]")],
        categories.SHAPE,
        "is no bias, scale or residual",
    ),
    ("bias_activation", [("nn.gelu(biased)", "sort(biased)")], categories.OPERATOR, "sort (active) is no bias"),
    ("gelu", [("1.41421356", "1.5")], categories.ATTRIBUTE, "is not the argument of erf in GELU"),
    ("gelu", [("(product, 0.5)", "(product, 0.25)")], categories.ATTRIBUTE, "0.25 * x * (1 + curve)"),
    ("gelu", [("return y", "return y, curve")], categories.ESCAPES, "curve of erf is an output of the model"),
    ("gelu", [("return y", "return y, plus")], categories.ESCAPES, "plus"),
    ("gelu", [("add(curve, 1.0)", "subtract(curve, 1.0)")], categories.OPERATOR, "where 1 + erf is expected"),
    ("residual_norm", [("= add(x, y)", "= multiply(x, y)")], categories.OPERATOR, "multiply (sum) where"),
    (
        "residual_norm",
        [("x: float32[1024, 768]", "x: float32[1024, 1]"), ("y: float32[1024, 768]", "y: float32[1, 768]")],
        categories.SHAPE,
        "broadcasts both operands",
    ),
    ("softmax", [("return y", "return y, masked")], categories.ESCAPES, "masked of where is an output of the model"),
    ("softmax", [("nn.softmax(masked)", "nn.softmax(x)")], categories.OPERATOR, "x, an input, where elementwise"),
    (
        "parallel_matmul",
        [
            ("matmul(x, Wk)", "matmul(x, late)"),
            ("k: float32[256", "late: float32[512, 128] = matmul(q, bq)\nk: float32[256"),
        ],
        categories.CYCLE,
        "needs the result of",
    ),
    ("parallel_matmul", [("Wv: float32[512, 128]", "Wv: float32[1, 512, 128]")], categories.RANK, "has rank 3, 2 is"),
    ("reduction", [("return y", "return y, squares")], categories.ESCAPES, "squares of multiply is read by mean"),
    ("reduction", [("= add(mean, 1e-05)", "= sort(mean)")], categories.OPERATOR, "sort (shifted) reads mean"),
    (
        "reduction",
        [
            ("add(mean, 1e-05)", "add(mean, wide)"),
            ("shifted: float32[2048, 1]", "shifted: float32[9, 2048, 1024]"),
            ("g: ", "wide: float32[9, 2048, 1024]\ng: "),
        ],
        categories.SHAPE,
        "larger than the reduced [2048, 1024]",
    ),
    ("elementwise_chain", [("tanh(thin)", "sort(thin)")], categories.OPERATOR, "sort (thick) where elementwise"),
    (
        "shared_reads",
        [
            ("tanh(q)", "tanh(q)\nz: float32[2, 1024, 1024] = add(x, two)"),
            ("W: ", "two: float32[2, 1, 1]\nW: "),
            ("return", "return z,"),
        ],
        categories.SHAPE,
        "both made from x, need loops of their own",
    ),
    (
        "sibling_kernels",
        [("64, 64", "640, 640"), ("float32[64]", "float32[640]")],
        categories.SIZE_LIMIT,
        "KiB, more than 256",
    ),
    (
        "sibling_kernels",
        [("max(b)", "max(late)"), ("t: ", "late: float32[64, 64] = matmul(b, s)\nt: ")],
        categories.DISCONNECTED,
        "needs its result",
    ),
]


@pytest.mark.parametrize(("name", "changes", "category", "detail"), NEAR_MISSES)
def test_a_near_miss_is_refused_in_its_category(name: str, changes: list[tuple[str, str]], category: str, detail: str):
    graph = from_text(edited(name, *changes))
    refusals = propose(RULES[name], graph)[1]
    found = [(refusal.category, refusal.detail) for refusal in refusals]
    assert any(given == category and detail in text for given, text in found), found
    assert all(refusal.rule == name and refusal.category in categories.CATEGORIES for refusal in refusals)
    assert all(graph.order(refusal.nodes) == tuple(refusal.nodes) for refusal in refusals)


def test_the_three_ways_of_writing_a_rule_run_as_documented():
    result = doctest.testmod(rules)
    assert (result.failed, result.attempted > 10) == (0, True)


def tangle(steps: int) -> Graph:
    """Random operators, each reading what was made shortly before it."""
    random = Random(0)
    lines = ["x: float32[64, 64]", "W: float32[64, 64] = const", "b: float32[64] = const"]
    lines.append("v0: float32[64, 64] = nn.relu(x)")
    spellings = ["add({0}, {1})", "multiply({0}, {1})", "nn.relu({0})", "tanh({0})", "matmul({0}, W)", "add({0}, b)",
                 "nn.softmax({0}){{axis=-1}}", "nn.layer_norm({0}, b, b){{axes=(-1,)}}", "sort({0})"]  # fmt: skip
    for i in range(1, steps):
        near = [f"v{max(0, i - 1 - int(random.expovariate(0.3)))}" for _ in range(2)]
        lines.append(f"v{i}: float32[64, 64] = {random.choice(spellings).format(*near)}")
    return from_text("\n".join([*lines, f"return v{steps - 1}"]))


TANGLE = tangle(5000)


@pytest.mark.parametrize("one", RULES.values(), ids=RULES)
def test_a_rule_looks_through_5000_operators_within_two_seconds(one: Rule):
    start = time.process_time()
    candidates, refusals = propose(one, TANGLE)
    assert time.process_time() - start < 2.0
    assert len(candidates) <= 2 * len(TANGLE.nodes)
    for refusal in refusals:
        assert refusal.rule == one.name
        assert refusal.category in categories.CATEGORIES
        assert refusal.detail
        assert TANGLE.order(refusal.nodes) == tuple(refusal.nodes)


def test_every_rule_has_a_near_miss():
    assert {name for name, *_ in NEAR_MISSES} == set(RULES)
