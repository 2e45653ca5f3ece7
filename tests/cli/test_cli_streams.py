"""Standard output that cannot show every character."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_an_ascii_terminal_gets_the_plan(small_model: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "workbench", "plan", small_model, "--store", str(tmp_path / "store")]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "80"}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    assert b"predicted" in done.stdout
    assert done.stdout.isascii()
