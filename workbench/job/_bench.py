"""The variants of a model compiled, checked, timed, and what their times say about the plan."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import KernelError
from ..faces import Face
from ..fusion import FusionPlan, MeasuredGroup, adopt, combine, confirm
from ..kernels import CacheReport, Executable, LoweredModel, compile_model
from ..measure import ReferenceOutputs, VariantMeasurement, measure_variants
from ..measure.variants import VariantInput, as_variant
from ..models import Model
from ..stats import paired_ratio
from ..targets import Target
from ..tvm_seam import own_core
from ._planning import rewrite_of
from ._search import Tuned, partition, schedules
from ._settings import DEFAULT_SCHEDULE, UNTUNED, Settings, Timings


@dataclass(frozen=True)
class Bench:
    """What it takes to compile, check and time the variants of one model."""

    model: Model
    inputs: Sequence[np.ndarray]
    reference: ReferenceOutputs
    target: Target
    settings: Settings
    timings: Timings
    face: Face

    def measure(self, tuned: Tuned) -> tuple[tuple[VariantMeasurement, ...], CacheReport]:
        """Every variant compiled, checked against the reference, and timed interleaved with the others."""
        self.face.stage("compiling the variants")
        with self.timings.stage("compile"):
            executables, errors, cache = compile_variants(self.model, tuned, self.settings)
        self.face.stage(f"kernels: {cache.summary()}")
        self.face.stage("checking every variant against the reference, then timing them interleaved")
        with self.timings.stage("measure"), own_core():
            variants = measure_variants(
                _variant_inputs(tuned, executables, errors),
                self.inputs,
                self.reference,
                self.target,
                seconds=self.settings.measure_s,
                seed=self.settings.budget.seed,
            )
        return variants, cache


def compile_variants(
    model: Model, tuned: Tuned, settings: Settings
) -> tuple[dict[str, Executable], dict[str, str], CacheReport]:
    """One executable a variant, and `unfused-untuned`; a variant that cannot be built gives its error instead."""
    chosen = schedules(tuned.result)
    wanted = {name: (lowered, chosen) for name, lowered in tuned.variants.items()}
    if "unfused" in tuned.variants:
        wanted[UNTUNED] = (tuned.variants["unfused"], {})
    executables: dict[str, Executable] = {}
    errors: dict[str, str] = {}
    report = CacheReport()
    for name, (lowered, specs) in wanted.items():
        complete = {key: specs.get(key, DEFAULT_SCHEDULE) for key in lowered.workloads}
        try:
            made, part = compile_model(lowered, model, settings.target, complete, settings.store)
        except KernelError as error:
            errors[name] = str(error)
        else:
            # One object for one program: two timings of it would differ by where its buffers happen to lie.
            executables[name] = next((one for one in executables.values() if one.is_same_program(made)), made)
            if name != UNTUNED:
                report = report.merge(part)
    return executables, errors, report


def _variant_inputs(
    tuned: Tuned, executables: Mapping[str, Executable], errors: Mapping[str, str]
) -> Sequence[VariantInput]:
    inputs = []
    for name in (UNTUNED, "unfused", "greedy", "planned"):
        lowered = tuned.variants.get("unfused" if name == UNTUNED else name)
        if lowered is not None:
            inputs.append(
                VariantInput(
                    name=name,
                    tuned=name != UNTUNED,
                    executable=executables.get(name),
                    lowered=lowered,
                    error=errors.get(name, ""),
                )
            )
    return inputs


def settle(tuned: Tuned, variants: Sequence[VariantMeasurement], settings: Settings) -> FusionPlan | None:
    """The plan with the regions that another variant computed faster inside the whole model; None: nothing better.

    A plan that the caller gave, and one of an interrupted search, stay as they are.
    """
    if settings.plan is not None or not tuned.result.complete:
        return None
    inside = {one.name: _inside(tuned.variants[one.name], one) for one in variants if one.name in tuned.variants}
    if any(not groups for groups in inside.values()):
        return None
    own = {frozenset(group.nodes): group.seconds for group in inside.pop("planned")}
    better = combine(tuned.plan, settings.target, own, inside, model=settings.model)
    return None if partition(better) == partition(tuned.plan) else better


def follow_fastest(
    tuned: Tuned, variants: Sequence[VariantMeasurement], settings: Settings
) -> tuple[Tuned, tuple[VariantMeasurement, ...]]:
    """`planned` as the very program of `unfused` or `greedy` where that ran faster as a whole, beyond the interval.

    Sums of kernel times mislead: only whole runs say that the plan lost. A plan that the caller gave stays.
    """
    by_name = {one.name: one for one in variants}
    planned = by_name.get("planned")
    rivals = [by_name[name] for name in ("greedy", "unfused") if name in by_name]
    usable = [one for one in rivals if planned is not None and _slower(planned, one)]
    if settings.plan is not None or planned is None or not usable:
        return tuned, tuple(variants)
    best = min(usable, key=lambda one: one.latency.median if one.latency is not None else math.inf)
    groups = _inside(tuned.variants[best.name], best)
    if not groups:
        return tuned, tuple(variants)
    times = {one.name: one.latency.median for one in (planned, *rivals) if one.latency is not None}
    plan = adopt(tuned.plan, settings.target, best.name, groups, times, settings.model)
    lowered = tuned.variants[best.name]
    calls = tuple(replace(call, group=plan.group_of(call.nodes[0]).id) for call in lowered.calls)
    lowered = replace(lowered, name="planned", calls=calls)
    measured = tuple(as_variant("planned", lowered, best) if one.name == "planned" else one for one in variants)
    return replace(tuned, plan=plan, variants={**tuned.variants, "planned": lowered}), measured


def _slower(one: VariantMeasurement, other: VariantMeasurement) -> bool:
    """Whether one takes longer than the other beyond the interval of the ratio, in the rounds of one run."""
    if one.status != "ok" or other.status != "ok" or len(one.samples) != len(other.samples) or not one.samples:
        return False
    return paired_ratio(one.samples, other.samples).low > 1


def _inside(lowered: LoweredModel, measured: VariantMeasurement) -> list[MeasuredGroup]:
    """A right variant's kernels with their times inside the whole model; empty when there is no such list."""
    if measured.status != "ok" or len(measured.groups) != len(lowered.calls) or not all(c.nodes for c in lowered.calls):
        return []
    return [
        MeasuredGroup(call.nodes, time.latency_s, rewrite_of(call))
        for call, time in zip(lowered.calls, measured.groups, strict=True)
    ]


def confirmed(tuned: Tuned, variants: Sequence[VariantMeasurement]) -> Tuned:
    """The same, with the times of kernels inside the whole model in the plan's decisions."""
    inside = {one.name: _inside(tuned.variants[one.name], one) for one in variants if one.name in tuned.variants}
    return replace(tuned, plan=confirm(tuned.plan, inside)) if inside.get("unfused") else tuned
