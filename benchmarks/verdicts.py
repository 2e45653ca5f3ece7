"""Whether plans predicted what was then measured, boundary by boundary.

A boundary is a decision of a plan that has a predicted verdict (``expected``) and both a fused and an unfused time
that were measured; a set of nodes that several rules proposed counts once. With r = time apart / fused time, where
"apart" is the faster of the unfused and, if it was measured, the partial form (what a prediction compares too), the
measured verdict is "fuse" above r = 1.05, "split" below 1 / 1.05, else "tie". A boundary that was measured inside the
model is held against the prediction for inside the model, one that was measured kernel by kernel against that for
kernels on their own. Predicted and measured verdict agree
when they are the same, and also when one of them is "tie" and r is within 10 % of one (1 / 1.1 to 1.1): who is wrong
about so little loses nothing. "fuse" against "split" never agrees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from workbench.fusion.planners._decisions import TIED, verdict_of
from workbench.report.document import DecisionPart

VERDICTS = ("fuse", "tie", "split")
BAND = 1.05
HARMLESS = 1.1

# "predicted/measured", such as "fuse/tie", with " (near)" behind a pair that differs harmlessly: how often.
Counts = Mapping[str, int]


def measured_verdict(ratio: float) -> str:
    """The verdict of time apart over fused time."""
    return "fuse" if ratio > BAND else "split" if ratio < 1 / BAND else "tie"


def predicted_verdict(decision: DecisionPart) -> str:
    """The verdict of the prediction for what was measured of the boundary."""
    if decision.measured_in == "model":
        return decision.expected or ""
    alone = {name: us - decision.beside_us.get(name, 0.0) for name, us in decision.predicted_us.items()}
    return verdict_of(alone["fused"], min(us for name, us in alone.items() if name != "fused"), TIED)


def _ratio(times: Mapping[str, float]) -> float:
    return min(times["unfused"], times.get("partial", times["unfused"])) / times["fused"]


def count(decisions: Iterable[DecisionPart]) -> Counter[str]:
    """Pairs of verdicts of the decisions of one run."""
    counts: Counter[str] = Counter()
    seen: set[str] = set()
    for decision in decisions:
        times = decision.measured_us or {}
        if decision.expected is None or not {"fused", "unfused"} <= times.keys() or decision.boundary in seen:
            continue
        seen.add(decision.boundary)
        ratio = _ratio(times)
        predicted, measured = predicted_verdict(decision), measured_verdict(ratio)
        near = predicted != measured and "tie" in (predicted, measured) and 1 / HARMLESS <= ratio <= HARMLESS
        counts[f"{predicted}/{measured}{' (near)' if near else ''}"] += 1
    return counts


def agreement(counts: Counts) -> float:
    """The share of boundaries whose two verdicts agree; 0 when there is no boundary."""
    total = sum(counts.values())
    return sum(number for pair, number in counts.items() if _agrees(pair)) / total if total else 0.0


def confusion(counts: Counts) -> dict[str, dict[str, int]]:
    """Rows are predicted, columns measured verdicts."""
    return {
        predicted: {
            measured: counts.get(f"{predicted}/{measured}", 0) + counts.get(f"{predicted}/{measured} (near)", 0)
            for measured in VERDICTS
        }
        for predicted in VERDICTS
    }


def _agrees(pair: str) -> bool:
    predicted, _, measured = pair.partition("/")
    return predicted == measured or measured.endswith("(near)")
