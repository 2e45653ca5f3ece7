"""Measurements: what was timed, with an interval, and whether it was right."""

from __future__ import annotations

from dataclasses import dataclass

from ..stats import Interval


@dataclass(frozen=True)
class Correctness:
    """Outcome of the comparison with the float64 reference.

    ``error_ratio``: the variant's error over that of the same graph evaluated by NumPy in the model's own dtype
    (0 for an exact dtype). ``reference``: "numpy float64" or the source framework.
    """

    correct: bool
    max_abs_error: float
    max_rel_error: float
    error_ratio: float
    reference: str
    message: str = ""


@dataclass(frozen=True)
class GroupTime:
    """One kernel call's time inside the whole model."""

    group: str
    latency_s: float
    share: float  # of all kernel time
    gflops: float
    gbps: float
    arithmetic_intensity: float
    bound: str  # "memory" | "compute"
    peak_fraction: float  # of the roofline at this intensity


@dataclass(frozen=True)
class VariantMeasurement:
    """A way to run the model, timed interleaved with the others of the same run. Seconds."""

    name: str
    tuned: bool
    kernels: int  # launches per run
    intermediate_bytes: int
    correctness: Correctness
    latency: Interval | None  # None when the variant is wrong or failed
    ratio_to_unfused: Interval | None  # unfused / this: above 1 is faster
    groups: tuple[GroupTime, ...]
    samples: tuple[float, ...] = ()
    status: str = "ok"  # "ok" | "wrong" | "failed"
    error: str = ""
    stopped: str = ""  # why timing ended: "tight" | "time" | "rounds" | "interrupted"
