"""The build worker's side: one request, one shared library. Imported in worker processes only."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from ...errors import WorkbenchError
from ...kernels.build import build_kernel, link
from ...kernels.schedule import schedule_workload
from ...kernels.tvm_errors import TVM_ERRORS, one_line
from ...kernels.workload import Workload
from ...targets import Target
from ...tvm_seam import tvm
from ..messages import BuildAnswer, BuildRequest, TaskMessage

_tasks: dict[str, tuple[Workload, Target]] = {}


def handle(message: TaskMessage | BuildRequest) -> BuildAnswer | None:
    """Takes a task in (no answer that matters), or builds one candidate of a task sent before."""
    if isinstance(message, TaskMessage):
        workload = dataclasses.replace(message.workload, module=tvm.ir.load_json(message.module))
        _tasks.clear()  # a worker serves one task at a time
        _tasks[message.key] = (workload, message.target)
        return None
    workload, target = _tasks[message.key]
    try:
        return _build(workload, target, message)
    except WorkbenchError as error:
        return BuildAnswer(None, "build_error", str(error))
    except TVM_ERRORS as error:
        return BuildAnswer(None, "build_error", f"{workload.label}: {one_line(error)}")
    except (OSError, MemoryError) as error:
        return BuildAnswer(None, "build_error", f"{Path(message.library).parent}: {error}")


def _build(workload: Workload, target: Target, request: BuildRequest) -> BuildAnswer:
    if request.module is None:
        module = schedule_workload(workload, target, request.schedule)
    else:
        module = tvm.ir.load_json(request.module)
    kernel = build_kernel(workload, target, request.schedule, module)
    link([kernel], request.library)
    return BuildAnswer(kernel, "ok", "")
