"""``plan --explain``, edited plans, their schema, and ``compare-plans``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def plan_file(cli: Callable, small_model: str, tmp_path: Path) -> Path:
    done = cli("plan", small_model, "--store", tmp_path / "store", "-o", tmp_path / "plan.json")
    assert done.code == 0, done.err
    return tmp_path / "plan.json"


def _edit(path: Path, to: Path, **changes: object) -> Path:
    to.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return to


def test_explain_shows_a_node_and_an_edge_at_80_columns(cli: Callable, small_model: str, plan_file: Path) -> None:
    store = ("--store", plan_file.parent / "store")
    document = json.loads(plan_file.read_text())
    first, second = document["groups"][0]["nodes"][:2]
    node = cli("plan", small_model, *store, "--explain", first)
    assert node.code == 0, node.err
    assert node.out.startswith(f"{first} is in g0")
    assert all(f"  {rule}: " in node.out for rule in document["rules"])
    for factor in ("saves", "intensity", "bound by", "recompute", "parallelism", "registers", "compiles in"):
        assert factor in node.out
    edge = cli("plan", small_model, *store, "--explain", f"{first}->{second}")
    assert edge.out.startswith(f"{first}->{second} is in g0")
    assert all(len(line) <= 80 for line in (node.out + edge.out).splitlines())


def test_explain_as_json_names_a_category_for_every_edge(cli: Callable, small_model: str, plan_file: Path) -> None:
    node = json.loads(plan_file.read_text())["groups"][0]["nodes"][0]
    done = cli("plan", small_model, "--store", plan_file.parent / "store", "--explain", node, "--json")
    found = json.loads(done.out)
    assert found["subject"] == node
    assert found["edges"]
    assert all(edge["category"] for edge in found["edges"])


def test_explain_of_what_is_not_in_the_graph_is_one_error_line(
    cli: Callable, small_model: str, plan_file: Path
) -> None:
    done = cli("plan", small_model, "--store", plan_file.parent / "store", "--explain", "nowhere")
    assert done.code == 2
    assert len(done.error_lines) == 1
    assert "no node 'nowhere'" in done.error_lines[0]


def test_an_edited_plan_is_planned_again(cli: Callable, small_model: str, plan_file: Path, tmp_path: Path) -> None:
    edited = _edit(plan_file, tmp_path / "edited.json", max_nodes=1)
    store = ("--store", tmp_path / "store")
    done = cli("plan", small_model, *store, "--plan", edited, "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    assert document["max_nodes"] == 1
    assert all(len(group["nodes"]) == 1 for group in document["groups"])
    nodes = [node for group in document["groups"] for node in group["nodes"]]
    refused = cli("plan", small_model, *store, "--plan", _edit(edited, edited, pins=[nodes[:2]]))
    assert refused.code == 2
    assert "group size limit: pin" in refused.error_lines[0]


def test_the_schema_needs_no_model(cli: Callable) -> None:
    done = cli("plan", "--schema")
    assert done.code == 0, done.err
    assert json.loads(done.out)["title"] == "Fusion plan"


def test_compare_plans_tells_what_differs(cli: Callable, small_model: str, plan_file: Path, tmp_path: Path) -> None:
    edited = _edit(plan_file, tmp_path / "edited.json", max_nodes=1)
    again = tmp_path / "again.json"
    assert cli("plan", small_model, "--store", tmp_path / "store", "--plan", edited, "-o", again).code == 0
    done = cli("compare-plans", plan_file, again)
    assert done.code == 0, done.err
    assert "only A" in done.out
    assert "max nodes" in done.out
    assert all(len(line) <= 80 for line in done.out.splitlines())
    equal = cli("compare-plans", plan_file, plan_file, "--json")
    assert equal.code == 0
    assert json.loads(equal.out)["same_groups"] is True


def test_compare_plans_refuses_other_models_and_broken_files(cli: Callable, plan_file: Path, tmp_path: Path) -> None:
    other = _edit(plan_file, tmp_path / "other.json", model={"name": "other", "fingerprint": "0" * 64})
    done = cli("compare-plans", plan_file, other)
    assert done.code == 2
    assert "of 'other' (000000000000)" in done.error_lines[0]
    broken = _edit(plan_file, tmp_path / "broken.json", pins="all")
    assert "broken.json is broken: pins: " in cli("compare-plans", plan_file, broken).error_lines[0]
    assert "cannot be read" in cli("compare-plans", plan_file, tmp_path / "missing.json").error_lines[0]
