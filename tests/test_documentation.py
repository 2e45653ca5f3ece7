"""What the documents say is tried out: README's code, its commands' options, and the examples in docstrings."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest
import typer.main

import workbench as wb
from workbench import api
from workbench.cli import app
from workbench.fusion import builtin_rules, load_rules
from workbench.fusion.rules import propose
from workbench.graph import from_model
from workbench.models import zoo

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
CODE = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_rule_in_the_readme_proposes_what_it_says(tmp_path: Path) -> None:
    (source,) = [code for code in CODE if "@rule" in code]
    path = tmp_path / "mine.py"
    path.write_text(source)
    graph = from_model(zoo.build("gelu", rows=4, cols=8))
    rules = load_rules(path)
    assert [rule.name for rule in rules] == ["scale_shift", "scale_shift_pattern"]
    for rule in rules:
        candidates, _ = propose(rule, graph)
        found = [[graph.node(node).op for node in candidate.nodes] for candidate in candidates]
        assert found
        assert all(ops == ["multiply", "add"] for ops in found)


def test_the_readme_uses_names_that_exist() -> None:
    used = {name for code in CODE for name in re.findall(r"\bwb\.(\w+)", code)}
    assert used
    assert used <= set(wb.__all__)


def test_every_command_in_the_readme_is_one_with_these_options() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    lines = [line.split("#")[0].strip() for line in README.splitlines()]
    shown = [shlex.split(line) for line in lines if line.startswith("workbench ")]
    assert len(shown) > 8
    for _, name, *arguments in shown:
        known = {option for parameter in commands[name].params for option in parameter.opts}
        assert {word for word in arguments if word.startswith("-")} <= known, (name, arguments)


def test_the_architecture_names_folders_and_rules_that_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    for folder in re.findall(r"`((?:workbench|schedules|tuning_logs)/[\w/.]*)`", text):
        assert (ROOT / folder).exists(), folder
    assert all(rule.summary for rule in builtin_rules())


def test_every_dependency_has_its_reason() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text().lower()
    requirements = re.findall(r'^    "([A-Za-z_\-]+)[>=\[]', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert len(requirements) > 15
    for name in requirements:
        assert name.lower() in text or name == "tvm-workbench", name


def test_examples_in_docstrings_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    outcome = doctest.testmod(api)
    assert outcome.attempted > 5
    assert outcome.failed == 0
