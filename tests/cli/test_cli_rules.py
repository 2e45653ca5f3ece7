"""``workbench rules``: the table, one rule's example, and rules of one's own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench.fusion import builtin_rules

MINE = '''
from workbench.fusion import PatternRule, patterns as p

pair = PatternRule(
    "sqrt_exp",
    p.op("exp", inputs=[p.op("sqrt")]),
    summary="exp of a square root",
    example="""
        x: float32[8]
        r: float32[8] = sqrt(x)
        y: float32[8] = exp(r)
        return y""",
)
'''


@pytest.fixture
def mine(tmp_path: Path) -> str:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return str(path)


def test_the_table_names_every_rule_in_80_columns(cli: Callable) -> None:
    done = cli("rules")
    assert done.code == 0
    for rule in builtin_rules():
        assert any(line.startswith((f"{rule.name} ", rule.name)) for line in done.out.splitlines()), rule.name
    assert all(len(line.rstrip()) <= 80 for line in done.out.splitlines())


def test_a_name_shows_the_example_before_and_after(cli: Callable) -> None:
    done = cli("rules", "swiglu")
    assert done.code == 0
    assert "    y: float32[128, 1408] = multiply(silu, up)" in done.out
    assert "    y: float32[128, 1408] = swiglu(x, W, V)" in done.out
    assert "attention" not in done.out


def test_examples_shows_all(cli: Callable) -> None:
    done = cli("rules", "--examples")
    assert done.out.count("\nbefore\n") == len(builtin_rules())


def test_json_holds_the_same(cli: Callable) -> None:
    done = cli("rules", "--json")
    document = json.loads(done.out)
    assert [entry["name"] for entry in document] == [rule.name for rule in builtin_rules()]
    assert all(entry["before"] and entry["after"][0]["nodes"] and entry["after"][0]["reason"] for entry in document)


def test_rules_of_one_s_own_come_first(cli: Callable, mine: str) -> None:
    assert "sqrt_exp" in cli("rules", "--rules", mine).out.splitlines()[1]
    shown = cli("rules", "--rules", mine, "sqrt_exp").out
    assert "sqrt_exp (vertical): exp of a square root" in shown
    assert "    y: float32[8] = sqrt_exp(x)" in shown


def test_a_name_that_no_rule_has_gives_one_clear_line(cli: Callable) -> None:
    done = cli("rules", "softmaxx")
    assert done.code == 2
    assert done.err.startswith("error: no rule is named 'softmaxx'; there are attention, ")
    assert done.err.count("\n") == 1


def test_listing_rules_loads_no_tvm() -> None:
    code = (
        "import sys\nfrom workbench.cli import app\n"
        "app(['rules', '--examples'], standalone_mode=False)\n"
        "print([name for name in ('tvm', 'matplotlib', 'pandas') if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
