"""Rules written in TVM's own pattern language, on models as they are imported."""

from __future__ import annotations

import pytest
from fusion_graphs import TARGET, Net, ops

from workbench.errors import RuleError
from workbench.fusion import Candidate, Refusal, RelaxPatternRule, categories, plan
from workbench.fusion.rules import propose
from workbench.graph import from_model
from workbench.models import load, zoo
from workbench.tvm_seam import relax

dpl = relax.dpl
anything = dpl.wildcard
PRODUCT = dpl.is_op("relax.matmul")(anything(), anything())
BIAS_GELU = dpl.is_op("relax.nn.gelu")(dpl.is_op("relax.add")(PRODUCT, anything()))
NORM = dpl.is_op("relax.nn.batch_norm")(
    dpl.is_op("relax.nn.conv2d")(anything(), anything()), *[anything() for _ in range(4)]
)


def test_operators_become_nodes_and_wildcards_stay_outside():
    graph = from_model(load("bias_gelu"))
    (candidate,) = RelaxPatternRule("bias_gelu", BIAS_GELU, summary="matmul, bias, GELU").propose(graph)
    assert isinstance(candidate, Candidate)
    assert ops(graph, candidate.nodes) == "matmul+add+nn.gelu"
    assert (candidate.reason, candidate.private) == ("matmul, bias, GELU", candidate.nodes[:2])


def test_items_of_a_tuple_result_belong_to_their_node():
    graph = from_model(zoo.build("conv_bn_relu", channels=4, size=6))
    pattern = dpl.is_op("relax.nn.relu")(dpl.is_tuple_get_item(NORM, 0))
    (candidate,) = propose(RelaxPatternRule("conv_bn_relu", pattern), graph)[0]
    assert ops(graph, candidate.nodes) == "nn.conv2d+nn.batch_norm+nn.relu"


def test_a_shared_pattern_object_is_the_same_value():
    x = anything()
    gate, up = (dpl.is_op("relax.matmul")(x, anything()) for _ in range(2))
    rule = RelaxPatternRule("gated", dpl.is_op("relax.multiply")(dpl.is_op("relax.nn.silu")(gate), up))
    graph = from_model(zoo.build("swiglu", rows=8, inner=16, outer=24))
    assert [len(one.nodes) for one in propose(rule, graph)[0]] == [4]


def test_every_place_in_a_model_is_found_once():
    graph = from_model(zoo.build("encoder", seq=8, dim=16, heads=2, ffn=32))
    found = propose(RelaxPatternRule("bias", dpl.is_op("relax.add")(PRODUCT, anything())), graph)[0]
    assert len(found) == len({one.nodes for one in found}) == 6


@pytest.mark.parametrize("private", [True, False])
def test_an_inner_value_that_is_read_elsewhere(private: bool):
    graph = from_model(zoo.build("encoder", seq=8, dim=16, heads=2, ffn=32))
    total = dpl.is_op("relax.add")(anything(), anything())
    pattern = dpl.is_op("relax.add")(dpl.is_op("relax.nn.layer_norm")(total, anything(), anything()), anything())
    (one,) = RelaxPatternRule("norm_add", pattern, private=private).propose(graph)
    assert isinstance(one, Refusal if private else Candidate)
    if isinstance(one, Refusal):
        assert (one.category, "of nn.layer_norm is read by" in one.detail) == (categories.ESCAPES, True)


def test_a_plan_follows_the_pattern():
    graph = from_model(load("bias_gelu"))
    made = plan(graph, TARGET, rules=[RelaxPatternRule("mine", BIAS_GELU)])
    assert [(group.rule, ops(graph, group.nodes)) for group in made.groups] == [("mine", "matmul+add+nn.gelu")]


def test_a_graph_that_no_model_stands_behind_is_refused():
    net = Net()
    graph = net.graph(net.op("nn.relu", net.input("x", 8, 8)))
    with pytest.raises(RuleError, match="rule 'mine' matches Relax, and graph 'net' was not read from a model"):
        propose(RelaxPatternRule("mine", PRODUCT), graph)


def test_a_part_of_a_graph_has_no_module():
    graph = from_model(load("bias_gelu"))
    assert graph.module is not None
    assert graph.subgraph([graph.nodes[0].id]).module is None


def test_what_is_no_pattern_is_refused():
    with pytest.raises(RuleError, match=r"a str is no Relax pattern; give one of tvm\.relax\.dpl"):
        RelaxPatternRule("mine", "relax.matmul")
