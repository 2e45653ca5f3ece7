"""Measuring: the machine's peaks, correctness, and interleaved timing with intervals."""

from ..stats import Interval
from .check import ReferenceOutputs, check_outputs, reference_outputs
from .environment import environment
from .measurement import Correctness, GroupTime, VariantMeasurement
from .peaks import Peaks, probe
from .timing import Timings, time_interleaved
from .variants import VariantInput, measure_variants

__all__ = [
    "Correctness", "GroupTime", "Interval", "Peaks", "ReferenceOutputs", "Timings", "VariantInput",
    "VariantMeasurement", "check_outputs", "environment", "measure_variants", "probe", "reference_outputs",
    "time_interleaved",
]  # fmt: skip
