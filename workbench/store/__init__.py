"""The store: records, kernels, runs. Knows nothing of planning."""

from .record import MeasureSettings, Record, ScheduleSpec, Status

__all__ = ["MeasureSettings", "Record", "ScheduleSpec", "Status"]
