"""A plan as a document: written, read back, edited, and refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from fusion_graphs import TARGET, Net

from workbench.errors import IllegalGroup, PlanError
from workbench.fusion import Constraints, FusionPlan, from_json, load_plan, plan
from workbench.fusion.schema import json_schema
from workbench.graph import Graph

WISHES = Constraints(pins=(("m", "b"),), forbidden=(("a", "m"),))


def _graph(name: str = "net") -> Graph:
    net = Net(name)
    a = net.op("tanh", net.input("x", 256, 256), name="a")
    m = net.op("matmul", a, net.const(256, 256), name="m")
    b = net.op("add", m, net.const(256), name="b")
    return net.graph(net.op("nn.relu", b, name="c"))


def _document(graph: Graph) -> dict:
    return json.loads(json.dumps(plan(graph, TARGET, constraints=WISHES).to_json()))


def test_written_and_read_back_it_is_the_same_plan(tmp_path: Path):
    graph = _graph()
    made = plan(graph, TARGET, constraints=WISHES)
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
        (lambda d: d.pop("groups"), "is broken: groups: it is missing"),
        (lambda d: d.update(groups=[{"ops": ["add"]}]), "is broken: groups[0].nodes: it is missing"),
        (lambda d: d.update(groups=[{"nodes": "abc"}]), "groups[0].nodes: input should be a valid tuple, not 'abc'"),
        (lambda d: d.update(groups=[{"nodes": [7]}]), "groups[0].nodes[0]: input should be a valid string, not 7"),
        (lambda d: d.update(forbidden=[["a"]]), "forbidden[0][1]: it is missing"),
        (lambda d: d.update(forbiden=[]), "forbiden: there is no such field; fields that may be edited: pins"),
        (lambda d: d["groups"][0].update(node=[]), "groups[0].node: there is no such field"),
        (lambda d: d.update(max_nodes=0), "max_nodes: input should be greater than 0, not 0"),
        (lambda d: d.update(objective="speed"), "objective: input should be 'latency', 'memory'"),
        (lambda d: d["decisions"][0].pop("reason"), "decisions[0].reason: it is missing"),
        (lambda d: d["decisions"][0].update(verdict="maybe"), "decisions[0].verdict: input should be"),
        (lambda d: d.update(schema=True), "schema True"),
    ],
)
def test_a_document_that_does_not_fit_is_refused(edit, message: str):
    document = _document(_graph())
    edit(document)
    with pytest.raises(PlanError) as caught:
        from_json(document, _graph())
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_several_faults_are_counted_and_the_first_is_named():
    document = _document(_graph()) | {"max_nodes": "many", "pins": 3}
    with pytest.raises(PlanError, match=r"max_nodes: .* not 'many' \(and 1 more\); 'workbench plan --schema' says"):
        from_json(document, _graph())


def test_a_document_of_schema_1_is_read():
    """As the first release wrote it: no categories, ranges, objective, rules that are off or size limit."""
    document = _document(_graph()) | {"schema": 1}
    for name in ("objective", "cost_model", "search", "rules_off", "max_nodes"):
        del document[name]
    old = ("recomputed_flops", "level", "bound_before", "bound_after", "compile_s", "arguments")
    for decision in document["decisions"]:
        for name in ("category", "expected", "predicted_range_us", "measured_range_us"):
            del decision[name]
        for name in old if decision["factors"] else ():
            del decision["factors"][name]
    read = from_json(document, _graph())
    assert [group.nodes for group in read.groups] == [("a",), ("m", "b"), ("c",)]
    assert (read.max_nodes, read.rules_off, read.objective) == (None, (), "latency")
    assert all(decision.category == "" for decision in read.decisions)
    assert read.to_json()["schema"] == 2


def test_the_schema_of_the_documents_is_the_one_in_the_folder_of_documents():
    path = Path(__file__).parents[2] / "docs" / "plan.schema.json"
    text = json.dumps(json_schema(), indent=1) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, "UPDATE_GOLDEN=1 renews it"


def test_the_schema_names_what_is_written_and_nothing_else():
    schema = json_schema()
    document = _document(_graph())
    assert set(schema["properties"]) == set(document)
    assert set(schema["$defs"]["Decision"]["properties"]) == set(document["decisions"][0])
    assert set(schema["$defs"]["DocumentGroup"]["properties"]) == set(document["groups"][0])
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    ("edit", "category"),
    [
        (lambda d: d.update(groups=d["groups"][:-1]), "not covered"),
        (lambda d: d.update(groups=[*d["groups"], {"nodes": ["c"]}]), "overlap"),
        (lambda d: d.update(pins=[], groups=[{"nodes": ["a", "b"]}, {"nodes": ["m"]}, {"nodes": ["c"]}]), "would form"),
        (lambda d: d.update(pins=[["a", "b"]]), "would form a cycle"),
        (lambda d: d.update(pins=[["b", "c"]]), "overlap"),
        (lambda d: d.update(pins=[["m", "b"], ["b", "c"]]), "overlap"),
        (lambda d: d.update(pins=[["m", "nowhere"]]), "unknown node"),
        (lambda d: d.update(max_nodes=1), "group size limit"),
        (lambda d: d.update(pins=[], rules_off=[next(g["rule"] for g in d["groups"] if "b" in g["nodes"])]), "rule is"),
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
