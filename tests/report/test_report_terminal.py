"""Tables for a terminal: 80 columns, nothing cut off, compared with golden files."""

from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from golden_files import check_golden
from rich.console import Console
from sample_plans import edge_explanation, node_explanation, plan_comparison
from sample_run import MEASURED, TARGET, TVM, plan, sample_run, tune

from workbench.report import compare
from workbench.report import format as fmt
from workbench.report.plan_tables import explanation_tables, plan_comparison_tables, plan_tables
from workbench.report.terminal import comparison_tables, run_tables, store_table, tune_table
from workbench.store.summary import StoreSummary, TargetSummary


def shown(renderables: Iterable[Any]) -> str:
    console = Console(file=io.StringIO(), width=80, highlight=False, color_system=None)
    for renderable in renderables:
        console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()) + "\n"


STORE = StoreSummary(
    Path("store"), 123_456_789, 4000, 120, 23_456_789, 3,
    (TargetSummary(TARGET.key, TVM, 40, 4000, 123, 120, 23_456_789),),
)  # fmt: skip

TABLES = {
    "run": lambda: run_tables(sample_run()),
    "run_wrong": lambda: run_tables(
        sample_run(variants={"greedy": "wrong", "planned": "failed"}, complete=False, incomplete_reason="interrupted")
    ),
    "run_cached": lambda: run_tables(sample_run(tune=tune(cached=True))),
    "plan": lambda: plan_tables(plan()),
    "explain_node": lambda: explanation_tables(node_explanation()),
    "explain_edge": lambda: explanation_tables(edge_explanation()),
    "compare_plans": lambda: plan_comparison_tables(plan_comparison()),
    "tune": lambda: [tune_table(tune())],
    "compare": lambda: comparison_tables(
        compare(sample_run(), sample_run(variants={"planned": 13.0, "greedy": "wrong"}, tune=tune(schedule_seed=1)))
    ),
    "not_comparable": lambda: comparison_tables(
        compare(sample_run(), sample_run(target=dataclasses.replace(MEASURED, device="Apple M4", threads=4)))
    ),
    "store": lambda: [store_table(STORE)],
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_the_golden_ones_and_fit(name: str) -> None:
    text = shown(TABLES[name]())
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    check_golden(f"table_{name}.txt", text)


def test_wrong_variants_have_no_time_in_the_table() -> None:
    text = shown(run_tables(sample_run(variants={"greedy": "wrong"})))
    row = next(line for line in text.splitlines() if line.startswith("greedy "))
    assert "WRONG" in row
    assert not re.search(r"\d (ms|µs)", row)


def test_brackets_of_intervals_and_reasons_are_not_taken_for_markup() -> None:
    groups = (dataclasses.replace(plan().groups[0], reason="shape [red]1x256[/red] stays"), *plan().groups[1:])
    text = shown(plan_tables(dataclasses.replace(plan(), groups=groups)))
    assert "[red]1x256[/red]" in re.sub(r"\s+", " ", text)


def test_an_incomplete_search_says_so() -> None:
    cut = dataclasses.replace(tune(), complete=False, incomplete_reason="interrupted")
    assert "INCOMPLETE: interrupted" in shown([tune_table(cut)])


def test_reasons_call_groups_by_their_ids_and_nothing_else() -> None:
    names = {"a+b": "g1", "a+b+c": "g2"}
    assert (
        fmt.named("part of a+b (softmax), not of a+b_1, and a+b+c", names)
        == "part of g1 (softmax), not of a+b_1, and g2"
    )
    assert fmt.boundary("a+b", names) == "g1"
    assert fmt.boundary("a+x+y", names) == "a+x+y"
    assert fmt.boundary("a+x+y+z", names) == "a+...+z (4)"
    assert fmt.boundary("a->x", names) == "a->x"
