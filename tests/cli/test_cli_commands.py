"""Every command on real input."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench.cli import app

COMMANDS = sorted(command.name for command in app.registered_commands)


def test_commands_are_the_documented_ones() -> None:
    assert COMMANDS == [
        "cache", "compare", "compare-plans", "compile", "models", "plan", "replay", "rules", "run", "sweep", "tune",
    ]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(cli: Callable, command: str) -> None:
    done = cli(command, "--help")
    assert done.code == 0
    assert f"Example: workbench {command}" in done.out
    assert all(len(line) <= 80 for line in done.out.splitlines())


def test_help_in_readme_names_every_command() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    for command in COMMANDS:
        assert f"workbench {command}" in readme


def test_models_lists_the_built_in_ones(cli: Callable) -> None:
    done = cli("models", "--json")
    names = {row["name"] for row in json.loads(done.out)}
    assert {"gelu", "swiglu", "encoder", "llama_block", "mobilenet_v2", "resnet18"} <= names
    assert len(names) == 14
    table = cli("models")
    assert all(len(line) <= 80 for line in table.out.splitlines())
    assert all(name in table.out for name in names)


def test_plan_writes_a_plan_that_plan_reads(cli: Callable, tmp_path: Path) -> None:
    done = cli("plan", "encoder", "--store", tmp_path / "store", "-o", tmp_path / "plan.json")
    assert done.code == 0, done.err
    assert all(len(line) <= 80 for line in done.out.splitlines())
    document = json.loads((tmp_path / "plan.json").read_text())
    assert document["schema"] == 2
    rules = {group["rule"] for group in document["groups"]}  # which ones depends on the machine
    assert len(rules) >= 3
    assert all(rule in done.out for rule in rules)
    printed = cli("plan", "encoder", "--store", tmp_path / "store", "--json")
    assert json.loads(printed.out) == document


def test_run_twice_then_compare_compile_and_cache(cli: Callable, small_model: str, tmp_path: Path) -> None:
    store = tmp_path / "store"
    common = ("--trials-per-task", 2, "--measure-seconds", 1, "--store", store)
    first = cli("run", small_model, *common, "--out", tmp_path / "a")
    assert first.code == 0, first.err
    assert "report.html" in first.out
    assert all(len(line) <= 80 for line in first.out.splitlines() if "report:" not in line)
    assert {path.name for path in (tmp_path / "a").iterdir()} >= {
        "run.json", "latency.png", "latency.svg", "roofline.png", "search.png", "report.html",
    }  # fmt: skip
    second = cli("run", small_model, *common, "--out", tmp_path / "b")
    assert second.code == 0, second.err
    document = json.loads((tmp_path / "b" / "run.json").read_text())
    assert all(task["cached"] for task in document["tasks"])
    assert document["cache"]["builds"] == 0
    assert "no trials: every one is in the store (hit)" in second.err
    assert "every kernel was a hit" in second.err
    comparison = cli("compare", tmp_path / "a", tmp_path / "b", "--json")
    assert comparison.code in (0, 1)  # two short runs on a shared machine may differ; the document must not
    assert {row["variant"] for row in json.loads(comparison.out)["variants"]} >= {"planned", "unfused"}
    library = tmp_path / "small.so"
    compiled = cli("compile", small_model, "--store", store, "-o", library)
    assert compiled.code == 0, compiled.err
    assert library.stat().st_size > 0
    held = json.loads(cli("cache", "--store", store, "--json").out)
    assert held["records"] > 0
    assert held["kernels"] > 0
    exported = cli("cache", "--store", store, "--export", tmp_path / "log.jsonl.gz")
    assert f"{held['records']} records written" in " ".join(exported.out.split())
    cleared = cli("cache", "--store", store, "--clear")
    assert f"removed {held['records']} records and {held['kernels']} kernels" in cleared.out


def test_tune_prints_what_it_found(cli: Callable, small_model: str, tmp_path: Path) -> None:
    done = cli("tune", small_model, "--trials-per-task", 2, "--store", tmp_path / "store", "--json")
    assert done.code == 0, done.err
    tasks = json.loads(done.out)["tasks"]
    assert tasks
    assert all(task["best_us"] > 0 for task in tasks)


def test_the_installed_script_says_its_version() -> None:
    script = Path(sys.executable).with_name("workbench")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("workbench 0.")
