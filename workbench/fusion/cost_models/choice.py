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
from .learned import LearnedCostModel
from .samples import stored_samples

if TYPE_CHECKING:
    from ...store import Store

log = logging.getLogger(__name__)
PRETRAINED = Path(__file__).parent / "pretrained"
# Intel names each generation anew, and virtual machines show another generation's number; as cores these differ little.
INTEL_AVX512 = frozenset({"icelake-server", "rocketlake", "sapphirerapids", "emeraldrapids", "graniterapids"})


def choose(target: Target, store: Store | None) -> CostModel:
    """The best model there is for planning on ``target``; the same store and target give the same one.

    One that ``workbench costmodel train`` made of what the store has measured there, where held-out groups show that it
    is better than the analytic model; else a committed one of the same family of processors; else the analytic model.
    Nothing is trained here: a model that changed with every run would plan the same model differently each time.
    """
    own = None if store is None else trained(target, store)
    if own is not None and not own.evaluation.warning:
        return own
    if own is not None:
        log.info("cost model of %s: %s", target.device, own.evaluation.warning)
    return pretrained(target) or AnalyticCostModel()


def trained(target: Target, store: Store) -> LearnedCostModel | None:
    """The model of this target that the store keeps; None where none was trained, or it cannot be used any more."""
    data = store.model(_file_name(target))
    if data is None:
        return None
    name = f"the cost model of {store.path}"
    try:
        return LearnedCostModel.from_json(json.loads(data), name)
    except (CostModelError, ValueError) as error:
        log.warning("%s; train it again with 'workbench costmodel train'", error)
        return None


def train_on(store: Store, target: Target) -> LearnedCostModel:
    """A model of the store's kernels of this target, kept in the store. Raises CostModelError when they are too few."""
    model = LearnedCostModel.train(stored_samples(store, target.key, tvm_version()), target)
    text = json.dumps(model.to_json(), separators=(",", ":"), allow_nan=False)
    store.write_model(_file_name(target), text.encode())
    return model


def _file_name(target: Target) -> str:
    return f"fusion-cost-{hashlib.sha256(f'{target.key} {tvm_version()}'.encode()).hexdigest()[:16]}.json"


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
    """Whether a model's kernels were measured on such a processor.

    ``znver4`` is of the family of ``znver3``, and ``sapphirerapids`` of that of ``emeraldrapids``.
    """
    own = model.target
    return (own["kind"], own["threads"], _family(str(own["mcpu"]))) == (
        target.kind,
        target.threads,
        _family(target.mcpu),
    )


def _family(mcpu: str) -> str:
    return "intel-avx512" if mcpu in INTEL_AVX512 else re.sub(r"\d+$", "", mcpu)
