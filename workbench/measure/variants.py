"""Checks all variants of a model, then times the right ones against each other."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..stats import Interval, median, median_interval, paired_ratio
from ..targets import Target
from .check import ReferenceOutputs, check_outputs
from .measurement import Correctness, GroupTime, VariantMeasurement
from .roofline import group_time
from .timing import Clock, Timings, time_interleaved

if TYPE_CHECKING:
    from ..kernels.workload import KernelCall, LoweredModel

log = logging.getLogger(__name__)

BASE = "unfused"  # what every variant is compared with
PROFILE_SHARE = 0.1  # of the time for timing: what each variant's group times may take on top
PROFILE_REPEATS = (1, 30)


class Runnable(Protocol):
    """What is asked of an :class:`~workbench.kernels.Executable` here."""

    @property
    def calls(self) -> Sequence[KernelCall]:
        """Kernel calls of one run, in order."""

    def __call__(self, *arrays: np.ndarray) -> Any:
        """The output array, or a sequence of several."""

    def prepare(self, arrays: Sequence[np.ndarray]) -> Callable[[], None]:
        """A call that runs the model on buffers made before."""

    def profile(self, arrays: Sequence[np.ndarray], repeats: int) -> Sequence[Sequence[float]]:
        """Seconds of every kernel call, in order, ``repeats`` of them each."""


@dataclass(frozen=True, eq=False)
class VariantInput:
    """A way to run the model. ``executable`` is None where it could not be built; ``error`` then says why."""

    name: str
    tuned: bool
    executable: Runnable | None
    lowered: LoweredModel
    error: str = ""


@dataclass(frozen=True, eq=False)
class _Checked:
    """A variant after its check; ``status`` as in VariantMeasurement."""

    variant: VariantInput
    correctness: Correctness
    status: str
    error: str = ""
    run: Callable[[], None] | None = None  # prepared for timing; None unless the status is "ok"


def measure_variants(
    variants: Iterable[VariantInput],
    inputs: Sequence[np.ndarray],
    reference: ReferenceOutputs,
    target: Target,
    *,
    seconds: float,
    seed: int = 0,
    on_event: Callable[[str], None] | None = None,
    clock: Clock = time.perf_counter,
) -> tuple[VariantMeasurement, ...]:
    """Checks each variant against the reference, then times the right ones interleaved for about ``seconds``.

    A wrong or failing variant has a status that says so and is never timed. Variants that share one executable are
    timed once. Untuned variants are there for orientation and are timed in fewer rounds. ``on_event`` gets a line for
    each step.
    """
    tell = on_event or log.info
    checked = [_check(variant, inputs, reference) for variant in variants]
    for one in checked:
        tell(f"{one.variant.name}: {one.error or 'correct'}")
    twins = _twins([one.variant for one in checked])
    calls = {name: one.run for one in checked if one.run is not None and (name := one.variant.name) not in twins}
    slow = frozenset(one.variant.name for one in checked if not one.variant.tuned)
    timings = time_interleaved(calls, seconds=seconds, seed=seed, slow=slow, clock=clock)
    tell(f"timed {len(timings.samples)} variants in {timings.seconds:.1f} s")
    measured = {
        name: _measured(one, timings, inputs, target, seconds, seed)
        for one in checked
        if (name := one.variant.name) not in twins
    }
    return tuple(
        replace(as_variant(name, one.variant.lowered, measured[twins[name]]), tuned=one.variant.tuned)
        if (name := one.variant.name) in twins
        else measured[name]
        for one in checked
    )


def _twins(variants: Sequence[VariantInput]) -> dict[str, str]:
    """Variants that are the very executable of another one, by name; timing it twice could only show noise.

    A tuned variant stands for an untuned one and not the other way round: it is timed in every round.
    """
    first: dict[int, str] = {}
    twins: dict[str, str] = {}
    for variant in sorted(variants, key=lambda one: not one.tuned):
        if variant.executable is not None:
            name = first.setdefault(id(variant.executable), variant.name)
            if name != variant.name:
                twins[variant.name] = name
    return twins


def as_variant(name: str, lowered: LoweredModel, twin: VariantMeasurement) -> VariantMeasurement:
    """What was measured of a variant, under the name and with the groups of another that is the same program."""
    calls = lowered.calls if twin.groups else ()
    groups = tuple(replace(time, group=call.group) for time, call in zip(twin.groups, calls, strict=True))
    return replace(twin, name=name, groups=groups)


def _check(variant: VariantInput, inputs: Sequence[np.ndarray], reference: ReferenceOutputs) -> _Checked:
    """A kernel that raises, whatever it raises, costs its variant and not the run."""
    if variant.executable is None:
        return _failed(variant, reference, variant.error or "it could not be built")
    try:
        outputs = variant.executable(*inputs)
        run = variant.executable.prepare(inputs)
    except Exception as error:
        log.debug("%s failed", variant.name, exc_info=True)
        return _failed(variant, reference, _one_line(error))
    actual = [outputs] if isinstance(outputs, np.ndarray) else list(outputs)
    correctness = check_outputs(actual, reference.reference64, reference.native, reference.name)
    if correctness.correct:
        return _Checked(variant, correctness, "ok", run=run)
    return _Checked(variant, correctness, "wrong", f"wrong result: {correctness.message}")


def _failed(variant: VariantInput, reference: ReferenceOutputs, error: str) -> _Checked:
    unknown = Correctness(False, math.nan, math.nan, math.nan, reference.name, error)
    return _Checked(variant, unknown, "failed", error)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def _measured(
    one: _Checked, timings: Timings, inputs: Sequence[np.ndarray], target: Target, seconds: float, seed: int
) -> VariantMeasurement:
    name, status, error = one.variant.name, one.status, one.error
    launched = one.variant.executable or one.variant.lowered  # an executable does not count views as calls
    if name in timings.failed:
        status, error = "failed", _one_line(timings.failed[name])
    samples = timings.samples.get(name, ())
    latency = median_interval(samples, seed=seed) if samples else None
    return VariantMeasurement(
        name=name,
        tuned=one.variant.tuned,
        kernels=len(launched.calls),
        intermediate_bytes=one.variant.lowered.intermediate_bytes,
        correctness=one.correctness,
        latency=latency,
        ratio_to_unfused=_ratio(name, timings, seed),
        groups=_groups(one.variant, inputs, target, seconds, latency) if latency is not None else (),
        samples=samples,
        status=status,
        error=error,
        stopped=timings.stopped,
    )


def _ratio(name: str, timings: Timings, seed: int) -> Interval | None:
    """How many times as long `unfused` takes; None where one of the two was not timed."""
    if name not in timings.samples or BASE not in timings.samples:
        return None
    base, mine = timings.paired(BASE, name)
    return paired_ratio(base, mine, seed=seed) if mine else None


def _groups(
    variant: VariantInput, inputs: Sequence[np.ndarray], target: Target, seconds: float, latency: Interval
) -> tuple[GroupTime, ...]:
    """Kernel calls in order, each timed inside a run of the whole model, where caches are as the model leaves them."""
    assert variant.executable is not None
    least, most = PROFILE_REPEATS
    affordable = int(PROFILE_SHARE * seconds / latency.median)
    if not variant.tuned and affordable < least:
        return ()  # an untuned variant can take seconds a run, and nobody asks where
    repeats = min(most, max(least, affordable))
    try:
        times = variant.executable.profile(inputs, repeats)
    except Exception as error:
        log.warning("%s: its groups could not be timed: %s", variant.name, _one_line(error))
        return ()
    medians = [median(samples) for samples in times]
    calls = variant.executable.calls
    work = [variant.lowered.workloads[call.workload] for call in calls]
    return tuple(
        group_time(call.group, own, sum(medians), one.flops, one.bytes, target)
        for call, own, one in zip(calls, medians, work, strict=True)
    )
