"""Committed tuning records of the built-in models; each file's name says the model, its header the machine."""

from __future__ import annotations

from pathlib import Path


def paths() -> list[Path]:
    """The record files, sorted by name."""
    return sorted(Path(__file__).parent.glob("*.jsonl.gz"))
