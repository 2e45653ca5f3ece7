"""What a tensor program is made of, as far as the choice of a search needs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..tvm_seam import tvm, tvm_ffi

_SPATIAL, _REDUCTION = 0, 2  # tvm.tirx.IterVar.DataPar, CommReduce


@dataclass(frozen=True)
class Structure:
    """``contractions``: reductions that read some input again for different outputs, as a matmul does.

    ``obstacle``: why no search can work on the program, or "".
    """

    contractions: int
    obstacle: str


def structure(module: Any) -> Structure:
    """Looks at the function ``main`` of an unscheduled module."""
    blocks: list[Any] = []
    loops: list[Any] = []
    body = module["main"].body
    tvm_ffi.structural_walk(body, [(tvm.s_tir.SBlock, blocks.append), (tvm.tirx.While, loops.append)])
    obstacles = ["it has a while loop"] if loops else []
    inner = [block for block in blocks if block.name_hint != "root"]
    if not obstacles:
        if not inner:
            obstacles.append("it has no blocks that a schedule could move")
        elif not any(block.reads for block in inner):
            obstacles.append("it reads nothing, so a cost model sees no features")
        elif any(not block.writes or not block.iter_vars for block in inner):
            obstacles.append("it has a block that does not say what it writes")
    return Structure(sum(_is_contraction(block) for block in inner), obstacles[0] if obstacles else "")


def inlined_size(module: Any) -> int:
    """Blocks of the function ``main`` times the most evaluations of blocks behind one element if all are inlined.

    The time of one of MetaSchedule's candidates grows with it: it inlines block after block, and looks at all of the
    expression each time. A reduction is inlined nowhere.
    """
    blocks: list[Any] = []
    tvm_ffi.structural_walk(module["main"].body, (tvm.s_tir.SBlock, blocks.append))
    behind: dict[Any, int] = {}  # by buffer
    most = 0
    for block in (block for block in blocks if block.name_hint != "root"):
        loads: list[Any] = []
        tvm_ffi.structural_walk(block.body, (tvm.ir.TensorLoad, loads.append))
        size = 1 + sum(behind.get(load.source, 0) for load in loads)
        most = max(most, size)
        reduces = any(int(axis.iter_type) == _REDUCTION for axis in block.iter_vars)
        behind.update((region.source, 1 if reduces else size) for region in block.writes)
    return len(blocks) * most


def _is_contraction(block: Any) -> bool:
    """MetaSchedule tiles such blocks at several levels: some read does not depend on every output axis."""
    axes = [axis for axis in block.iter_vars if int(axis.dom.extent) > 1]
    spatial = [axis.var for axis in axes if int(axis.iter_type) == _SPATIAL]
    if not any(int(axis.iter_type) == _REDUCTION for axis in axes):
        return False
    written = [region.source for region in block.writes]
    for region in block.reads:
        if any(region.source.same_as(buffer) for buffer in written):
            continue
        used: list[Any] = []
        for extent in region.region:
            tvm_ffi.structural_walk(extent.min, (tvm.tirx.Var, used.append))
        if any(not any(var.same_as(other) for other in used) for var in spatial):
            return True
    return False
