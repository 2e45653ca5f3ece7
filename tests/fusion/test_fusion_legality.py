"""What can be one kernel: every category, one by one, and partitions as a whole."""

from __future__ import annotations

import pytest
from fusion_graphs import TARGET, Net

from workbench.errors import IllegalGroup
from workbench.fusion import Candidate, Rule, check, check_partition, plan
from workbench.fusion.legality import MAX_ARGUMENTS, Reachability


def _diamond() -> Net:
    """x -> a -> m -> c, and a -> c: {a, c} leaves through the matmul and comes back."""
    net = Net()
    x = net.input("x", 8, 8)
    a = net.op("nn.relu", x, name="a")
    m = net.op("matmul", a, net.const(8, 8), name="m")
    net.op("add", a, m, name="c")
    return net


def _refused(graph, nodes, **kwargs) -> str:
    with pytest.raises(IllegalGroup) as caught:
        check(graph, nodes, **kwargs)
    return caught.value.category


def test_a_path_that_leaves_and_comes_back_is_a_cycle():
    graph = _diamond().graph("c")
    with pytest.raises(IllegalGroup, match="would form a cycle: m lies on a path"):
        check(graph, {"a", "c"})
    check(graph, {"a", "m", "c"})


def test_reachability_agrees_with_the_edges():
    graph = _diamond().graph("c")
    reach = Reachability.of(graph)
    assert reach.depends("c", "a")
    assert not reach.depends("a", "c")
    assert reach.between(("a", "c")) == ("m",)
    assert Reachability.of(graph) is reach


def test_unknown_and_empty():
    graph = _diamond().graph("c")
    assert _refused(graph, {"a", "nowhere"}) == "unknown node"
    assert _refused(graph, ()) == "empty"


def test_opaque_operator():
    net = Net()
    s = net.op("sort", net.input("x", 8), name="s")
    graph = net.graph(net.op("nn.relu", s, name="r"))
    assert _refused(graph, {"s", "r"}) == "opaque operator"
    check(graph, {"s"})  # alone it has to be possible


def test_dtype_is_named():
    net = Net()
    a = net.op("nn.relu", net.input("x", 8, dtype="float32"), name="a", dtype="float8_e4m3fn")
    graph = net.graph(net.op("nn.relu", a, name="b"))
    with pytest.raises(IllegalGroup, match="dtype not allowed: float8_e4m3fn of a"):
        check(graph, {"a", "b"})


def test_half_precision_weights_are_not_folded():
    net = Net()
    x = net.input("x", 1, 4, 8, 8, dtype="float16")
    conv = net.op("nn.conv2d", x, net.const(4, 4, 3, 3, dtype="float16"), name="conv", pad=1)
    stats = [net.const(4, dtype="float16") for _ in range(4)]
    graph = net.graph(net.op("nn.batch_norm", conv, *stats, name="bn"))
    assert _refused(graph, {"conv", "bn"}, rewrite="fold_batchnorm") == "dtype not allowed"
    check(graph, {"conv", "bn"})


def test_folding_needs_the_convolution_in_the_group_and_no_other_reader():
    net = Net()
    x = net.input("x", 1, 4, 8, 8)
    conv = net.op("nn.conv2d", x, net.const(4, 4, 3, 3), name="conv", pad=1)
    bn = net.op("nn.batch_norm", conv, *[net.const(4) for _ in range(4)], name="bn")
    relu = net.op("nn.relu", bn, name="relu")
    assert _refused(net.graph(relu), {"bn", "relu"}, rewrite="fold_batchnorm") == "rewrite does not apply"
    assert _refused(net.graph(relu, conv), {"conv", "bn"}, rewrite="fold_batchnorm") == "inner value escapes"
    check(net.graph(relu), {"conv", "bn", "relu"}, rewrite="fold_batchnorm")


def test_rank_limit():
    net = Net()
    a = net.op("nn.relu", net.input("x", *[1] * 9), name="a")
    assert _refused(net.graph(net.op("nn.relu", a, name="b")), {"a", "b"}) == "rank"


