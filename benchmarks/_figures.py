"""One figure a line: ``name: value (goal ...) PASS`` or ``MISS``; the same as JSON beside it."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Figure:
    """A measured number and what it should be. ``detail`` holds what it was made of."""

    name: str
    value: float
    goal: str  # as printed, such as ">= 8"
    passed: bool
    unit: str = ""
    detail: dict[str, Any] = field(default_factory=dict)

    def line(self) -> str:
        """What is printed."""
        unit = f" {self.unit}" if self.unit else ""
        return f"{self.name}: {self.value:.3g}{unit} (goal {self.goal}) {'PASS' if self.passed else 'MISS'}"


def at_least(name: str, value: float, goal: float, **kwargs: Any) -> Figure:
    """A figure that should not be under its goal."""
    return Figure(name, value, f">= {goal:g}", value >= goal, **kwargs)


def at_most(name: str, value: float, goal: float, **kwargs: Any) -> Figure:
    """A figure that should not be over its goal."""
    return Figure(name, value, f"<= {goal:g}", value <= goal, **kwargs)


def publish(bench: str, figures: Iterable[Figure]) -> bool:
    """Prints each figure as it comes, writes ``results/BENCH.json``; True when every goal was reached."""
    done: list[Figure] = []
    for figure in figures:
        done.append(figure)
        print(figure.line(), flush=True)
        _write(bench, done)
    return all(figure.passed for figure in done)


def _write(bench: str, figures: list[Figure]) -> None:
    RESULTS.mkdir(exist_ok=True)
    document = {
        "schema": 1,
        "bench": bench,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": _cpu(),
        "figures": [asdict(figure) for figure in figures],
    }
    (RESULTS / f"{bench}.json").write_text(json.dumps(document, indent=1) + "\n")


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]} x {len(names)}" if names else platform.processor()
