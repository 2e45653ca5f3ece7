"""The command line, called in this process: output, error line and exit code as a shell would see them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

SMALL_MODEL = '''
"""A model small enough to be tuned in seconds."""
from workbench.models import zoo


def small():
    return zoo.build("bias_gelu", rows=32, inner=48, outer=64).module
'''


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def error_lines(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith("error:")]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Result]:
    """``cli("run", "gelu")`` -> Result; the working folder is a fresh one."""
    from workbench.cli import _options, main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments: object) -> Result:
        _options.DEBUG.clear()
        monkeypatch.setattr(sys, "argv", ["workbench", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        captured = capfd.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture
def small_model(tmp_path: Path) -> str:
    """MODEL argument of a small model in a Python file."""
    path = tmp_path / "small.py"
    path.write_text(SMALL_MODEL)
    return f"{path}:small"
