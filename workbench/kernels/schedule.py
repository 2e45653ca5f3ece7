"""How a stored schedule becomes a scheduled tensor program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import InputError, KernelError
from ..store.record import ScheduleSpec
from ..targets import Target
from ..tvm_seam import register_dot_product_intrinsics, tvm
from .default_schedule import default_schedule
from .tvm_errors import TVM_ERRORS, one_line
from .workload import Workload

_RULE_HINT = "schedule_rule"


def schedule_workload(workload: Workload, target: Target, spec: ScheduleSpec) -> Any:
    """The workload's module, scheduled as ``spec`` says; function ``main``, arguments as in ``workload.args``.

    Raises KernelError, with the reason on one line, when the schedule does not fit the workload.
    """
    kinds: dict[str, Callable[[Workload, Target, ScheduleSpec], Any]] = {
        "trace": _replay,
        "library": _from_library,
        "default": lambda *_: default_schedule(workload.module, target),
    }
    if spec.kind not in kinds:
        raise KernelError(f"{workload.label}: unknown kind of schedule '{spec.kind}'; known are {', '.join(kinds)}")
    try:
        return kinds[spec.kind](workload, target, spec)
    except (*TVM_ERRORS, InputError) as error:
        what = f"the {spec.kind} schedule '{spec.name}' cannot be applied"
        raise KernelError(f"{workload.label}: {what}: {one_line(error)}; tune again") from error


def _replay(workload: Workload, target: Target, spec: ScheduleSpec) -> Any:
    """A trace holds the post-processing of MetaSchedule as well, so that replaying it is all there is to do."""
    register_dot_product_intrinsics()
    with tvm.target.Target(target.tvm_dict()):
        schedule = tvm.s_tir.Schedule(without_rule_hints(workload.module))
        tvm.s_tir.schedule.Trace.apply_json_to_schedule(spec.data, schedule)
    return schedule.mod


def _from_library(workload: Workload, target: Target, spec: ScheduleSpec) -> Any:
    import schedules  # only kernels that use the library pay for loading it

    return schedules.get(spec.name).apply(workload, target, spec.data)


def without_rule_hints(module: Any) -> Any:
    """The module without TOPI's hints at hand-written rules, which TVM has for GPUs only and warns about elsewhere."""
    schedule = tvm.s_tir.Schedule(module)
    for block in schedule.get_child_blocks(schedule.get_sblock("root")):
        if _RULE_HINT in schedule.get(block).annotations:
            schedule.unannotate(block, _RULE_HINT)
    return schedule.mod


def trace_to_json(trace: Any) -> list[Any]:
    """A MetaSchedule trace as plain JSON, for ``ScheduleSpec.data``."""
    plain = _plain(trace.as_json())
    assert isinstance(plain, list)
    return plain


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, tvm.tirx.IntImm):
        return bool(value.value) if str(value.ty) == "bool" else int(value.value)
    if isinstance(value, tvm.tirx.FloatImm):
        return float(value.value)
    return [_plain(item) for item in value]
