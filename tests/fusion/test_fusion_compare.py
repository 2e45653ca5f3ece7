"""Two plans compared, from their documents alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fusion_graphs import TARGET, Net

from workbench.errors import PlanError
from workbench.fusion import Constraints, FusionPlan, plan
from workbench.fusion.compare import PlanComparison, compare_documents
from workbench.fusion.schema import PlanDocument, parse_document
from workbench.graph import Graph


def _graph(name: str = "net") -> Graph:
    net = Net(name)
    m = net.op("matmul", net.input("x", 256, 256), net.const(256, 256), name="m")
    c = net.op("nn.relu", net.op("add", m, net.const(256), name="b"), name="c")
    s = net.op("sigmoid", net.op("tanh", net.input("y", 256, 256), name="t"), name="s")
    return net.graph(c, net.op("multiply", s, s, name="u"))


def _document(made: FusionPlan, **changes: Any) -> PlanDocument:
    return parse_document(json.loads(json.dumps(made.to_json())) | changes)


def _compared(**wishes: Any) -> PlanComparison:
    return compare_documents(
        _document(plan(_graph(), TARGET)), _document(plan(_graph(), TARGET, constraints=Constraints(**wishes)))
    )


def test_a_plan_compared_with_itself_differs_in_nothing():
    found = _compared()
    assert found.same_groups
    assert (found.settings, found.boundaries, found.rules) == ((), (), ())
    assert found.predicted_a_us == found.predicted_b_us > 0
    assert found.summary() == "net: the same 2 groups in both plans"


def test_a_forbidden_edge_changes_groups_boundary_and_total():
    found = _compared(forbidden=(("t", "s"),))
    assert [one.nodes for one in found.only_a] == [("t", "s", "u")]
    assert [one.nodes for one in found.only_b] == [("t",), ("s", "u")]
    assert (found.only_a[0].rule_b, found.only_b[0].rule_a) == (None, None)
    edge = next(one for one in found.boundaries if one.boundary == "t->s")
    assert (edge.verdict_a, edge.category_a, edge.reason_a) == ("fuse", "fused", "inside g1")
    assert (edge.verdict_b, edge.category_b) == ("split", "forbidden edge")
    assert "t->s was forbidden" in edge.reason_b
    assert [(one.what, one.a, one.b) for one in found.settings] == [("forbidden", "none", "t+s")]
    assert found.predicted_b_us > found.predicted_a_us
    assert (found.kernels_a, found.kernels_b) == (2, 3)


def test_a_rule_that_is_off_is_counted():
    off = plan(_graph(), TARGET).group_of("m").rule
    found = _compared(rules_off=(off,))
    count = next(one for one in found.rules if one.rule == off)
    assert count.matched_a > 0
    assert count.groups_a == 1
    assert (count.matched_b, count.groups_b) == (0, 0)


def test_the_same_group_by_another_rule_is_a_change():
    a = _document(plan(_graph(), TARGET))
    groups = [group.model_dump() | {"rule": "mine"} for group in a.groups]
    found = compare_documents(a, _document(plan(_graph(), TARGET), groups=groups))
    assert [(one.rule_b, one.nodes) for one in found.changed] == [("mine", group.nodes) for group in a.groups]
    assert not found.same_groups
    assert (found.only_a, found.only_b) == ((), ())


def test_a_change_of_category_alone_is_shown_with_both_reasons():
    made = _document(plan(_graph(), TARGET))
    changed = json.loads(json.dumps(plan(_graph(), TARGET).to_json()))
    for decision in changed["decisions"]:
        if decision["nodes"] == ["m", "b", "c"]:
            decision |= {"category": "measured slower", "reason": "measured 2.00 ms fused, 1.00 ms apart"}
    found = compare_documents(made, parse_document(changed))
    assert [(one.boundary, one.category_b) for one in found.boundaries] == [("m+b+c", "measured slower")]
    assert found.boundaries[0].reason_b == "measured 2.00 ms fused, 1.00 ms apart"
    assert found.boundaries[0].reason_a != found.boundaries[0].reason_b


def test_plans_of_different_models_are_refused():
    other = _document(plan(_graph(), TARGET), model={"name": "other", "fingerprint": "0" * 64})
    with pytest.raises(
        PlanError, match=r"before.json is a plan of 'net' \(.*\), after.json of 'other' \(000000000000\)"
    ):
        compare_documents(_document(plan(_graph(), TARGET)), other, "before.json", "after.json")


def test_it_is_json():
    text = json.dumps(_compared(forbidden=(("t", "s"),)).to_json(), allow_nan=False)
    assert json.loads(text)["only_a"][0]["nodes"] == ["t", "s", "u"]


def test_comparing_two_files_needs_neither_the_model_nor_tvm(tmp_path: Path):
    plan(_graph(), TARGET).save(tmp_path / "a.json")
    plan(_graph(), TARGET, constraints=Constraints(max_nodes=1)).save(tmp_path / "b.json")
    script = (
        "import sys; sys.argv = ['workbench', 'compare-plans', *sys.argv[1:]]\n"
        "from workbench.cli import main\n"
        "try:\n    main()\nfinally:\n    assert 'tvm' not in sys.modules"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "a.json"), str(tmp_path / "b.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "only A" in done.stdout
