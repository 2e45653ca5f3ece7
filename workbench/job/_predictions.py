"""How good the cost model was, on what a run has measured."""

from __future__ import annotations

import math

import numpy as np

from ..fusion import Evidence
from ..fusion.cost_models import Evaluation, LearnedCostModel, Scores
from ..fusion.cost_models.evaluate import scores
from ..graph import Graph
from ..report.document import PredictionsPart, ScoresPart
from ._settings import Settings

FEW = 3  # kernels under which a correlation means nothing


def predictions_of(graph: Graph, evidence: Evidence, settings: Settings) -> PredictionsPart | None:
    """The scores of the plan's cost model on all kernels that were measured, and on held-out groups."""
    model = settings.model
    if model is None:
        return None
    known = {nodes: one.seconds for nodes, one in evidence.measured.items() if math.isfinite(one.seconds)}
    here = None
    if len(known) >= FEW:
        found = model.predict(graph, [graph.order(nodes) for nodes in known], settings.target)
        predicted = np.log([one.seconds for one in found])
        here = _part(len(known), scores(predicted, np.log(list(known.values()))))
    if not isinstance(model, LearnedCostModel):
        return PredictionsPart(model=model.name, here=here)
    held_out: Evaluation = model.evaluation
    return PredictionsPart(
        model=model.name,
        here=here,
        held_out=_part(held_out.kernels, held_out.learned),
        held_out_analytic=_part(held_out.kernels, held_out.analytic),
        warning=held_out.warning or _worse(here, graph, known, settings),
    )


def _worse(here: ScoresPart | None, graph: Graph, known: dict[frozenset[str], float], settings: Settings) -> str:
    """A word where the analytic model would have ranked this run's kernels better."""
    if here is None:
        return ""
    from ..fusion.cost_models import AnalyticCostModel

    found = AnalyticCostModel().predict(graph, [graph.order(nodes) for nodes in known], settings.target)
    analytic = scores(np.log([one.seconds for one in found]), np.log(list(known.values())))
    if here.median_error <= analytic.median_error or here.rank_correlation >= analytic.rank_correlation:
        return ""
    return (
        f"on this run's kernels the learned cost model is no better than the analytic one (median error "
        f"{here.median_error:.0%} against {analytic.median_error:.0%}); try --cost-model analytic, or "
        "'workbench costmodel train'"
    )


def _part(kernels: int, found: Scores) -> ScoresPart:
    return ScoresPart(kernels=kernels, median_error=found.median_error, rank_correlation=found.rank_correlation)
