"""A cost model that has learned from measured kernels: by how much each takes longer than the roofline says."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import CostModelError
from ...graph import Graph
from ...targets.target import Target
from .. import features
from ..matching import is_view
from . import _boosting
from ._base import CostModel, Prediction
from .evaluate import Evaluation, evaluate, fold_of
from .samples import Sample

if TYPE_CHECKING:
    import xgboost

FORMAT = "workbench-cost-model"
SCHEMA = 1
MINIMUM = 40  # kernels; with fewer, what is learned is the scale at best
SEQUENCES = 5  # operator sequences: a fold of held-out groups each, at least


class LearnedCostModel(CostModel):
    """Gradient-boosted trees on a kernel's features predict log(seconds / analytic seconds), with an interval.

    Far from all that was measured the trees give some constant factor, so the analytic model's slopes remain.
    """

    name = "learned"

    def __init__(
        self, booster: xgboost.Booster, widen: float, target: Mapping[str, Any], evaluation: Evaluation
    ) -> None:
        """See :meth:`train` and :meth:`load`."""
        self.evaluation = evaluation
        self.target: Mapping[str, Any] = dict(target)  # kind, device, mcpu, threads, key: whose kernels these were
        self._booster, self._widen = booster, widen
        self._analytic = features.ANALYTIC

    @property
    def kernels(self) -> int:
        """How many kernels it was trained on."""
        return self.evaluation.kernels

    @staticmethod
    def train(samples: Sequence[Sample], target: Target) -> LearnedCostModel:
        """A model of kernels measured on ``target``, evaluated on held-out groups. The same samples give the same.

        Raises CostModelError when there are too few.
        """
        usable = [one for one in samples if not is_view(one.graph, one.nodes)]
        sequences = [one.operators for one in usable]
        if len(usable) < MINIMUM or len(set(sequences)) < SEQUENCES:
            raise CostModelError(
                f"a cost model needs at least {MINIMUM} measured kernels of {SEQUENCES} operator sequences, and there "
                f"are {len(usable)} of {len(set(sequences))} for {target.device} ({target.threads} threads); tune more "
                "models, or use the analytic one"
            )
        rows = np.stack([features.features(one.graph, one.nodes, target) for one in usable])
        analytic = np.log([features.ANALYTIC.seconds(one.graph, one.nodes, target) for one in usable])
        measured = np.log([one.seconds for one in usable])
        fold = fold_of(sequences)
        found = _boosting.held_out(rows, measured - analytic, fold)
        return LearnedCostModel(
            _boosting.fit(rows, measured - analytic),
            _boosting.widening(found, measured - analytic),
            _describe(target),
            evaluate(sequences, fold, found, analytic, measured),
        )

    def predict(self, graph: Graph, kernels: Sequence[Iterable[str]], target: Target) -> list[Prediction]:
        """See :class:`CostModel`."""
        sets = [tuple(nodes) for nodes in kernels]
        predictions = self._analytic.predict(graph, sets, target)
        known = [place for place, nodes in enumerate(sets) if not is_view(graph, nodes)]
        if not known:
            return predictions
        rows = features.feature_table(graph, [sets[place] for place in known], target)
        factors = np.exp(_boosting.widened(_boosting.quantiles(self._booster, rows), self._widen))
        for place, (low, middle, high) in zip(known, factors, strict=True):
            seconds = predictions[place].seconds
            predictions[place] = Prediction(*(float(seconds * factor) for factor in (middle, low, high)))
        return predictions

    def importances(self) -> dict[str, float]:
        """Feature -> its share of what the trees' splits gained, largest first; features of no split are left out."""
        gains = self._booster.get_score(importance_type="total_gain")
        total = sum(_number(gain) for gain in gains.values()) or 1.0
        named = {features.NAMES[int(key[1:])]: _number(gain) / total for key, gain in gains.items()}
        return dict(sorted(named.items(), key=lambda item: (-item[1], item[0])))

    # Documents

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON."""
        return {
            "format": FORMAT,
            "schema": SCHEMA,
            "target": dict(self.target),
            "features": list(features.NAMES),
            "stamp": features.stamp(),
            "widen": self._widen,
            "evaluation": self.evaluation.to_json(),
            "booster": _boosting.to_document(self._booster),
        }

    @staticmethod
    def from_json(document: Mapping[str, Any], source: str = "the document") -> LearnedCostModel:
        """Raises CostModelError for a broken document, a newer schema, or a model of other features."""
        if document.get("format") != FORMAT:
            raise CostModelError(f"{source} is no cost model; `workbench costmodel train -o FILE` writes one")
        schema = document.get("schema")
        if not isinstance(schema, int) or schema > SCHEMA:
            raise CostModelError(f"{source} has schema {schema!r}, and this workbench reads up to {SCHEMA}; upgrade it")
        _check_features(document, source)
        try:
            return LearnedCostModel(
                _boosting.from_document(document["booster"]),
                float(document["widen"]),
                dict(document["target"]),
                Evaluation.from_json(document["evaluation"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CostModelError(f"{source} is a broken cost model: {error}; train it again") from error

    def dump(self) -> bytes:
        """The document as JSON text; equal models give equal bytes."""
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"), allow_nan=False).encode() + b"\n"

    def save(self, path: Path) -> None:
        """Writes the document; compressed when the name ends in ``.gz``."""
        data = self.dump()
        path.write_bytes(gzip.compress(data, mtime=0) if path.name.endswith(".gz") else data)

    @staticmethod
    def load(path: Path) -> LearnedCostModel:
        """A saved model. Raises CostModelError when the file is missing, broken, or of other features."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise CostModelError(f"cost model {path} cannot be read ({error.strerror or error})") from error
        return LearnedCostModel.parse(data, str(path))

    @staticmethod
    def parse(data: bytes, source: str) -> LearnedCostModel:
        """A model from its bytes; raises like :meth:`from_json`."""
        try:
            document = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise CostModelError(f"{source} is no cost model: {error}") from error
        if not isinstance(document, dict):
            raise CostModelError(f"{source} is no cost model, but JSON of another kind")
        return LearnedCostModel.from_json(document, source)


def _check_features(document: Mapping[str, Any], source: str) -> None:
    found = document.get("features")
    if found != list(features.NAMES):
        others = sorted(set(features.NAMES) ^ set(found if isinstance(found, list) else ()))
        what = f", such as {', '.join(map(str, others[:3]))}" if others else " in another order"
        raise CostModelError(f"{source} was trained on other features{what}; train it again with this version")
    if document.get("stamp") != features.stamp():
        raise CostModelError(
            f"{source} was trained when a feature or the analytic model gave other numbers; "
            "train it again with this version"
        )


def _describe(target: Target) -> dict[str, Any]:
    names = ("kind", "device", "mcpu", "threads", "exact_math", "key")
    return {name: getattr(target, name) for name in names}


def _number(value: Any) -> float:
    return float(value[0] if isinstance(value, list) else value)
