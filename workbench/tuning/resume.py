"""What was measured of a task before, and which part of it is the very search that now starts again.

A search is a function of its task, strategy, seed, space and of the records that were there when it began. So a search
that was killed is not patched up: it runs again from its beginning and finds its own measurements in the store, which
takes no device. What it asks then, what its cost model learns and what it ends with are those of a search that nobody
killed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..store.record import Record


@dataclass(frozen=True)
class Past:
    """``basis``: trials of others that were there when the search began, which it learns from and never asks again.

    ``own``: the search's own trials, which answer for the device when it asks for them again. ``changed``: why an
    earlier search by the same strategy and seed is another one, or "".
    """

    basis: tuple[Record, ...]
    own: tuple[Record, ...]
    changed: str = ""


def look_back(records: Sequence[Record], strategy: str, seed: int, space: str) -> Past:
    """Parts the trials of a workload, which are in the order of their measurement.

    Trials of another space stay valid measurements of the workload, so they are learnt from; only the search is new.
    """
    same = [record for record in records if record.strategy == strategy and record.seed == seed]
    own = tuple(record for record in same if record.space == space)
    if not own:
        others = sum(record.space not in ("", space) for record in same)
        changed = ""
        if others:
            changed = (
                f"the space of strategy '{strategy}' has changed since {others} trials were made with seed {seed}: "
                "the search starts anew and learns from them"
            )
        return Past(tuple(records), (), changed)
    first = next(index for index, record in enumerate(records) if record is own[0])
    return Past(tuple(records[:first]), own)
