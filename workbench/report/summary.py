"""The sentence that a report opens with: what was won, how sure that is, and whether the results are right."""

from __future__ import annotations

from . import format as fmt
from .document import IntervalRatio, TaskPart, VariantPart
from .frames import measured_groups, task_of
from .run import Run

MAIN, BASE = "planned", "unfused"
WORTH_SAYING = 0.1  # of a variant's time


def sentence(run: Run) -> str:
    """One or two sentences without a line break; never claims a speed for what is wrong or was not measured."""
    text = f"{run.model.name}: {_speed(run)}; {_agreement(run)}."
    if not run.complete:
        reason = run.incomplete_reason or "the run was cut short"
        return f"INCOMPLETE ({reason}). {text}"
    return text


def caveat(run: Run) -> str:
    """What a reader should know before believing a ratio: which tuned variants were hardly searched; "" for none."""
    shares = {one.name: _unsearched(run, one.name) for one in run.variants if one.tuned and one.latency_us}
    parts = [f"{fmt.percent(share)} of {name}'s time" for name, share in shares.items() if share >= WORTH_SAYING]
    if not parts:
        return ""
    listed = " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))
    return f"Kernels of which only the default schedule was tried take {listed}: a longer search may change this."


def _unsearched(run: Run, variant: str) -> float:
    """The share of a variant's kernel time for which a search was possible, and ended before its first candidate."""
    groups = measured_groups(run, variant)
    total = sum(group.latency_us for group in groups)
    bare = sum(group.latency_us for group in groups if _is_bare(task_of(run, group.workload)))
    return bare / total if total > 0 else 0.0


def _is_bare(task: TaskPart | None) -> bool:
    """A task with one trial and a note is one that cannot be tuned."""
    if task is None or (task.cached and not task.history):
        return False
    return not task.history or (len(task.history) == 1 and not task.note)


def _speed(run: Run) -> str:
    main = run.variant(MAIN)
    if main is None:
        return f"{MAIN} was not measured, so nothing is said about what fusion buys"
    if main.latency_us is None:
        return f"{MAIN} is {_state(main)}, so no speed is claimed"
    time = f"{MAIN} runs in {fmt.time(main.latency_us.median)} {fmt.interval(main.latency_us)}"
    base = run.variant(BASE)
    if main.ratio_to_unfused is None:
        why = (
            "was not measured" if base is None else f"is {_state(base)}" if base.latency_us is None else "has no ratio"
        )
        return f"{time}; there is no ratio, since {BASE} {why}"
    return f"{time}, {_gain(main)}"


def _gain(main: VariantPart) -> str:
    """Only an interval that leaves 1 out is a difference."""
    parts = [
        _difference(ratio, name)
        for ratio, name in ((main.ratio_to_unfused, BASE), (main.ratio_to_greedy, "greedy"))
        if ratio is not None
    ]
    return " and ".join(parts)


def _difference(ratio: IntervalRatio, other: str) -> str:
    if ratio.low > 1:
        return f"{fmt.ratio(ratio)} faster than {other}"
    if ratio.high < 1:
        slower = ratio.model_copy(update={"median": 1 / ratio.median, "low": 1 / ratio.high, "high": 1 / ratio.low})
        return f"{fmt.ratio(slower)} SLOWER than {other}"
    return f"without a measurable difference to {other} ({fmt.ratio(ratio)})"


def _state(variant: VariantPart) -> str:
    if variant.status == "wrong":
        return "wrong"
    return "not usable (it failed)" if variant.status == "failed" else "not timed"


def _agreement(run: Run) -> str:
    reference = reference_name(run.reference)
    if not run.variants:
        return "nothing was measured"
    bad = [variant for variant in run.variants if not variant.correct]
    if not bad:
        count = len(run.variants)
        return f"all {count} variants agree with {reference}" if count > 1 else f"its result agrees with {reference}"
    wrong = [variant.name for variant in bad if variant.status != "failed"]
    failed = [variant.name for variant in bad if variant.status == "failed"]
    parts = []
    if wrong:
        parts.append(f"{', '.join(wrong)} {'is' if len(wrong) == 1 else 'are'} WRONG against {reference}")
    if failed:
        parts.append(f"{', '.join(failed)} FAILED")
    return " and ".join(parts)


def reference_name(reference: str) -> str:
    """What results were compared with, as it reads in a sentence."""
    return {"numpy float64": "NumPy float64", "": "the float64 reference"}.get(reference, reference)
