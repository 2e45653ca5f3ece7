"""Golden files: compared with what is made now; `UPDATE_GOLDEN=1 pytest` writes them anew, to be read in the diff."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"


def check_golden(name: str, text: str) -> None:
    path = FOLDER / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{name} differs; if that is meant, UPDATE_GOLDEN=1 renews it"
