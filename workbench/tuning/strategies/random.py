"""MetaSchedule's space without a model: what a search must beat to be worth its name."""

from __future__ import annotations

from typing import Any, ClassVar

from ..cost_models import Watch
from ..task import Task
from .metaschedule import BATCH, MetaScheduleStrategy, ms

_FAILURES = 256  # draws in a row that a post-processor may refuse


class RandomStrategy(MetaScheduleStrategy):
    """Random draws from MetaSchedule's default space for the target."""

    name: ClassVar[str] = "random"

    @classmethod
    def space(cls, task: Task) -> str:
        """See :class:`Strategy`."""
        return f"default rules, batch {BATCH}"

    @property
    def watch(self) -> Watch | None:
        """None: no model chooses."""
        return None

    def _walk(self, population: int, generations: int) -> Any:
        return ms.search_strategy.ReplayTrace(max_fail_count=_FAILURES)
