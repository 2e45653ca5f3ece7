"""Plans against no fusion and against TVM's greedy fusion on publicly reported cases, what plans predict, and how fast.

Each case and each built-in model is tuned with one budget rule for all variants and timed interleaved; see
``fusion_cases``, ``verdicts`` and ``synthetic_graphs`` for what is run, counted and planned.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import workbench as wb
from workbench.errors import CostModelError
from workbench.fusion.cost_models import CostModel, LearnedCostModel, Sample, choose, stored_samples
from workbench.job import with_peaks
from workbench.models import builtin_models
from workbench.store import Store
from workbench.targets import Target, resolve
from workbench.tvm_seam import tvm_version

from . import fusion_cases
from ._figures import Figure, at_least, at_most, publish, recorded
from .fusion_cases import CASES
from .models import at_least_by, gains, not_slower
from .verdicts import agreement, confusion, count

FASTER_THAN_GREEDY = dict.fromkeys(("thin_chain_8", "thin_chain_16", "thin_row_chain_8", "thin_row_chain_16"), 1.5)
FASTER_THAN_THE_WORSE = {"pool_of_concats": 1.5}
PLANNING_SECONDS = {500: 5.0, 5000: 60.0}


def figures(
    names: Sequence[str], trials_per_task: int, store: Path | None, out: Path | None, kept: Iterable[Mapping[str, Any]]
) -> Iterator[Figure]:
    """Every figure of the named runs, then those over all of them, ``kept`` figures of earlier calls included."""
    pairs = Counter[str]()
    for figure in kept:
        pairs.update(figure["detail"].get("verdicts", {}))
    yield from planning()
    for name in names:
        for made in of_model(name, trials_per_task, store, out):
            yield made
            pairs.update(made.detail.get("verdicts", {}))
    yield at_least("verdict_agreement", agreement(pairs), 0.9, detail={"confusion": confusion(pairs)})
    yield cost_model(store)


def of_model(name: str, trials_per_task: int, store: Path | None, out: Path | None) -> Iterator[Figure]:
    """How `planned` compares in one run; the first figure's detail has the pairs of predicted and measured verdicts."""
    source = f"{fusion_cases.__file__}:{name}" if name in CASES else name
    run = wb.run(
        source,
        trials_per_task=trials_per_task,
        store=store,
        out=None if out is None else out / name,
        quiet=True,
        measure_seconds=15,
    )
    ratios = gains(run)
    first, *rest = not_slower(name, ratios)
    yield replace(first, detail={**first.detail, "verdicts": dict(count(run.plan.decisions))})
    yield from rest
    if name in FASTER_THAN_GREEDY and "greedy" in ratios:
        made = at_least_by(f"{name}_gain_over_greedy", ratios["greedy"], FASTER_THAN_GREEDY[name])
        most = at_most_over_greedy(run)
        yield replace(made, goal=f"{made.goal}; memory allows {most:.2f}", detail={**made.detail, "at_most": most})
    if name in FASTER_THAN_THE_WORSE and len(ratios) == 2:
        worse = max(ratios.values(), key=lambda ratio: ratio.median)
        yield at_least_by(f"{name}_gain_over_the_worse", worse, FASTER_THAN_THE_WORSE[name])


def at_most_over_greedy(run: wb.Run) -> float:
    """How many times faster than "greedy" any plan can be that reads each input and writes each output once, from and
    to memory at the measured bandwidth."""
    tensors = (*run.model.inputs, *run.model.outputs)
    moved = sum(math.prod(one.shape) * np.dtype(one.dtype).itemsize for one in tensors)
    greedy = next(variant.samples_us for variant in run.variants if variant.name == "greedy")
    return statistics.median(greedy) / (moved / run.target.peak_gbps * 1e-3)


def cost_model(store: Path | None) -> Figure:
    """How well a learned model ranks groups of operators that it was not trained on; see :func:`ranking`."""
    with Store(store) as opened:
        target = with_peaks(resolve("llvm"), opened)
        return ranking(choose(target, opened), stored_samples(opened, target.key, tvm_version()), target)


def ranking(model: CostModel, samples: Sequence[Sample], target: Target) -> Figure:
    """Of the model that plans are made with; where that is the analytic one, of one trained on what was measured by
    now, as a user would for the next plans. The detail has the analytic model's own figures beside."""
    detail: dict[str, Any] = {"planned_with": model.name}
    try:
        learned = model if isinstance(model, LearnedCostModel) else LearnedCostModel.train(samples, target)
    except CostModelError as error:
        return Figure("heldout_rank_correlation", 0.0, ">= 0.9", False, detail={**detail, "error": str(error)})
    detail |= {**learned.evaluation.to_json(), "trained_on": dict(learned.target)}
    return at_least("heldout_rank_correlation", learned.evaluation.learned.rank_correlation, 0.9, detail=detail)


def planning() -> Iterator[Figure]:
    """Seconds to plan large graphs, and whether two processes with different hashes make the same plan."""
    for operators, goal in PLANNING_SECONDS.items():
        made = [_planned(operators, hash_seed) for hash_seed in ("1", "2")]
        seconds = max(one["seconds"] for one in made)
        yield at_most(f"planning_seconds_{operators}", seconds, goal, unit="s", detail={"processes": made})
        same = len({one["plan"] for one in made}) == 1
        yield Figure(f"planning_deterministic_{operators}", float(same), "= 1", same)


def _planned(operators: int, hash_seed: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.synthetic_graphs", str(operators)]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    root = Path(__file__).parents[1]
    done = subprocess.run(command, env=environment, cwd=root, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout))


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line of this benchmark."""
    everything = [*CASES, *builtin_models()]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=everything, help="cases and built-in models (default: all)")
    parser.add_argument("--trials-per-task", type=int, default=32)
    parser.add_argument("--store", type=Path, help="folder of records and kernels (default: the user's)")
    parser.add_argument("--out", type=Path, help="also write each run's report under this folder")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in everything]
    if unknown:
        parser.error(f"no case and no built-in model is called {', '.join(unknown)}; there are {', '.join(everything)}")
    others = tuple(f"{name}_" for name in everything if name not in options.names)
    kept = [figure for figure in recorded("fusion") if figure["name"].startswith(others)]
    made = figures(options.names, options.trials_per_task, options.store, options.out, kept)
    return int(not publish("fusion", made, keep=lambda name: name.startswith(others)))


if __name__ == "__main__":
    sys.exit(main())
