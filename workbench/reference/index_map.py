"""Where a TVM index map sends every element of a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np


def targets(index_map: Any, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[np.ndarray, ...]]:
    """The shape of the mapped tensor, and for every element of the original its index in it."""
    from .tir_expr import Evaluator

    new_shape = tuple(int(n) for n in index_map.map_shape(list(shape)))
    grids = np.indices(shape, sparse=True)
    evaluator = Evaluator("native", dict(zip(index_map.initial_indices, grids, strict=True)), {})
    index = tuple(np.broadcast_to(evaluator(e), shape) for e in index_map.final_indices)
    return new_shape, index
