"""How good the predictions were that a plan rests on, in words."""

from __future__ import annotations

from .document import PredictionsPart, ScoresPart


def prediction_words(part: PredictionsPart | None) -> str:
    """One sentence for the report and the terminal; "" where nothing is known."""
    if part is None or part.here is None:
        return ""
    said = f"Predictions ({part.model} cost model): {_scores(part.here)} on the {part.here.kernels} kernels of this run"
    if part.held_out is not None and part.held_out_analytic is not None:
        said += (
            f"; on held-out groups {_scores(part.held_out)}, the analytic roofline {_scores(part.held_out_analytic)}"
        )
    return said + "."


def _scores(scores: ScoresPart) -> str:
    return f"median error {scores.median_error:.0%}, rank correlation {scores.rank_correlation:.2f}"
