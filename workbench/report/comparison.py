"""What a comparison of two runs found: plain data, made by ``compare``."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from . import format as fmt
from .document import IntervalRatio

Verdict = Literal[
    "faster", "slower", "no change", "not enough data", "not comparable", "newly wrong", "newly failing",
    "still wrong", "still failing", "now correct", "only in A", "only in B",
]  # fmt: skip
REGRESSIONS = ("slower", "newly wrong", "newly failing")


@dataclass(frozen=True)
class Difference:
    """Something that is ``a`` in the first run and ``b`` in the second."""

    what: str
    a: str
    b: str


@dataclass(frozen=True)
class VariantChange:
    """A variant in both runs: medians in microseconds, ``ratio`` of B's median over A's (below 1: B is faster).

    ``counts``: whether a slower time is a regression; an untuned variant is there for orientation only.
    """

    variant: str
    verdict: Verdict
    a_us: float | None
    b_us: float | None
    ratio: IntervalRatio | None
    counts: bool
    message: str = ""


@dataclass(frozen=True)
class GroupChange:
    """A group that only one of the two plans has. ``side``: "A" or "B"."""

    side: str
    nodes: tuple[str, ...]
    ops: tuple[str, ...]
    rule: str


@dataclass(frozen=True)
class ScheduleChange:
    """A workload that the runs scheduled differently, with the best trial's time in each (microseconds)."""

    workload: str
    operators: str
    source_a: str
    source_b: str
    a_us: float | None
    b_us: float | None


@dataclass(frozen=True)
class Comparison:
    """Two runs side by side. ``differences`` make them incomparable, ``warnings`` only weaken what is said."""

    a: str
    b: str
    comparable: bool
    differences: tuple[Difference, ...]
    warnings: tuple[str, ...]
    variants: tuple[VariantChange, ...]
    groups: tuple[GroupChange, ...]
    schedules: tuple[ScheduleChange, ...]

    @property
    def regressed(self) -> bool:
        """Whether B is slower in a tuned variant, or wrong or failing where A was right."""
        return any(
            change.verdict in REGRESSIONS and (change.counts or change.verdict != "slower") for change in self.variants
        )

    @property
    def conclusive(self) -> bool:
        """Whether anything can be said: the runs are comparable, and some tuned variant got a verdict."""
        silent = ("not enough data", "not comparable", "only in A", "only in B")
        return self.comparable and any(one.verdict not in silent for one in self.variants if one.counts)

    @property
    def exit_code(self) -> int:
        """1: a regression; 3: not comparable or not enough data; 0: neither."""
        return 1 if self.regressed else 0 if self.conclusive else 3

    def summary(self) -> str:
        """One sentence for the head of a table."""
        if not self.comparable:
            parts = ", ".join(f"{one.what} ({one.a} / {one.b})" for one in self.differences)
            return f"not comparable: the runs differ in {parts}"
        bad = [f"{one.variant} {one.verdict}" for one in self.variants if one.verdict in REGRESSIONS]
        good = [f"{one.variant} {one.verdict}" for one in self.variants if one.verdict in ("faster", "now correct")]
        if bad:
            return f"{'regressed' if self.regressed else 'slower only where not tuned'}: {', '.join([*bad, *good])}"
        if good:
            return f"better: {', '.join(good)}"
        return "no change" if self.conclusive else "not enough data for a verdict"

    def rows(self) -> list[tuple[str, str, str, str, str]]:
        """Variant, A, B, B over A with its interval, and the verdict, as text."""
        return [
            (one.variant, fmt.time(one.a_us), fmt.time(one.b_us), fmt.ratio(one.ratio), one.verdict)
            for one in self.variants
        ]

    def to_json(self) -> dict[str, Any]:
        """Plain data, with the two properties that decide what happens next."""
        document = dataclasses.asdict(dataclasses.replace(self, variants=()))
        document["variants"] = [
            {**vars(one), "ratio": None if one.ratio is None else one.ratio.model_dump()} for one in self.variants
        ]
        return {"schema": 1, **document, "regressed": self.regressed, "conclusive": self.conclusive}

    def _repr_html_(self) -> str:
        from .html import comparison_fragment

        return comparison_fragment(self)
