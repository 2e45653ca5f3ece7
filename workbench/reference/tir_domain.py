"""Iteration domains: loops as array axes, and a domain cut into pieces."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .dtypes import np_dtype
from .tir_expr import Affine

# Elements of the largest temporary array: 128 MiB of float64; a handful are alive at once.
PIECE = 1 << 24
# The same for element by element work, whose temporaries should stay in the cache.
ELEMENTWISE_PIECE = 1 << 17


@dataclass(frozen=True)
class Loop:
    """A loop variable and its range; an extent of -1 is not known."""

    var: Any
    start: int
    extent: int


class Vectorised:
    """Loops as array axes of a machine, for the duration of a ``with``."""

    def __init__(self, machine: Any, loops: Sequence[Loop]) -> None:
        self.machine, self.loops = machine, loops

    def __enter__(self) -> None:
        machine, rank = self.machine, len(self.loops)
        machine.shape = tuple(loop.extent for loop in self.loops)
        for axis, loop in enumerate(self.loops):
            place = [1] * rank
            place[axis] = loop.extent
            values = np.arange(loop.start, loop.start + loop.extent, dtype=np_dtype(str(loop.var.ty)))
            machine.env[loop.var] = values.reshape(place)
            machine.affine[loop.var] = Affine(loop.start, {axis: 1})

    def __exit__(self, *exc: object) -> None:
        machine = self.machine
        machine.shape, machine.mask = (), None
        machine.affine.clear()


def halves(loop: Loop) -> tuple[Loop, Loop]:
    """A loop cut in two."""
    first = loop.extent // 2
    return Loop(loop.var, loop.start, first), Loop(loop.var, loop.start + first, loop.extent - first)


def pieces(loops: Sequence[Loop], per_point: int, limit: int | None = None) -> Iterator[list[Loop]]:
    """The domain in pieces of at most ``limit`` points (``per_point`` of them for each point of the loops).

    The default is PIECE.
    """
    most = PIECE if limit is None else limit
    pending = [list(loops)]
    while pending:
        current = pending.pop()
        if math.prod(loop.extent for loop in current) * per_point <= most or all(n.extent <= 1 for n in current):
            yield current
            continue
        axis = next(i for i, loop in enumerate(current) if loop.extent > 1)
        pending.extend(reversed([[*current[:axis], half, *current[axis + 1 :]] for half in halves(current[axis])]))
