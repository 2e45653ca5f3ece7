"""Workloads and their schedules -> an executable, by way of the kernel cache."""

from __future__ import annotations

import time
from collections.abc import Mapping

from ..errors import KernelError
from ..models import Model
from ..store.record import ScheduleSpec
from ..targets import Target
from ..tvm_seam import tvm_version
from .assemble import assemble_program
from .build import build_kernel
from .cache import CacheReport
from .executable import Executable
from .kernel import Kernel, KernelCache
from .schedule import schedule_workload
from .workload import LoweredModel


def assemble(
    lowered: LoweredModel,
    model: Model,
    target: Target,
    kernels: Mapping[str, Kernel],
    cache_report: CacheReport = CacheReport(),  # noqa: B008  immutable
) -> Executable:
    """The executable of a lowered model and one kernel per workload key. Generates no code.

    Raises KernelError for a missing or failing kernel, SetupError without a linker.
    """
    assembled = assemble_program(lowered, target, kernels)
    return Executable(lowered.name, assembled, target, model, lowered.calls, cache_report)


def compile_model(
    lowered: LoweredModel,
    model: Model,
    target: Target,
    schedules: Mapping[str, ScheduleSpec],
    kernel_cache: KernelCache | None = None,
) -> tuple[Executable, CacheReport]:
    """Takes each workload's kernel from the cache, or builds it and puts it there; then assembles.

    ``schedules``: one per workload key. Raises KernelError for a workload without a schedule, or one whose schedule
    cannot be applied or built; SetupError without a linker.
    """
    kernels: dict[str, Kernel] = {}
    hits, builds, begin = 0, 0, time.perf_counter()
    for key, workload in lowered.workloads.items():
        spec = schedules.get(key)
        if spec is None:
            raise KernelError(f"{lowered.name}: no schedule was given for {workload.label}; give every workload one")
        kernel = kernel_cache.get(key, target.key, tvm_version(), spec) if kernel_cache is not None else None
        if kernel is not None:
            hits += 1
        else:
            kernel = build_kernel(workload, target, spec, schedule_workload(workload, target, spec))
            builds += 1
            if kernel_cache is not None:
                kernel_cache.put(kernel)
        kernels[key] = kernel
    report = CacheReport(hits, builds, time.perf_counter() - begin)
    return assemble(lowered, model, target, kernels, report), report
