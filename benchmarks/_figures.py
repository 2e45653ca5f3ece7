"""One figure a line: ``name: value (goal ...) PASS`` or ``MISS``; the same as JSON beside it."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable
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
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))

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


def publish(bench: str, figures: Iterable[Figure], keep: Callable[[str], bool] = lambda name: False) -> bool:
    """Prints each figure as it comes, writes ``results/BENCH.json``; True when every goal was reached.

    ``keep`` says, by name, which figures of the file stay: those that an earlier call measured on this kind of machine
    and this call does not.
    """
    kept = [figure for figure in recorded(bench) if keep(figure["name"])]
    done: list[Figure] = []
    for figure in figures:
        done.append(figure)
        print(figure.line(), flush=True)
        _write(bench, [*kept, *map(asdict, done)])
    return all(figure.passed for figure in done)


def recorded(bench: str) -> list[dict[str, Any]]:
    """The figures of the file, each with its date; none when another kind of machine measured them."""
    path = RESULTS / f"{bench}.json"
    if not path.exists():
        return []
    document = json.loads(path.read_text())
    if document["machine"] != _cpu():
        return []
    return [{**figure, "created": figure.get("created", document["created"])} for figure in document["figures"]]


def _write(bench: str, figures: list[dict[str, Any]]) -> None:
    RESULTS.mkdir(exist_ok=True)
    document = {
        "schema": 1,
        "bench": bench,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": _cpu(),
        "figures": figures,
    }
    (RESULTS / f"{bench}.json").write_text(json.dumps(document, indent=1) + "\n")


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]} x {len(names)}" if names else platform.processor()
