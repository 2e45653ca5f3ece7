"""From what stages measure and describe to the parts of documents: seconds become microseconds, NaN becomes null."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .document import (
    CheckPart,
    EnvironmentPart,
    IntervalRatio,
    IntervalUs,
    ModelPart,
    TargetPart,
    TensorPart,
    VariantPart,
)

if TYPE_CHECKING:  # types alone: reading and comparing stored runs must not pay for TVM
    from ..measure.measurement import VariantMeasurement
    from ..models import Model, TensorSpec
    from ..stats import Interval
    from ..targets import Target

US = 1e6  # microseconds in a second


def environment_part(environment: Mapping[str, Any]) -> EnvironmentPart:
    """Versions and the machine's state, as ``measure.environment`` gives them."""
    return EnvironmentPart(**{name: _plain(value) for name, value in environment.items()})


def finite(value: float | None) -> float | None:
    """The number, or None when there is none or it is NaN or infinite."""
    return float(value) if value is not None and math.isfinite(value) else None


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return finite(value)
    return tuple(value) if isinstance(value, list | set | frozenset) else value


def _tensors(specs: tuple[TensorSpec, ...]) -> tuple[TensorPart, ...]:
    return tuple(TensorPart(name=spec.name, shape=spec.shape, dtype=spec.dtype) for spec in specs)


def model_part(model: Model) -> ModelPart:
    """A model, and how its import was checked."""
    check = model.check
    return ModelPart(
        name=model.name,
        source=model.source,
        fingerprint=model.fingerprint,
        inputs=_tensors(model.inputs),
        outputs=_tensors(model.outputs),
        check=CheckPart(
            framework=check.framework,
            ok=check.ok,
            max_abs_error=finite(check.max_abs_error),
            message=check.message,
        ),
    )


def target_part(target: Target, nominal: Target | None = None) -> TargetPart:
    """A device; ``nominal``: the same before its peaks were measured."""
    return TargetPart(
        kind=target.kind,
        device=target.device,
        cores=target.cores,
        threads=target.threads,
        llvm=target.llvm,
        peak_gflops=target.peak_gflops,
        peak_gbps=target.peak_gbps,
        peaks_measured=target.peaks_measured,
        nominal_gflops=nominal.peak_gflops if nominal is not None else None,
        nominal_gbps=nominal.peak_gbps if nominal is not None else None,
        mcpu=target.mcpu,
        features=target.features,
        vector_bits=target.vector_bits,
        launch_us=target.launch_us,
        exact_math=target.exact_math,
        key=target.key,
    )


def interval_us(value: Interval | None) -> IntervalUs | None:
    """Seconds as microseconds."""
    if value is None:
        return None
    return IntervalUs(median=value.median * US, low=value.low * US, high=value.high * US, n=value.n)


def is_usable(one: VariantMeasurement) -> bool:
    """Whether it ran and was right."""
    return one.status == "ok" and one.correctness.correct


def _ratio_to_greedy(one: VariantMeasurement, greedy: VariantMeasurement | None) -> IntervalRatio | None:
    """Greedy's time over this one's; only where both ran in the same rounds."""
    from ..stats import enough_samples, paired_ratio

    if greedy is None or one is greedy or not one.tuned or not is_usable(one):
        return None
    if len(one.samples) != len(greedy.samples) or not enough_samples(one.samples):
        return None
    ratio = paired_ratio(greedy.samples, one.samples)
    return IntervalRatio(median=ratio.median, low=ratio.low, high=ratio.high)


def variant_part(one: VariantMeasurement, greedy: VariantMeasurement | None = None) -> VariantPart:
    """A variant; one that is wrong or failed has no time. ``greedy``: what else it is compared with."""
    ratio, right, usable, ran = one.ratio_to_unfused, one.correctness, is_usable(one), one.status != "failed"
    return VariantPart(
        name=one.name,
        tuned=one.tuned,
        kernels=one.kernels,
        intermediate_bytes=one.intermediate_bytes,
        latency_us=interval_us(one.latency) if usable else None,
        ratio_to_unfused=IntervalRatio(median=ratio.median, low=ratio.low, high=ratio.high)
        if usable and ratio is not None
        else None,
        ratio_to_greedy=_ratio_to_greedy(one, greedy),
        peak_fraction=_peak_fraction(one),
        max_abs_error=finite(right.max_abs_error) if ran else None,
        max_rel_error=finite(right.max_rel_error) if ran else None,
        error_ratio=finite(right.error_ratio) if ran else None,
        correct=right.correct and ran,
        status=one.status if right.correct or one.status == "failed" else "wrong",
        message=one.error or right.message,
        samples_us=tuple(sample * US for sample in one.samples) if usable else (),
    )


def _peak_fraction(one: VariantMeasurement) -> float | None:
    """Share of the roofline over all kernels: each kernel's share of its own roof, weighted by its time."""
    weights = [group.share for group in one.groups]
    fractions = [finite(group.peak_fraction) for group in one.groups]
    if not weights or sum(weights) <= 0:
        return None
    return sum(weight * (fraction or 0.0) for weight, fraction in zip(weights, fractions, strict=True)) / sum(weights)
