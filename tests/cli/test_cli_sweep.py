"""``workbench sweep``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest


def test_a_sweep_prints_a_row_a_limit_and_writes_its_folder(cli: Callable, small_model: str, tmp_path: Path) -> None:
    arguments = (small_model, "--max-nodes", "none,2", "--measure-seconds", "0.5", "--store", tmp_path / "store")
    done = cli("sweep", *arguments)
    assert done.code == 0, done.err
    rows = [line.split()[0] for line in done.out.splitlines() if line.split()[0] in ("1", "2", "none")]
    assert rows == ["1", "2", "none"]
    assert all(len(line) <= 80 for line in done.out.splitlines())
    folder = tmp_path / "out" / "small-sweep"
    assert (folder / "sweep.png").read_bytes().startswith(b"\x89PNG")
    again = cli("sweep", *arguments, "--json")
    assert json.loads(again.out) == json.loads((folder / "sweep.json").read_text())
    assert "every one is in the store" in again.err


@pytest.mark.parametrize("limits", ["0", "two", "-1", "1,,2", "1.5"])
def test_a_limit_that_is_none_is_refused_before_anything_runs(cli: Callable, small_model: str, limits: str) -> None:
    done = cli("sweep", small_model, "--max-nodes", limits)
    assert done.code == 2
    assert "is no limit; give numbers above 0, or none" in " ".join(done.err.replace("│", " ").split())
    assert not Path("out").exists()
