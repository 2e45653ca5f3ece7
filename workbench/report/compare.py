"""Compares two runs: is the second slower, and may one say so?

Between two runs the machine may have changed without a trace, so this says no more than the samples carry: a
difference needs an interval without 1 and at least 2 % of effect; runs on other machines, of other models or with
another TVM are not compared at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import format as fmt
from .comparison import Comparison, Difference, GroupChange, ScheduleChange, VariantChange, Verdict
from .document import IntervalRatio, VariantPart
from .run import Run, as_run

EFFECT = 0.02  # smaller differences are not worth a verdict
ENOUGH = 5  # samples of each run
VAGUE = 0.10  # an interval wider than this on either side of 1 does not show that nothing changed
RESAMPLES = 2000
DRIFT = 0.10  # relative change of a measured peak that is worth a warning
CONTROL = "unfused-untuned"  # default schedules: the same kernels in both runs

Source = Run | str | Path | Mapping[str, Any]


def compare(a: Source, b: Source) -> Comparison:
    """Run ``b`` against the baseline ``a``; each a run, a run folder, a ``run.json``, or its document.

    Raises InputError for a source that holds no run.
    """
    first, second = as_run(a), as_run(b)
    differences = _differences(first, second)
    comparable = not differences
    variants = tuple(_variants(first, second, comparable))
    same_model = first.model.fingerprint == second.model.fingerprint
    return Comparison(
        a=_name(a, first),
        b=_name(b, second),
        comparable=comparable,
        differences=differences,
        warnings=tuple(_warnings(first, second, variants)),
        variants=variants,
        groups=tuple(_groups(first, second)) if same_model else (),
        schedules=tuple(_schedules(first, second)),
    )


def _name(source: Source, run: Run) -> str:
    return str(source) if isinstance(source, str | Path) else f"{run.model.name} {run.created}"


def _differences(a: Run, b: Run) -> tuple[Difference, ...]:
    """What forbids a comparison. An unknown version is a difference too: nothing shows that it is the same."""
    pairs = (
        ("model", a.model.fingerprint[:12], b.model.fingerprint[:12]),
        ("target", a.target.kind, b.target.kind),
        ("device", a.target.device, b.target.device),
        ("vector extensions", "+".join(a.target.features), "+".join(b.target.features)),
        ("cores", a.target.cores, b.target.cores),
        ("threads", a.target.threads, b.target.threads),
        ("TVM", a.environment.tvm, b.environment.tvm),
        ("LLVM", a.target.llvm, b.target.llvm),
        ("CUDA", a.target.cuda, b.target.cuda),
    )
    return tuple(Difference(what, str(left), str(right)) for what, left, right in pairs if left != right)


def _variants(a: Run, b: Run, comparable: bool) -> list[VariantChange]:
    names = list(dict.fromkeys(one.name for one in (*a.variants, *b.variants)))
    return [_variant(name, a.variant(name), b.variant(name), comparable) for name in names]


def _variant(name: str, a: VariantPart | None, b: VariantPart | None, comparable: bool) -> VariantChange:
    ratio = None
    if not comparable:
        verdict: Verdict = "not comparable"
    elif a is None or b is None:
        verdict = "only in B" if a is None else "only in A"
    elif (health := _health_verdict(a, b)) is not None:
        verdict = health
    elif min(len(a.samples_us), len(b.samples_us)) < ENOUGH:
        verdict = "not enough data"
    else:
        ratio = ratio_interval(b.samples_us, a.samples_us)
        verdict = judge(ratio)
    return VariantChange(
        variant=name,
        verdict=verdict,
        a_us=a.latency_us.median if a is not None and a.latency_us else None,
        b_us=b.latency_us.median if b is not None and b.latency_us else None,
        ratio=ratio,
        counts=all(one.tuned for one in (a, b) if one is not None),
        message=b.message if b is not None and b.status != "ok" else "",
    )


def _health_verdict(a: VariantPart, b: VariantPart) -> Verdict | None:
    """A verdict where one of the two has no right result; None where both are right."""
    if b.status == "failed":
        return "still failing" if a.status == "failed" else "newly failing"
    if b.status == "wrong" or not b.correct:
        return "still wrong" if a.status == "wrong" else "newly wrong"
    if a.status != "ok" or not a.correct:
        return "now correct"
    return None


def judge(ratio: IntervalRatio) -> Verdict:
    """The verdict on B's time over A's: a difference when 1 lies outside the interval and the effect is 2 % or more."""
    if ratio.low > 1 and ratio.median >= 1 + EFFECT:
        return "slower"
    if ratio.high < 1 and ratio.median <= 1 - EFFECT:
        return "faster"
    if ratio.high > 1 + VAGUE or ratio.low < 1 - VAGUE:
        return "not enough data"
    return "no change"


def ratio_interval(top: Sequence[float], bottom: Sequence[float], seed: int = 0) -> IntervalRatio:
    """Ratio of medians of independent samples with its 95 % percentile-bootstrap interval (Efron 1979).

    The two runs share no rounds, so each side is resampled by itself.
    """
    import numpy as np

    random = np.random.default_rng(seed)
    above, below = np.asarray(top, dtype=float), np.asarray(bottom, dtype=float)
    medians = [
        np.median(values[random.integers(0, len(values), (RESAMPLES, len(values)))], axis=1)
        for values in (above, below)
    ]
    low, high = np.percentile(medians[0] / medians[1], [2.5, 97.5])
    return IntervalRatio(median=float(np.median(above) / np.median(below)), low=float(low), high=float(high))


def _warnings(a: Run, b: Run, variants: Sequence[VariantChange]) -> list[str]:
    """Everything that weakens a verdict without forbidding it."""
    found = [
        f"taken at different times ({a.created} and {b.created}): a drift of the machine cannot be excluded; "
        "repeat A after B to be sure"
    ]
    found += [
        f"run {letter} is incomplete: {run.incomplete_reason or 'cut short'}"
        for letter, run in (("A", a), ("B", b))
        if not run.complete
    ]
    control = next((one for one in variants if one.variant == CONTROL), None)
    if control is not None and control.verdict in ("faster", "slower") and control.ratio is not None:
        found.append(
            f"{CONTROL}, whose schedules are the same in both, changed to {fmt.ratio(control.ratio)}: "
            "part of the other changes may be the machine's"
        )
    for what, left, right in (
        ("GFLOP/s", a.target.peak_gflops, b.target.peak_gflops),
        ("GB/s", a.target.peak_gbps, b.target.peak_gbps),
    ):
        if a.target.peaks_measured and b.target.peaks_measured and abs(right / left - 1) > DRIFT:
            found.append(f"the machine's measured peak differs: {fmt.number(left)} and {fmt.number(right)} {what}")
    found += [
        f"{what} differs: {left} and {right}"
        for what, left, right in (
            ("elementary functions", _math(a), _math(b)),
            ("budget", _budget(a), _budget(b)),
            ("workbench", a.workbench, b.workbench),
            ("tvm-ffi", a.environment.tvm_ffi, b.environment.tvm_ffi),
            ("operating system", a.environment.os, b.environment.os),
            ("CPU affinity", a.environment.affinity, b.environment.affinity),
        )
        if left != right
    ]
    return found


def _math(run: Run) -> str:
    return "the C library's" if run.target.exact_math else "vectorised"


def _budget(run: Run) -> str:
    budget = run.budget
    limits = (
        (budget.trials, "trials"),
        (budget.trials_per_task, "trials a task"),
        (budget.minutes, "minutes"),
        (budget.seed, "seed"),
    )
    return ", ".join(f"{name} {value:g}" for value, name in limits if value is not None)


def _groups(a: Run, b: Run) -> list[GroupChange]:
    """Groups that only one plan has: node ids mean the same in both, since the model is the same."""
    sides = []
    for side, mine, other in (("A", a, b), ("B", b, a)):
        known = {frozenset(group.nodes) for group in other.plan.groups}
        sides += [
            GroupChange(side, group.nodes, group.ops, group.rule)
            for group in mine.plan.groups
            if frozenset(group.nodes) not in known
        ]
    return sides


def _schedules(a: Run, b: Run) -> list[ScheduleChange]:
    before = {task.workload: task for task in a.tasks}
    return [
        ScheduleChange(
            workload=task.workload,
            operators=fmt.operators(task.ops),
            source_a=before[task.workload].schedule_source,
            source_b=task.schedule_source,
            a_us=before[task.workload].best_us,
            b_us=task.best_us,
        )
        for task in b.tasks
        if task.workload in before and task.schedule_id != before[task.workload].schedule_id
    ]
