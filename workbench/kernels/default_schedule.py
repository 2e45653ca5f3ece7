"""The schedule that every tensor program can fall back to: no parameters, no search.

Per block, where legal: elementwise producers are inlined, outer spatial loops run in parallel, the spatial loop along
which the result is contiguous is vectorised, and the initialisation of a reduction leaves its loop::

    for i, j, k: C[i, j] += A[i, k] * B[k, j]
    ->  parallel i: for j0: (vector j1: C = 0); for k: vector j1: C[i, j0 * 16 + j1] += ...

A block for which TVM refuses a primitive keeps its loops as they are, so the result is right for any program.
"""

from __future__ import annotations

import logging
import math
from typing import Any

from ..targets import Target
from ..tvm_seam import tvm, tvm_ffi
from .tvm_errors import SCHEDULE_ERRORS, one_line

_log = logging.getLogger(__name__)

_SPATIAL, _REDUCTION = 0, 2  # tvm.tirx.IterVar.DataPar, CommReduce
# Below this many iterations, starting threads costs more than they save (a parallel region costs a few microseconds).
_SERIAL_WORK = 1 << 14
# Iterations of the parallel loop a thread should at least have, for balance.
_TASKS_PER_THREAD = 4
_MAX_INLINED_READS = 16


def default_schedule(module: Any, target: Target) -> Any:
    """The scheduled module of a module with the PrimFunc ``main``; the module itself is left alone."""
    try:
        schedule = tvm.s_tir.Schedule(module)
        root = schedule.get_sblock("root", func_name="main")
        names = [schedule.get(block).name_hint for block in schedule.get_child_blocks(root)]
    except SCHEDULE_ERRORS as error:
        _log.debug("no block structure, left as it is: %s", one_line(error))
        return module
    if len(set(names)) < len(names):
        _log.debug("blocks of equal names, left as they are")
        return module
    for name in names:
        schedule = _attempt(schedule, name, _inline)
    for name in [name for name in names if _exists(schedule, name)]:
        schedule = _attempt(schedule, name, lambda trial, block: _schedule_block(trial, block, target))
    return schedule.mod


def _attempt(schedule: Any, name: str, step: Any) -> Any:
    """The schedule after ``step``, or as it was where TVM refuses one of its primitives."""
    trial = schedule.copy()
    try:
        trial.work_on("main")
        step(trial, trial.get_sblock(name))
    except SCHEDULE_ERRORS as error:
        _log.debug("block %s stays as it is: %s", name, one_line(error))
        return schedule
    return trial


def _exists(schedule: Any, name: str) -> bool:
    root = schedule.get_sblock("root", func_name="main")
    return any(schedule.get(block).name_hint == name for block in schedule.get_child_blocks(root))


def _inline(schedule: Any, block: Any) -> None:
    """Computes an elementwise producer inside its consumers, unless that would repeat work."""
    statement = schedule.get(block)
    consumers = [schedule.get(consumer) for consumer in schedule.get_consumers(block)]
    if not consumers or not _is_spatial(statement) or _reads(statement) > _MAX_INLINED_READS:
        return
    # A reduction over a matrix product reads each element many times; one over rows reads it once.
    reread = any(not _is_spatial(consumer) and _points(consumer) > _points(statement) for consumer in consumers)
    costly = len(consumers) > 1 and _calls(statement) > 0  # exp computed twice costs more than it saves
    if not reread and not costly:
        schedule.compute_inline(block)


def _points(statement: Any) -> int:
    """Iterations of a block; a symbolic extent, which no operator here has, counts as one."""
    extents = [axis.dom.extent for axis in statement.iter_vars]
    return math.prod(int(extent) for extent in extents if isinstance(extent, tvm.tirx.IntImm))


def _is_spatial(statement: Any) -> bool:
    return statement.init is None and all(int(axis.iter_type) == _SPATIAL for axis in statement.iter_vars)


def _calls(statement: Any) -> int:
    found: list[Any] = []
    tvm_ffi.structural_walk(statement.body, (tvm.ir.Call, found.append))
    return len(found)


def _reads(statement: Any) -> int:
    found: list[Any] = []
    tvm_ffi.structural_walk(statement.body, (tvm.ir.expr.TensorLoad, found.append))
    return len(found)


def _schedule_block(schedule: Any, block: Any, target: Target) -> None:
    loops = schedule.get_loops(block)
    statement = schedule.get(block)
    if not loops or not _plain_nest(schedule, loops, statement):
        return
    axes = [int(axis.iter_type) for axis in statement.iter_vars]
    spatial = [loop for loop, axis in zip(loops, axes, strict=True) if axis == _SPATIAL]
    reduction = [loop for loop, axis in zip(loops, axes, strict=True) if axis == _REDUCTION]
    if len(spatial) + len(reduction) != len(loops) or not spatial:
        return
    work = math.prod(int(schedule.get(loop).extent) for loop in loops)
    inner = _vector_loop(schedule, loops, statement, spatial, target)
    outer = [loop for loop in spatial if loop is not inner]
    vector = []
    if inner is not None:
        lanes = _lanes(int(schedule.get(inner).extent), statement.body.buffer.dtype, target)
        rest, lane = schedule.split(inner, [None, lanes])
        outer.append(rest)
        vector = [lane]
    schedule.reorder(*outer, *reduction, *vector)
    if work >= _SERIAL_WORK:
        schedule.parallel(_outer_loop(schedule, outer, target))
    for lane in vector:
        schedule.vectorize(lane)
    if reduction and statement.init is not None:
        schedule.decompose_reduction(block, reduction[0])


def _plain_nest(schedule: Any, loops: list[Any], statement: Any) -> bool:
    """Whether the block's axes are its loops, one by one: true for all that comes from operators."""
    realize = schedule.get(loops[-1]).body
    if not isinstance(realize, tvm.s_tir.SBlockRealize) or len(realize.iter_values) != len(loops):
        return False
    variables = [schedule.get(loop).loop_var for loop in loops]
    static = all(isinstance(schedule.get(loop).extent, tvm.tirx.IntImm) for loop in loops)
    return static and all(a.same_as(b) for a, b in zip(realize.iter_values, variables, strict=True))


def _vector_loop(schedule: Any, loops: list[Any], statement: Any, spatial: list[Any], target: Target) -> Any | None:
    """The spatial loop along which the result is contiguous, when vectors fit into it."""
    if not isinstance(statement.body, tvm.tirx.BufferStore) or not statement.body.indices:
        return None
    last = statement.body.indices[-1]
    for loop, axis in zip(loops, statement.iter_vars, strict=True):
        if any(loop is item for item in spatial) and axis.var.same_as(last):
            extent = int(schedule.get(loop).extent)
            return loop if _lanes(extent, statement.body.buffer.dtype, target) >= 4 else None
    return None


def _lanes(extent: int, dtype: Any, target: Target) -> int:
    """The largest divisor of the extent that is at most two vectors wide: a remainder would need a branch."""
    bits = max(int(tvm.DataType(str(dtype)).bits), 8)
    limit = min(2 * target.vector_bits // bits, 64)
    return max(lanes for lanes in range(1, limit + 1) if extent % lanes == 0)


def _outer_loop(schedule: Any, loops: list[Any], target: Target) -> Any:
    """Leading loops fused until there is enough to share out; not more, since each fused loop costs divisions."""
    wanted = _TASKS_PER_THREAD * target.threads
    count, total = 0, 1
    while count < len(loops) and (count == 0 or total < wanted):
        total *= int(schedule.get(loops[count]).extent)
        count += 1
    return schedule.fuse(*loops[:count]) if count > 1 else loops[0]
