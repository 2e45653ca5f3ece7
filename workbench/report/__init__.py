"""Runs, their plots and pages, and comparisons of two of them."""

from __future__ import annotations

from .assemble import build_run
from .compare import compare
from .comparison import Comparison
from .run import Run
from .sweep import Sweep
from .write import write_run

__all__ = ["Comparison", "Run", "Sweep", "build_run", "compare", "write_run"]
