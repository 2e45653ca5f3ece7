"""MetaSchedule (Shao et al., NeurIPS 2022), driven step by step: its space, mutators, evolution and features.

The loop around it is ours: TVM's own stops on a trial count only, starts a builder process per batch and repeats
candidates after a restart.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import KernelError
from ...kernels.build import tvm_target
from ...kernels.schedule import schedule_workload, trace_to_json, without_rule_hints
from ...kernels.tvm_errors import TVM_ERRORS, one_line
from ...store.record import Record, ScheduleSpec
from ...tvm_seam import register_dot_product_intrinsics, tvm, tvm_ffi
from ..analysis import inlined_size, structure
from ..cost_models import CostModel, Watch
from ..cost_models.xgboost import StoreFeatureModel
from ..interrupt import held_back
from ..task import Candidate, Task
from ._base import Strategy

logger = logging.getLogger(__name__)
ms = tvm.s_tir.meta_schedule

# TVM's own 2048 candidates and 4 generations take longer to search than to build and measure what they find.
POPULATION = 128
_LEAST_POPULATION = 16
_LARGE = 1000  # ``inlined_size`` from which on a candidate takes so long that fewer must do: 0.1 s at twice that
GENERATIONS = 2
BATCH = 16
_EMPTY_ROUNDS = 3  # rounds without a new candidate after which the space counts as exhausted


class MetaScheduleStrategy(Strategy):
    """Evolutionary search over MetaSchedule's default space for the target."""

    name: ClassVar[str] = "metaschedule"

    def __init__(
        self,
        task: Task,
        seed: int,
        history: Sequence[Record],
        *,
        population: int | None = None,
        generations: int = GENERATIONS,
    ) -> None:
        """See :class:`Strategy`. ``seed`` is any integer; TVM takes 1 to 2^31 - 1.

        ``population``: candidates of a generation; None for ``POPULATION``, or fewer for a program of long expressions.
        """
        self._task = task
        self._seen: set[int] = set()
        self._queue: list[Candidate] = []
        self._rejected: dict[str, int] = {}
        self._watch = Watch()
        self._exhausted = False
        try:
            with held_back():
                self._start(seed, population or population_for(task.workload.module), generations)
                self._learn(history)
        except TVM_ERRORS as error:
            reason = f"MetaSchedule's rules make no space of it ({one_line(error)})"
            raise KernelError(f"{reason}; the default schedule is used") from error

    @classmethod
    def serves(cls, task: Task) -> bool:
        """Its default rules abort on a second tiled reduction, and need something to take features of."""
        found = structure(task.workload.module)
        return not found.obstacle and found.contractions <= 1

    @classmethod
    def space(cls, task: Task) -> str:
        """See :class:`Strategy`."""
        population = population_for(task.workload.module)
        return f"default rules, population {population}, generations {GENERATIONS}, batch {BATCH}"

    def ask(self, n: int) -> list[Candidate]:
        """See :class:`Strategy`. Raises KernelError when TVM's search fails."""
        empty = 0
        while len(self._queue) < n and not self._exhausted:
            before = len(self._queue)
            self._generate()
            empty = empty + 1 if len(self._queue) == before else 0
            self._exhausted = self._exhausted or empty >= _EMPTY_ROUNDS
        asked, self._queue = self._queue[:n], self._queue[n:]
        return asked

    def tell(self, candidates: Sequence[Candidate], records: Sequence[Record]) -> None:
        """See :class:`Strategy`."""
        if not candidates:
            return
        handles = [candidate.handle for candidate in candidates]
        seconds = [record.median_s if record.status == "ok" else float("inf") for record in records]
        if self._model.trained:
            self._watch.look(self._model.predict(handles), seconds)
        results = [
            ms.runner.RunnerResult([time], None) if np.isfinite(time) else ms.runner.RunnerResult(None, "failed")
            for time in seconds
        ]
        with held_back():
            self._context.notify_runner_results(handles, results)
        self._update(handles, seconds)
        if self._watch.bad:
            self._model.rebuild()
            self._watch.rebuild()

    @property
    def watch(self) -> Watch | None:
        """See :class:`Strategy`."""
        return self._watch

    @property
    def rejected(self) -> dict[str, int]:
        """See :class:`Strategy`."""
        return dict(self._rejected)

    def close(self) -> None:
        """See :class:`Strategy`."""
        self._context.post_tuning()

    def _walk(self, population: int, generations: int) -> Any:
        """How TVM goes through the space."""
        return ms.search_strategy.EvolutionarySearch(
            population_size=population,
            init_measured_ratio=0.2,
            init_min_unmeasured=max(1, population // 8),
            genetic_num_iters=generations,
            genetic_mutate_prob=0.85,
            eps_greedy=0.05,
        )

    def _start(self, seed: int, population: int, generations: int) -> None:
        register_dot_product_intrinsics()
        self._context = ms.TuneContext(
            without_rule_hints(self._task.workload.module),
            target=tvm_target(self._task.target),
            space_generator="post-order-apply",
            search_strategy=self._walk(population, generations),
            num_threads=1,  # with more, the same seed gives another sequence each time
            rand_state=1 + seed % (2**31 - 2),
            task_name=self._task.workload.label,
        )
        self._model: CostModel = StoreFeatureModel(self._context, seed, warmup=BATCH)
        self._database = ms.database.MemoryDatabase()
        self._workload = self._database.commit_workload(self._context.mod)
        self._context.pre_tuning(
            max_trials=1 << 30,  # the budget is the caller's
            num_trials_per_iter=BATCH,
            design_spaces=self._context.generate_design_space(),
            database=self._database,
            cost_model=_bridge(self._model),
        )

    def _generate(self) -> None:
        """Puts the next round's new candidates into the queue."""
        try:
            with held_back():
                found = self._context.generate_measure_candidates()
        except TVM_ERRORS as error:
            raise KernelError(
                f"{self._task.workload.label}: MetaSchedule's search failed: {one_line(error)}"
            ) from error
        if found is None:
            self._exhausted = True
            return
        for handle in found:
            code = int(tvm_ffi.structural_hash(handle.sch.mod))
            if code in self._seen:
                continue
            self._seen.add(code)
            schedule = self._spec(handle)
            if schedule is not None:
                self._queue.append(Candidate(schedule, handle.sch.mod, handle))

    def _spec(self, handle: Any) -> ScheduleSpec | None:
        """The candidate's trace as JSON, if reading it back gives the same program; some traces of TVM do not."""
        spec = ScheduleSpec("trace", self.name, trace_to_json(handle.sch.trace))
        reason = unreadable(self._task, spec, handle.sch.mod)
        if reason is None:
            return spec
        logger.warning("%s: a candidate is left out: %s", self._task.workload.label, reason)
        self._rejected["invalid"] = self._rejected.get("invalid", 0) + 1
        return None

    def _learn(self, history: Sequence[Record]) -> None:
        """Replays stored traces: none is asked again, and those that worked seed population and model."""
        handles, seconds = [], []
        with tvm_target(self._task.target):
            for record in history:
                if record.schedule.kind != "trace":
                    continue
                schedule = tvm.s_tir.Schedule(self._context.mod)
                try:
                    tvm.s_tir.schedule.Trace.apply_json_to_schedule(record.schedule.data, schedule)
                except TVM_ERRORS as error:
                    logger.warning("%s: a stored trace is left out: %s", self._task.workload.label, one_line(error))
                    continue
                self._seen.add(int(tvm_ffi.structural_hash(schedule.mod)))
                arguments = ms.arg_info.ArgInfo.from_entry_func(self._context.mod, remove_preproc=True)
                handles.append(ms.MeasureCandidate(schedule, arguments))
                seconds.append(record.median_s if record.status == "ok" else float("inf"))
        if handles:
            self._update(handles, seconds)

    def _update(self, handles: Sequence[Any], seconds: Sequence[float]) -> None:
        self._model.update(handles, seconds)
        for handle, time in zip(handles, seconds, strict=True):
            if np.isfinite(time):
                target = tvm_target(self._task.target)
                record = ms.database.TuningRecord(handle.sch.trace, self._workload, [time], target, handle.args_info)
                self._database.commit_tuning_record(record)


def population_for(module: Any) -> int:
    """Candidates of a generation that take a bearable time to make."""
    size = inlined_size(module)
    return POPULATION if size <= _LARGE else max(_LEAST_POPULATION, POPULATION * _LARGE // size)


def unreadable(task: Task, spec: ScheduleSpec, module: Any) -> str | None:
    """Why a stored schedule would not give ``module`` back after JSON was written and read; None when it does.

    ``module`` None: any program will do that the trace can be applied to.
    """
    try:
        again = ScheduleSpec.from_json(json.loads(json.dumps(spec.to_json())))
        replayed = schedule_workload(task.workload, task.target, again)
    except (KernelError, TypeError, ValueError) as error:
        return f"its trace cannot be read back: {error}"
    if module is not None and not tvm_ffi.structural_equal(replayed, module):
        return "its trace read back gives another program"
    return None


def _bridge(model: CostModel) -> Any:
    """The model as TVM's search calls it: only for predictions, since ``tell`` does the learning."""

    @tvm.ir.utils.derived_object
    class Bridge(ms.cost_model.PyCostModel):  # type: ignore[misc, name-defined]
        def load(self, path: str) -> None:
            raise NotImplementedError("records are kept in the store, models are not")

        def save(self, path: str) -> None:
            raise NotImplementedError("records are kept in the store, models are not")

        def update(self, context: Any, candidates: Any, results: Any) -> None:
            raise NotImplementedError("the strategy's tell does this")

        def predict(self, context: Any, candidates: Any) -> np.ndarray:
            return model.predict(list(candidates))

    return Bridge()
