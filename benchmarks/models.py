"""Fused against unfused and against TVM's greedy fusion, on every built-in model, tuned with one budget rule."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import workbench as wb
from workbench.models import builtin_models
from workbench.stats import Interval, paired_ratio

from ._figures import Figure, publish

FASTER = {"gelu": 1.3, "elementwise_chain": 1.3, "residual_layernorm": 1.3, "encoder": 1.3}
BASELINES = ("unfused", "greedy")


def figures(names: Sequence[str], trials_per_task: int, store: Path | None, out: Path | None) -> Iterator[Figure]:
    """Two or three figures a model: ratios of medians, interleaved in one run, with 95 % intervals."""
    for name in names:
        run = wb.run(
            name,
            trials_per_task=trials_per_task,
            store=store,
            out=None if out is None else out / name,
            quiet=True,
            measure_seconds=15,
        )
        ratios = gains(run)
        yield from not_slower(name, ratios)
        if name in FASTER and "unfused" in ratios:
            yield at_least_by(f"{name}_fusion_gain", ratios["unfused"], FASTER[name])


def gains(run: wb.Run) -> dict[str, Interval]:
    """How many times faster `planned` is than "unfused" and "greedy"; a variant that failed or is wrong is left out."""
    samples = {variant.name: variant.samples_us for variant in run.variants if variant.status == "ok"}
    baselines = [name for name in BASELINES if name in samples and "planned" in samples]
    return {name: paired_ratio(samples[name], samples["planned"]) for name in baselines}


def not_slower(name: str, ratios: Mapping[str, Interval]) -> Iterator[Figure]:
    """Two figures, or one that says which comparison is missing."""
    missing = [baseline for baseline in BASELINES if baseline not in ratios]
    if missing:
        yield Figure(f"{name}_comparisons", len(ratios), "= 2", False, detail={"missing": missing})
        return
    for baseline, ratio in ratios.items():
        # A loss is proved when even the upper end of the interval is under one.
        yield _figure(f"{name}_planned_vs_{baseline}", ratio, "not under 1", ratio.high >= 1)


def at_least_by(name: str, ratio: Interval, goal: float) -> Figure:
    """A ratio that should reach a goal."""
    return _figure(name, ratio, f">= {goal}", ratio.median >= goal)


def _figure(name: str, ratio: Interval, goal: str, passed: bool) -> Figure:
    goal = f"{goal}; 95 % interval {ratio.low:.3f} to {ratio.high:.3f}"
    return Figure(name, ratio.median, goal, passed, "x", {"low": ratio.low, "high": ratio.high})


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line of this benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(builtin_models()))
    parser.add_argument("--trials-per-task", type=int, default=64)
    parser.add_argument("--store", type=Path, help="folder of records and kernels (default: the user's)")
    parser.add_argument("--out", type=Path, help="also write each run's report under this folder")
    options = parser.parse_args(arguments)
    made = figures(options.models, options.trials_per_task, options.store, options.out)
    others = tuple(f"{name}_" for name in builtin_models() if name not in options.models)
    return int(not publish("models", made, keep=lambda name: name.startswith(others)))


if __name__ == "__main__":
    sys.exit(main())
