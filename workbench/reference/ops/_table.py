"""How an operator gets into the table.

An entry takes the input arrays in argument order and the node's attributes, and returns one array, or a list with one
array per item of the result. Arrays come in the dtype of the evaluation (float64, or the model's own); the evaluator
casts what is returned to the dtype of the node's output. Entries never write to their inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Attrs = Mapping[str, Any]
Entry = Callable[[Sequence[np.ndarray], Attrs], Any]

TABLE: dict[str, Entry] = {}


def operator(*names: str) -> Callable[[Entry], Entry]:
    """Enters a function into the table under Relax operator names (without ``relax.``)."""

    def enter(function: Entry) -> Entry:
        for name in names:
            TABLE[name] = function
        return function

    return enter


def axes_of(value: Any, rank: int) -> tuple[int, ...]:
    """Axes as non-negative numbers; ``None`` means all of them."""
    if value is None:
        return tuple(range(rank))
    given = (value,) if isinstance(value, int) else tuple(value)
    return tuple(int(a) % max(rank, 1) for a in given)


def along(vector: np.ndarray, axis: int, rank: int) -> np.ndarray:
    """A vector shaped so that it broadcasts along one axis of a tensor of this rank."""
    shape = [1] * rank
    shape[axis % rank] = vector.size
    return vector.reshape(shape)
