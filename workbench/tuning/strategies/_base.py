"""The ask/tell interface of every search strategy."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from ...store.record import Record
from ..cost_models.watch import Watch
from ..task import Candidate, Task


class Strategy(ABC):
    """Searches the schedules of one task."""

    name: ClassVar[str]

    @classmethod
    @abstractmethod
    def serves(cls, task: Task) -> bool:
        """Whether this strategy has a space for the task."""

    @classmethod
    def space(cls, task: Task) -> str:
        """What this strategy's space and the order of its search rest on, beside the task and TVM's version.

        Another text makes it another search, which does not go on where one with the old text was interrupted.
        """
        return ""

    @classmethod
    def fingerprint(cls, task: Task) -> str:
        """The strategy's name and :meth:`space` as 16 hexadecimal digits."""
        return hashlib.sha256(f"{cls.name}\n{cls.space(task)}".encode()).hexdigest()[:16]

    @abstractmethod
    def __init__(self, task: Task, seed: int, history: Sequence[Record]) -> None:
        """``history``: records of this workload from the store; they are learnt from, not measured again.

        Raises KernelError when the space cannot be made.
        """

    @abstractmethod
    def ask(self, n: int) -> list[Candidate]:
        """Up to ``n`` candidates, none measured before; empty when the space is exhausted."""

    @abstractmethod
    def tell(self, candidates: Sequence[Candidate], records: Sequence[Record]) -> None:
        """Results of candidates that this strategy gave out."""

    @property
    def watch(self) -> Watch | None:
        """How good the cost model was in each round; None without a model."""
        return None

    @property
    def rank_correlation(self) -> float | None:
        """Spearman correlation of the cost model with the last told measurements; None without a model."""
        last = None if self.watch is None else self.watch.last
        return None if last is None else last.correlation

    @property
    def rejected(self) -> dict[str, int]:
        """Candidates that were dropped before anybody built them: category -> number."""
        return {}

    def close(self) -> None:  # noqa: B027  most searches hold nothing
        """Frees what the search holds."""
