"""How the main job is to be done, what must hold before it starts, and where its time goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ..errors import BudgetError, PlanError
from ..fusion import Constraints, FusionPlan, Rule
from ..fusion.cost_models import AnalyticCostModel, CostModel, choose
from ..kernels.build import find_linker
from ..measure import probe
from ..store import ScheduleSpec, Store
from ..targets import Target
from ..tuning import Budget
from ..tuning.strategies import AUTO, chooser
from ..tvm_seam import use_threads

DEFAULT_SCHEDULE = ScheduleSpec("default", "default", {})
UNTUNED = "unfused-untuned"
NO_CONSTRAINTS = Constraints()
COST_MODELS = ("auto", "analytic")


@dataclass(frozen=True)
class Settings:
    """How the main job is to be done. ``measure_s``: seconds for timing all variants, interleaved."""

    target: Target
    store: Store
    budget: Budget = field(default_factory=Budget)
    planner: str = "measure"
    rules: tuple[Rule, ...] | None = None
    plan: FusionPlan | None = None
    constraints: Constraints = NO_CONSTRAINTS
    objective: str = "latency"
    cost_model: str = "auto"  # "auto": the learned one where there is one for the target; or "analytic"
    model: CostModel | None = None  # what ``with_model`` made of the name; None: the analytic one
    jobs: int | None = None
    strategy: str = AUTO  # of the search, where it serves a task
    measure_s: float = 10.0
    command: str = ""

    def __post_init__(self) -> None:
        if self.cost_model not in COST_MODELS:
            known = ", ".join(COST_MODELS)
            raise PlanError(f"cost model '{self.cost_model}' is not known; give one of {known}")
        chooser(self.strategy)  # a name that is none is refused before anything starts
        if not 0 < self.measure_s < float("inf"):
            raise BudgetError(f"--measure-seconds {self.measure_s:g} is no time; give a number above 0")


@dataclass
class Timings:
    """Seconds spent in each stage of one job."""

    stages: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Adds the time of the block to the stage."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.stages[name] = self.stages.get(name, 0.0) + time.perf_counter() - begin


def with_model(settings: Settings) -> Settings:
    """The settings with the cost model that they name; the target must have its peaks."""
    named = settings.cost_model == "auto"
    return replace(settings, model=choose(settings.target, settings.store) if named else AnalyticCostModel())


def with_peaks(target: Target, store: Store) -> Target:
    """The target with the peaks that the store knows for it, measured now if it knows none.

    Planning rests on stored peaks, so that the same command makes the same plan again.
    """
    known = store.peaks(target.key)
    return probed(target, store) if known is None else target.with_peaks(*known)


def probed(target: Target, store: Store) -> Target:
    """The target with the highest peaks ever measured on it, now included: a busy machine shows too little."""
    peaks = probe(target)
    known = store.peaks(target.key) or (0.0, 0.0)
    best = (max(known[0], peaks.gflops), max(known[1], peaks.gbps))
    if best != known:
        store.set_peaks(target.key, *best)
    return target.with_peaks(*best)


def prepare(settings: Settings) -> None:
    """What must hold before anything is built or timed. Raises SetupError: no linker, or too few threads."""
    find_linker()
    use_threads(settings.target.threads)
