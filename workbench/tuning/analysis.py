"""What a tensor program is made of, as far as the choice of a search needs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..tvm_seam import tvm

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
    obstacles: list[str] = []

    def visit(node: Any) -> None:
        if isinstance(node, tvm.s_tir.SBlock):
            blocks.append(node)
        elif isinstance(node, tvm.tirx.While):
            obstacles.append("it has a while loop")

    tvm.tirx.stmt_functor.post_order_visit(module["main"].body, visit)
    inner = [block for block in blocks if block.name_hint != "root"]
    if not obstacles:
        if not inner:
            obstacles.append("it has no blocks that a schedule could move")
        elif not any(block.reads for block in inner):
            obstacles.append("it reads nothing, so a cost model sees no features")
        elif any(not block.writes or not block.iter_vars for block in inner):
            obstacles.append("it has a block that does not say what it writes")
    return Structure(sum(_is_contraction(block) for block in inner), obstacles[0] if obstacles else "")


def _is_contraction(block: Any) -> bool:
    """MetaSchedule tiles such blocks at several levels: some read does not depend on every output axis."""
    axes = [axis for axis in block.iter_vars if int(axis.dom.extent) > 1]
    spatial = [axis.var for axis in axes if int(axis.iter_type) == _SPATIAL]
    if not any(int(axis.iter_type) == _REDUCTION for axis in axes):
        return False
    written = [region.buffer for region in block.writes]
    for region in block.reads:
        if any(region.buffer.same_as(buffer) for buffer in written):
            continue
        used: list[Any] = []
        for extent in region.region:
            tvm.tirx.stmt_functor.post_order_visit(extent.min, used.append)
        if any(not any(var.same_as(other) for other in used) for var in spatial):
            return True
    return False
