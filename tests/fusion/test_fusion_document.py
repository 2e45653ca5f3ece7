"""A plan as a document: written, read back, edited, and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fusion_graphs import TARGET, Net

from workbench.errors import IllegalGroup, PlanError
from workbench.fusion import Constraints, FusionPlan, from_json, load_plan, plan
from workbench.graph import Graph


def _graph(name: str = "net") -> Graph:
    net = Net(name)
    a = net.op("tanh", net.input("x", 256, 256), name="a")
    m = net.op("matmul", a, net.const(256, 256), name="m")
    b = net.op("add", m, net.const(256), name="b")
    return net.graph(net.op("nn.relu", b, name="c"))


def _document(graph: Graph) -> dict:
    return json.loads(json.dumps(plan(graph, TARGET, constraints=Constraints(pins=(("m", "b"),), forbidden=(("a", "m"),))).to_json()))


def test_written_and_read_back_it_is_the_same_plan(tmp_path: Path):
    graph = _graph()
    made = plan(graph, TARGET, constraints=Constraints(pins=(("m", "b"),), forbidden=(("a", "m"),)))
    made.save(tmp_path / "plan.json")
    read = load_plan(tmp_path / "plan.json", graph)
    assert isinstance(read, FusionPlan)
    assert read.groups == made.groups
    assert read.decisions == made.decisions
    assert (read.pins, read.forbidden, read.rules) == (made.pins, made.forbidden, made.rules)
    assert read.to_json() == made.to_json()


def test_the_document_has_what_its_contract_says():
    document = _document(_graph())
    assert document["schema"] == 2
    assert document["model"]["fingerprint"] == _graph().fingerprint
    assert document["target"] == TARGET.key
    assert set(document["groups"][0]) >= {"id", "nodes", "ops", "rule", "kind", "reason", "predicted_us", "workload"}
    decision = next(d for d in document["decisions"] if d["factors"])
    assert set(decision["predicted_us"]) >= {"fused", "unfused"}
    assert set(decision["factors"]) == {
        "bytes_saved", "launches_saved", "intensity_before", "intensity_after", "recompute", "parallelism", "pressure",
        "recomputed_flops", "level", "bound_before", "bound_after", "compile_s", "arguments",
    }  # fmt: skip
    assert decision["measured_us"] is None
    assert (document["pins"], document["forbidden"]) == ([["m", "b"]], [["a", "m"]])


def test_groups_may_be_edited_and_are_put_in_order():
    document = _document(_graph())
    document["pins"] = []
    document["groups"] = [{"nodes": ["c"]}, {"nodes": ["b", "m"]}, {"nodes": ["a"]}]
    read = from_json(document, _graph())
    assert [(g.id, g.nodes, g.rule) for g in read.groups] == [
        ("g0", ("a",), "single"),
        ("g1", ("m", "b"), "edited"),
        ("g2", ("c",), "single"),
    ]
    assert read.groups[1].ops == ("matmul", "add")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda d: d.update(schema=3), "schema 3, this version reads up to 2"),
        (lambda d: d.update(schema=None), "schema None"),
        (lambda d: d["model"].update(fingerprint="0" * 64, name="other"), "is for model 'other'"),
        (lambda d: d.pop("groups"), "is broken: KeyError 'groups'"),
        (lambda d: d.update(groups=[{"ops": ["add"]}]), "is broken"),
        (lambda d: d.update(forbidden=[["a"]]), "is broken"),
        (lambda d: d["decisions"][0].pop("reason"), "is broken"),
    ],
)
def test_a_document_that_does_not_fit_is_refused(edit, message: str):
    document = _document(_graph())
    edit(document)
    with pytest.raises(PlanError) as caught:
        from_json(document, _graph())
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("edit", "category"),
    [
        (lambda d: d.update(groups=d["groups"][:-1]), "not covered"),
        (lambda d: d.update(groups=[*d["groups"], {"nodes": ["c"]}]), "overlap"),
        (lambda d: d.update(pins=[], groups=[{"nodes": ["a", "b"]}, {"nodes": ["m"]}, {"nodes": ["c"]}]), "would form"),
        (lambda d: d.update(pins=[["a", "b"]]), "would form a cycle"),
        (lambda d: d.update(pins=[["b", "c"]]), "overlap"),
        (lambda d: d.update(forbidden=[["m", "b"]]), "forbidden edge"),
    ],
)
def test_an_illegal_choice_is_refused_with_its_category(edit, category: str):
    document = _document(_graph())
    edit(document)
    with pytest.raises(IllegalGroup) as caught:
        from_json(document, _graph())
    assert caught.value.category.startswith(category)


def test_files_that_cannot_be_read_or_written(tmp_path: Path):
    graph = _graph()
    with pytest.raises(PlanError, match="cannot be read"):
        load_plan(tmp_path / "missing.json", graph)
    (tmp_path / "text.json").write_text("not json")
    with pytest.raises(PlanError, match="is no JSON"):
        load_plan(tmp_path / "text.json", graph)
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(PlanError, match="is no JSON object"):
        load_plan(tmp_path / "list.json", graph)
    with pytest.raises(PlanError, match="cannot be written"):
        plan(graph, TARGET).save(tmp_path / "no" / "folder.json")


def test_a_plan_prints_as_one_line():
    net = Net()
    graph = net.graph(net.op("tanh", net.op("sigmoid", net.input("x", 64, 64)), name="t"))
    assert repr(plan(graph, TARGET)) == f"<FusionPlan {graph.name}: 2 operators in 1 group, 1 fused>"
    assert "2 operators in 2 groups, 0 fused" in repr(plan(graph, TARGET, planner="unfused"))
