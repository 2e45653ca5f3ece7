"""Which cost model a plan is made with: one of this store's kernels, the committed one, or the analytic one."""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import CostModelError
from ...targets.target import Target
from ...tvm_seam import tvm_version
from ._base import CostModel
from .analytic import AnalyticCostModel
from .learned import MINIMUM, LearnedCostModel
from .samples import stored_samples

if TYPE_CHECKING:
    from ...store import Store

log = logging.getLogger(__name__)
PRETRAINED = Path(__file__).parent / "pretrained"


def choose(target: Target, store: Store | None) -> CostModel:
    """The best model there is for planning on ``target``; the same store and target give the same one.

    One trained on what the store has measured there, where that is enough and held-out groups show that it is better
    than the analytic model; else a committed one of the same family of processors; else the analytic model.
    """
    own = None if store is None else trained(target, store)
    if own is not None and not own.evaluation.warning:
        return own
    if own is not None:
        log.info("cost model of %s: %s", target.device, own.evaluation.warning)
    return pretrained(target) or AnalyticCostModel()


def trained(target: Target, store: Store) -> LearnedCostModel | None:
    """The model of the store's kernels of this target; None when they are too few.

    Trained anew whenever the store has more kernels than it was trained on, and kept in the store.
    """
    kernels = store.measured_groups(target.key, tvm_version())
    if kernels < MINIMUM:
        return None
    if (known := _known(store, _file_name(target), kernels)) is not None:
        return known
    try:
        return train_on(store, target)
    except CostModelError as error:  # views and what cannot be read do not count
        log.info("%s", error)
        return None


def train_on(store: Store, target: Target) -> LearnedCostModel:
    """A model of the store's kernels of this target, kept in the store. Raises CostModelError when they are too few."""
    kernels = store.measured_groups(target.key, tvm_version())
    model = LearnedCostModel.train(stored_samples(store, target.key, tvm_version()), target)
    document = {"kernels": kernels, "model": model.to_json()}
    store.write_model(_file_name(target), json.dumps(document, separators=(",", ":"), allow_nan=False).encode())
    return model


def _known(store: Store, name: str, kernels: int) -> LearnedCostModel | None:
    """The model in the store, where it was trained when there were so many kernels, and can still be asked."""
    data = store.model(name)
    try:
        document = json.loads(data) if data else {}
        if document.get("kernels") != kernels:
            return None
        return LearnedCostModel.from_json(document["model"], f"the cost model {name} of {store.path}")
    except (CostModelError, ValueError, KeyError, AttributeError) as error:
        log.info("trained again: %s", error)
        return None


def _file_name(target: Target) -> str:
    # Peaks are no part of the key, and the analytic model that the trees correct depends on them.
    text = f"{target.key} {tvm_version()} {target.peak_gflops!r} {target.peak_gbps!r} {target.caches}"
    return f"fusion-cost-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def pretrained(target: Target) -> LearnedCostModel | None:
    """The committed model that fits a target: same kind, family of processors and number of threads."""
    for path in sorted(PRETRAINED.glob("*.model.json.gz")):
        try:
            model = _committed(path)
        except CostModelError as error:
            log.warning("%s", error)
            continue
        if fits(model, target):
            return model
    return None


@functools.cache
def _committed(path: Path) -> LearnedCostModel:
    return LearnedCostModel.load(path)


def fits(model: LearnedCostModel, target: Target) -> bool:
    """Whether a model's kernels were measured on such a processor: ``znver4`` is of the family of ``znver3``."""
    own = model.target
    return (own["kind"], own["threads"], _family(str(own["mcpu"]))) == (
        target.kind,
        target.threads,
        _family(target.mcpu),
    )


def _family(mcpu: str) -> str:
    return re.sub(r"\d+$", "", mcpu)
