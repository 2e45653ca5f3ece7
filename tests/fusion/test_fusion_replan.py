"""A plan document that a person edited: kept where it can be, planned again where its own wishes say so."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from fusion_graphs import TARGET, Net

from workbench.errors import IllegalGroup, PlanError
from workbench.fusion import FusionPlan, from_json, load_plan, plan
from workbench.fusion.cost_models import AnalyticCostModel, Prediction
from workbench.graph import Graph
from workbench.targets.target import Target


def _graph() -> Graph:
    """A matmul with its epilogue, and a chain beside it."""
    net = Net("net")
    x = net.input("x", 256, 256)
    m = net.op("matmul", x, net.const(256, 256), name="m")
    c = net.op("nn.relu", net.op("add", m, net.const(256), name="b"), name="c")
    s = net.op("sigmoid", net.op("tanh", net.input("y", 256, 256), name="t"), name="s")
    return net.graph(c, net.op("multiply", s, s, name="u"))


def edited(edit: Callable[[dict[str, Any]], object]) -> FusionPlan:
    document = json.loads(json.dumps(plan(_graph(), TARGET).to_json()))
    assert _sets(from_json(document, _graph(), target=TARGET)) == [("m", "b", "c"), ("t", "s", "u")]
    edit(document)
    return from_json(document, _graph(), "plan.json", TARGET)


def _sets(made: FusionPlan) -> list[tuple[str, ...]]:
    return [group.nodes for group in made.groups]


def test_an_unedited_plan_is_read_not_planned():
    made = edited(lambda d: d.update(planner="by hand"))
    assert made.planner == "by hand"


def test_a_new_pin_is_planned_around():
    made = edited(lambda d: d.update(pins=[["b", "c"]]))
    assert ("b", "c") in _sets(made)
    assert ("m",) in _sets(made)
    assert ("t", "s", "u") in _sets(made)
    assert made.pins == (("b", "c"),)


def test_a_forbidden_edge_parts_the_group():
    made = edited(lambda d: d.update(forbidden=[["t", "s"]]))
    assert made.group_of("t") is not made.group_of("s")
    assert ("m", "b", "c") in _sets(made)
    assert made.forbidden == (("t", "s"),)


def test_a_rule_that_is_off_makes_no_group():
    rule = plan(_graph(), TARGET).group_of("m").rule
    made = edited(lambda d: d.update(rules_off=[rule]))
    assert all(group.rule != rule for group in made.groups)
    assert made.rules_off == (rule,)


def test_a_limit_of_two_leaves_no_larger_group():
    made = edited(lambda d: d.update(max_nodes=2))
    assert max(len(group.nodes) for group in made.groups) == 2
    assert made.max_nodes == 2


def test_legal_groups_that_were_edited_stay_when_another_wish_is_planned():
    def edit(document: dict[str, Any]) -> None:
        document["groups"] = [{"nodes": ["m", "b"]}, {"nodes": ["c"]}, {"nodes": ["t", "s", "u"], "rule": "mine"}]
        document["forbidden"] = [["s", "u"]]

    made = edited(edit)
    assert ("m", "b") in _sets(made)
    assert ("c",) in _sets(made)
    assert made.group_of("s") is not made.group_of("u")


def test_a_group_that_was_taken_apart_stays_apart_when_another_wish_is_planned():
    def edit(document: dict[str, Any]) -> None:
        rest = [group for group in document["groups"] if "m" not in group["nodes"]]
        document["groups"] = [{"nodes": ["m"]}, {"nodes": ["b"]}, {"nodes": ["c"]}, *rest]
        document["forbidden"] = [["t", "s"]]

    made = edited(edit)
    assert [nodes for nodes in _sets(made) if set(nodes) <= {"m", "b", "c"}] == [("m",), ("b",), ("c",)]
    assert set(made.forbidden) == {("t", "s"), ("m", "b"), ("b", "c")}


@pytest.mark.parametrize(
    ("edit", "category", "words"),
    [
        (lambda d: d.update(pins=[["m", "c"]]), "would form a cycle", "pin m+c: b lies on a path"),
        (lambda d: d.update(pins=[["m", "x"]]), "unknown node", "pin m+x: net has no node x"),
        (lambda d: d.update(pins=[["m", "b"], ["b", "c"]]), "overlap", "pin b+c: b is in pin m+b too"),
        (lambda d: d.update(pins=[["m", "b"]], forbidden=[["m", "b"]]), "forbidden edge", "pin m+b: m->b is forbidden"),
        (lambda d: d.update(pins=[["m", "b", "c"]], max_nodes=2), "group size limit", "pin m+b+c: 3 operators"),
    ],
)
def test_a_pin_that_cannot_be_is_refused_with_category_and_nodes(edit: Callable, category: str, words: str):
    with pytest.raises(IllegalGroup) as caught:
        edited(edit)
    assert caught.value.category == category
    assert words in caught.value.detail


def test_names_that_do_not_exist_are_named():
    with pytest.raises(PlanError, match="no node 'nowhere'"):
        edited(lambda d: d.update(forbidden=[["m", "nowhere"]]))
    with pytest.raises(PlanError, match="no rule is named 'no_such_rule'"):
        edited(lambda d: d.update(rules_off=["no_such_rule"], pins=[["b", "c"]]))


def test_a_file_is_planned_again_the_same_way(tmp_path: Path):
    document = plan(_graph(), TARGET).to_json()
    document["max_nodes"] = 1
    (tmp_path / "plan.json").write_text(json.dumps(document))
    assert len(load_plan(tmp_path / "plan.json", _graph(), TARGET).groups) == 6
    with pytest.raises(IllegalGroup, match="group size limit: group g0: 3 operators, at most 1 are allowed"):
        load_plan(tmp_path / "plan.json", _graph())


def test_what_was_planned_again_keeps_its_wishes_when_it_is_read_once_more():
    made = edited(lambda d: d.update(forbidden=[["t", "s"]], max_nodes=2, pins=[["b", "c"]]))
    assert from_json(made.to_json(), _graph(), target=TARGET).groups == made.groups


def test_the_cost_model_that_was_given_judges():
    class Reversed(AnalyticCostModel):
        """One kernel costs a second for each operator but one."""

        name = "reversed"

        def predict(self, graph: Graph, kernels: Sequence[Iterable[str]], target: Target) -> list[Prediction]:
            sizes = [len(tuple(nodes)) for nodes in kernels]
            return [Prediction(size - 0.9, size - 0.9, size - 0.9) for size in sizes]

    document = plan(_graph(), TARGET).to_json() | {"max_nodes": 2}
    made = from_json(document, _graph(), "plan.json", TARGET, None, Reversed())
    assert made.cost_model == "reversed"
    assert all(len(group.nodes) == 1 for group in made.groups)
