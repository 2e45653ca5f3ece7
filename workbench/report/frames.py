"""A run as tables: what plots, pages and notebooks draw from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import format as fmt
from .document import GroupMeasured, TaskPart
from .run import Run

if TYPE_CHECKING:
    import pandas as pd


def variants_frame(run: Run) -> pd.DataFrame:
    """A row a variant, in the run's order: times in microseconds, ``gflops`` and ``gbps`` over all its kernels."""
    import pandas as pd

    rows = []
    for one in run.variants:
        latency, ratio = one.latency_us, one.ratio_to_unfused
        rates = throughput(run, one.name)
        rows.append(
            {
                "variant": one.name,
                "tuned": one.tuned,
                "status": one.status,
                "correct": one.correct,
                "median_us": latency.median if latency else None,
                "low_us": latency.low if latency else None,
                "high_us": latency.high if latency else None,
                "n": latency.n if latency else 0,
                "ratio": ratio.median if ratio else None,
                "ratio_low": ratio.low if ratio else None,
                "ratio_high": ratio.high if ratio else None,
                "kernels": one.kernels,
                "intermediate_bytes": one.intermediate_bytes,
                "gflops": rates.gflops if rates else None,
                "gbps": rates.gbps if rates else None,
                "peak_fraction": one.peak_fraction,
                "max_abs_error": one.max_abs_error,
                "max_rel_error": one.max_rel_error,
            }
        )
    return pd.DataFrame(rows)


def tasks_frame(run: Run) -> pd.DataFrame:
    """A row a task; ``speedup`` is the default schedule's time over the best one's."""
    import pandas as pd

    rows = []
    for task in run.tasks:
        row = task.model_dump(exclude={"history", "ops", "failed", "variants"})
        row["operators"] = fmt.operators(task.ops)
        row["failed"] = sum(task.failed.values())
        row["speedup"] = task.default_us / task.best_us if task.default_us and task.best_us else None
        rows.append(row)
    return pd.DataFrame(rows)


def groups_frame(run: Run) -> pd.DataFrame:
    """A row a kernel call and variant, with its operators and, for ``planned``, what the plan predicted."""
    import pandas as pd

    predicted = {group.id: group.predicted_us for group in run.plan.groups}
    rows = []
    for group in run.groups_measured:
        row = group.model_dump(exclude={"ops"})
        row["operators"] = fmt.operators(group.ops) or group.id
        row["category"] = category(group.ops)
        row["predicted_us"] = predicted.get(group.id) if group.variant == "planned" else None
        rows.append(row)
    return pd.DataFrame(rows)


def search_frame(run: Run) -> pd.DataFrame:
    """A row a trial: ``best_us`` is the least median of the task so far, empty until one trial works."""
    import pandas as pd

    rows = []
    for index, task in enumerate(run.tasks):
        best = None
        for trial in sorted(task.history, key=lambda one: one.trial):
            if trial.median_us is not None:
                best = trial.median_us if best is None else min(best, trial.median_us)
            rows.append({"task": index, "workload": task.workload, **trial.model_dump(), "best_us": best})
    columns = ["task", "workload", "trial", "elapsed_s", "status", "median_us", "best_us"]
    return pd.DataFrame(rows, columns=columns)


@dataclass(frozen=True)
class RooflinePoint:
    """A kernel under the roofline: FLOP per byte against GFLOP/s; ``share`` of its variant's kernel time."""

    variant: str
    id: str
    operators: str
    intensity: float
    gflops: float
    share: float


def roofline_points(run: Run, variants: tuple[str, ...] | None = None) -> list[RooflinePoint]:
    """Kernels that compute something, of the variants given (default: all that are tuned), largest share first.

    Kernels without arithmetic have no place on logarithmic axes and are left out.
    """
    names = variants if variants is not None else tuple(one.name for one in run.variants if one.tuned)
    points = [
        RooflinePoint(
            one.variant, one.id, fmt.operators(one.ops) or one.id, one.arithmetic_intensity, one.gflops, one.share
        )
        for one in run.groups_measured
        if one.variant in names and one.arithmetic_intensity and one.gflops
    ]
    return sorted(points, key=lambda point: -point.share)


@dataclass(frozen=True)
class Throughput:
    """A variant's rates over the time of all its kernels."""

    gflops: float
    gbps: float
    kernels_us: float


def throughput(run: Run, variant: str) -> Throughput | None:
    """GFLOP/s and GB/s of a variant over the sum of its kernels' times; None where no kernel was timed."""
    groups = measured_groups(run, variant)
    total = sum(group.latency_us for group in groups)
    if total <= 0:
        return None
    gflops = sum((group.gflops or 0.0) * group.latency_us for group in groups) / total
    gbps = sum((group.gbps or 0.0) * group.latency_us for group in groups) / total
    return Throughput(gflops, gbps, total)


def measured_groups(run: Run, variant: str) -> tuple[GroupMeasured, ...]:
    """The kernels of a variant in the order of their calls."""
    return tuple(group for group in run.groups_measured if group.variant == variant)


CATEGORIES = ("contraction", "attention, softmax", "normalisation", "elementwise", "data movement", "other")
_CONTRACTIONS = ("matmul", "conv1d", "conv2d", "conv3d", "conv2d_transpose", "einsum", "linear")
_NORMS = ("layer_norm", "rms_norm", "batch_norm", "group_norm", "instance_norm")
_MOVES = (
    "reshape", "permute_dims", "concat", "split", "broadcast_to", "expand_dims", "squeeze", "flatten", "take",
    "strided_slice", "repeat", "tile", "pad", "astype", "layout_transform", "memory_efficient_reshape",
)  # fmt: skip
_ELEMENTWISE = (
    "add", "subtract", "multiply", "divide", "power", "sqrt", "rsqrt", "exp", "erf", "tanh", "sigmoid", "relu", "gelu",
    "silu", "gelu_tanh", "negative", "maximum", "minimum", "clip", "log", "abs", "square", "leakyrelu", "where", "sin",
    "cos",
)  # fmt: skip


def category(ops: tuple[str, ...]) -> str:
    """What a kernel mostly does, by its heaviest operator."""
    names = [op.removeprefix("nn.") for op in ops]
    if any("attention" in name for name in names) or "softmax" in names:
        return "attention, softmax"
    if any(name in _CONTRACTIONS for name in names):
        return "contraction"
    if any(name in _NORMS for name in names):
        return "normalisation"
    if names and all(name in _MOVES for name in names):
        return "data movement"
    if names and all(name in _ELEMENTWISE or name in _MOVES for name in names):
        return "elementwise"
    return "other"


def task_of(run: Run, workload: str | None) -> TaskPart | None:
    """The task that tuned a workload, or None."""
    return next((task for task in run.tasks if task.workload == workload), None) if workload else None