def test_argument_limit_counts_tensors_but_not_scalars():
    net = Net()
    total = net.op("add", net.input("i0", 16), net.input("i1", 16))
    for i in range(2, MAX_ARGUMENTS + 4):
        total = net.op("add", total, net.input(f"i{i}", 16))
    graph = net.graph(total)
    with pytest.raises(IllegalGroup, match=f"argument limit: {MAX_ARGUMENTS + 5} tensor arguments"):
        check(graph, [node.id for node in graph.nodes])
    scalars = Net()
    value = scalars.input("x", 16)
    for i in range(MAX_ARGUMENTS + 4):
        value = scalars.op("add", value, float(i))
    check(scalars.graph(value), [node.id for node in scalars.nodes])


def test_output_limit():
    net = Net()
    a = net.op("nn.relu", net.input("x", 16), name="a")
    outs = [net.op("add", a, float(i)) for i in range(9)]
    assert _refused(net.graph(*outs), ["a", *outs]) == "output limit"
    check(net.graph(*outs), ["a", *outs[:7]])


def test_disconnected_matters_for_vertical_groups_only():
    net = Net()
    x = net.input("x", 16)
    a, b = net.op("nn.relu", x, name="a"), net.op("tanh", x, name="b")
    graph = net.graph(a, b)
    assert _refused(graph, {"a", "b"}) == "disconnected"
    check(graph, {"a", "b"}, kind="horizontal")


def test_an_escaping_value_is_legal_unless_the_pattern_forbids_it():
    graph = _diamond().graph("c", "m")
    check(graph, {"m", "c"})
    assert _refused(graph, {"m", "c"}, private=("m",)) == "inner value escapes"


def _crossing() -> Net:
    """Two groups, each convex, that need each other: a1 -> b2 and b1 -> a2."""
    net = Net()
    x, y = net.input("x", 8), net.input("y", 8)
    a1, b1 = net.op("nn.relu", x, name="a1"), net.op("tanh", y, name="b1")
    net.op("add", a1, b1, name="a2")
    net.op("multiply", b1, a1, name="b2")
    return net


def test_groups_that_are_convex_alone_can_be_cyclic_together():
    graph = _crossing().graph("a2", "b2")
    check(graph, {"a1", "a2"})
    check(graph, {"b1", "b2"})
    with pytest.raises(IllegalGroup, match="would form a cycle: groups depend on each other: a1\\+a2; b1\\+b2"):
        check_partition(graph, [("a1", "a2"), ("b1", "b2")])


def test_partition_must_be_disjoint_and_cover():
    graph = _crossing().graph("a2", "b2")
    for groups, category in (
        ([("a1",), ("b1",), ("a2",)], "not covered"),
        ([("a1", "a2"), ("a1", "b1"), ("b2",)], "overlap"),
        ([("a1",), ("b1",), ("a2",), ("b2",), ("zz",)], "unknown node"),
        ([(), ("a1",), ("b1",), ("a2",), ("b2",)], "empty"),
    ):
        with pytest.raises(IllegalGroup) as caught:
            check_partition(graph, groups)
        assert caught.value.category == category


def test_partition_order_puts_producers_first():
    graph = _diamond().graph("c")
    assert check_partition(graph, [("c",), ("m",), ("a",)]) == (2, 1, 0)


class _Both(Rule):
    name, kind, summary = "both", "vertical", "proposes two groups that need each other, and nonsense"

    def propose(self, graph):
        for nodes in (("a1", "a2"), ("b1", "b2"), ("a1", "nowhere"), ("a1", "b1")):
            yield Candidate(self.name, self.kind, nodes, "test")


def test_whatever_a_rule_proposes_illegal_groups_are_not_built():
    graph = _crossing().graph("a2", "b2")
    made = plan(graph, TARGET, rules=[_Both()])
    check_partition(graph, [group.nodes for group in made.groups])
    reasons = [d.reason for d in made.decisions if d.rule == "both"]
    assert any("unknown node" in reason for reason in reasons)
    assert any("disconnected" in reason for reason in reasons)
    assert any("would form a cycle" in reason for reason in reasons)
