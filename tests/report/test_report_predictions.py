"""How good the predictions were: in words, in run.json, on the page and in the terminal."""

from __future__ import annotations

import io

from rich.console import Console
from sample_run import sample_run

from workbench.report import Run
from workbench.report.document import PredictionsPart, ScoresPart
from workbench.report.html import report_page
from workbench.report.predictions import prediction_words
from workbench.report.terminal import run_tables

PART = PredictionsPart(
    model="learned",
    here=ScoresPart(kernels=14, median_error=0.21, rank_correlation=0.93),
    held_out=ScoresPart(kernels=276, median_error=0.23, rank_correlation=0.97),
    held_out_analytic=ScoresPart(kernels=276, median_error=0.31, rank_correlation=0.96),
    warning="no better than the analytic one",
)
WORDS = (
    "Predictions (learned cost model): median error 21%, rank correlation 0.93 on the 14 kernels of this run; on "
    "held-out groups median error 23%, rank correlation 0.97, the analytic roofline median error 31%, rank correlation "
    "0.96."
)


def predicted() -> Run:
    run = sample_run()
    return run.model_copy(update={"plan": run.plan.model_copy(update={"predictions": PART})})


def test_words() -> None:
    assert prediction_words(PART) == WORDS
    assert prediction_words(None) == ""
    alone = PART.model_copy(update={"held_out": None, "warning": ""})
    assert prediction_words(alone) == WORDS.partition(";")[0] + "."


def test_they_survive_the_document_and_are_shown() -> None:
    run = Run.from_json(predicted().to_json())
    assert run.plan.predictions == PART
    console = Console(file=io.StringIO(), width=80)
    for part in run_tables(run):
        console.print(part)
    shown = " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]
    assert WORDS in shown
    assert "warning: no better than the analytic one" in shown
    assert WORDS in report_page(run)
