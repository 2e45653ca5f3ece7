"""The sum of a variant's kernels against the variant as a whole, in which they share caches and evict each other."""

from __future__ import annotations

from dataclasses import dataclass

from . import format as fmt
from .document import TaskPart, VariantPart
from .frames import measured_groups, task_of
from .run import Run


@dataclass(frozen=True)
class Gap:
    """Microseconds of a variant: the whole, and the sums over its kernels.

    ``inside_us``: each timed inside the whole model, which watching makes slower. ``alone_us``: each as the search
    measured it on its own; None where a kernel was never measured alone.
    """

    variant: str
    whole_us: float
    inside_us: float | None
    alone_us: float | None

    @property
    def ratio(self) -> float | None:
        """The whole over the sum of the kernels alone: above 1, the sum promises too much."""
        return self.whole_us / self.alone_us if self.alone_us else None

    @property
    def words(self) -> str:
        """ "8 % more than its kernels alone", or why that is not known."""
        if self.ratio is None:
            return "some kernel was not measured alone"
        share = fmt.percent(abs(self.ratio - 1))
        return f"{share} {'more' if self.ratio >= 1 else 'less'} than its kernels alone"


def gaps(run: Run) -> tuple[Gap, ...]:
    """A gap for each variant that was timed and whose kernels are known."""
    found = [_gap(run, one, one.latency_us.median) for one in run.variants if one.latency_us is not None]
    return tuple(gap for gap in found if gap.inside_us is not None or gap.alone_us is not None)


def _gap(run: Run, variant: VariantPart, whole_us: float) -> Gap:
    groups = measured_groups(run, variant.name)
    alone = [_alone(task_of(run, group.workload), variant.tuned) for group in groups]
    known = [us for us in alone if us is not None]
    inside = sum(group.latency_us for group in groups) if groups else None
    return Gap(variant.name, whole_us, inside, sum(known) if known and len(known) == len(groups) else None)


def _alone(task: TaskPart | None, tuned: bool) -> float | None:
    """What the search measured; the default schedule's time for a variant that is not tuned."""
    if task is None:
        return None
    return task.best_us if tuned and task.best_us is not None else task.default_us
