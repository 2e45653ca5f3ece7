"""The roofline model (Williams, Waterman and Patterson 2009, "Roofline", CACM 52): which peak bounds a kernel."""

from __future__ import annotations

from ..targets import Target
from .measurement import GroupTime


def group_time(
    group: str, seconds: float, total_seconds: float, flops: float, nbytes: float, target: Target
) -> GroupTime:
    """One kernel call's place under the roofline.

    ``flops`` and ``nbytes``: the workload's operations and least traffic (every argument once). ``total_seconds``: of
    all kernel calls. ``peak_fraction`` can pass 1 where the data stays in a cache, which is faster than the memory
    that the roofline is drawn for.
    """
    intensity = flops / nbytes if nbytes else float("inf")
    compute_bound = intensity >= target.peak_gflops / target.peak_gbps
    gflops, gbps = flops / seconds / 1e9, nbytes / seconds / 1e9
    return GroupTime(
        group=group,
        latency_s=seconds,
        share=seconds / total_seconds,
        gflops=gflops,
        gbps=gbps,
        arithmetic_intensity=intensity,
        bound="compute" if compute_bound else "memory",
        peak_fraction=gflops / target.peak_gflops if compute_bound else gbps / target.peak_gbps,
    )
