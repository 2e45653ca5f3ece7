"""The notebooks run from top to bottom in a fresh kernel, and show what they promise."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The user's own store must neither help nor be filled.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    shown = [
        set(output.get("data", {})) for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output
    ]
    assert sum("image/png" in kinds for kinds in shown) >= 2  # the plots
    assert sum("text/html" in kinds for kinds in shown) >= 3  # model, plan and run display themselves
