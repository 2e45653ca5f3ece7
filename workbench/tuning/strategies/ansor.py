"""Ansor (Zheng et al., OSDI 2020) on TVM's traces: its sketch rules, random annotation and evolution.

Sketches come from the paper's rules in its order: skip, inline always, reduction factorisation, multi-level tiling
"SSRSRS" with fusion of the consumer or a cache stage. Annotations (tile sizes, where to compute, parallel, vectorised
and unrolled loops) are drawn at random. The evolution is our own: genes are the decisions of a sketch's trace; mutation
moves factors between the levels of a tile or draws a decision again; crossover is node-based, so that all decisions
about one block come from one parent, mostly the one that the cost model finds faster. A part of every batch is picked
at random (epsilon-greedy).
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...errors import KernelError
from ...kernels.build import tvm_target
from ...kernels.schedule import trace_to_json, without_rule_hints
from ...kernels.tvm_errors import TVM_ERRORS, one_line
from ...store.record import Record, ScheduleSpec
from ...tvm_seam import register_dot_product_intrinsics, tvm, tvm_ffi
from ..cost_models import Watch
from ..cost_models.xgboost import StoreFeatureModel
from ..interrupt import held_back
from ..task import Candidate, Task
from ._base import Strategy
from .metaschedule import MetaScheduleStrategy, population_for, unreadable

logger = logging.getLogger(__name__)
ms = tvm.s_tir.meta_schedule

# A member takes 8 ms to make in Python, so there are fewer than in MetaSchedule's population.
GENERATIONS = 2
BATCH = 16
MUTATED = 0.85  # of the children; the others are crossed
EPSILON = 0.05  # of a batch is random
_ATTEMPTS = 8  # draws for one member of the population
_EMPTY_ROUNDS = 3
Genes = tuple[int, tuple[Any, ...]]  # sketch, and its decisions in order of instruction; None: to be drawn


@dataclass(frozen=True, eq=False)
class _Member:
    """A candidate of the population that its sketch's trace and the post-processors accepted."""

    genes: Genes
    schedule: Any
    handle: Any
    code: int


class AnsorStrategy(Strategy):
    """Sketches, random annotation, and evolution against the cost model."""

    name: ClassVar[str] = "ansor"

    def __init__(self, task: Task, seed: int, history: Sequence[Record]) -> None:
        """See :class:`Strategy`."""
        self._task = task
        self._random = random.Random(seed)
        self._seen: set[int] = set()
        self._rejected: dict[str, int] = {}
        self._watch = Watch()
        self._best: list[tuple[float, Genes]] = []
        self._population = population_for(task.workload.module) // 2
        try:
            with held_back():
                self._start(seed)
                self._learn(history)
        except TVM_ERRORS as error:
            reason = f"Ansor's rules make no sketch of it ({one_line(error)})"
            raise KernelError(f"{reason}; the default schedule is used") from error

    @classmethod
    def serves(cls, task: Task) -> bool:
        """As MetaSchedule: a second tiled reduction has no sketch."""
        return MetaScheduleStrategy.serves(task)

    @classmethod
    def space(cls, task: Task) -> str:
        """See :class:`Strategy`."""
        population = population_for(task.workload.module) // 2
        return f"sketch rules, population {population}, generations {GENERATIONS}, batch {BATCH}"

    def ask(self, n: int) -> list[Candidate]:
        """See :class:`Strategy`. Raises KernelError when TVM cannot apply any trace."""
        asked: list[Candidate] = []
        empty = 0
        while len(asked) < n and empty < _EMPTY_ROUNDS:
            try:
                with held_back():
                    picked = self._pick(self._evolve(), n - len(asked))
            except TVM_ERRORS as error:
                raise KernelError(f"{self._task.workload.label}: the evolution failed: {one_line(error)}") from error
            new = [made for made in map(self._candidate, picked) if made is not None]
            empty = 0 if new else empty + 1
            asked += new
        return asked

    def tell(self, candidates: Sequence[Candidate], records: Sequence[Record]) -> None:
        """See :class:`Strategy`."""
        if not candidates:
            return
        members: list[_Member] = [candidate.handle for candidate in candidates]
        seconds = [record.median_s if record.status == "ok" else math.inf for record in records]
        handles = [member.handle for member in members]
        if self._model.trained:
            self._watch.look(self._model.predict(handles), seconds)
        self._model.update(handles, seconds)
        if self._watch.bad:
            self._model.rebuild()
            self._watch.rebuild()
        self._best += [(time, one.genes) for time, one in zip(seconds, members, strict=True) if math.isfinite(time)]
        self._best = sorted(self._best, key=lambda pair: pair[0])[: self._population // 4]

    @property
    def watch(self) -> Watch | None:
        """See :class:`Strategy`."""
        return self._watch

    @property
    def rejected(self) -> dict[str, int]:
        """See :class:`Strategy`."""
        return dict(self._rejected)

    # Sketches and their annotation ---------------------------------------------------------------------------------

    def _start(self, seed: int) -> None:
        register_dot_product_intrinsics()
        self._module = without_rule_hints(self._task.workload.module)
        generator = ms.space_generator.PostOrderApply(
            sch_rules=sketch_rules(), postprocs=ms.postproc.Postproc.create("llvm"), mutator_probs={}
        )
        self._context = ms.TuneContext(
            self._module,
            target=tvm_target(self._task.target),
            space_generator=generator,
            search_strategy="replay-trace",
            num_threads=1,
            rand_state=1 + seed % (2**31 - 2),
            task_name=self._task.workload.label,
        )
        self._model = StoreFeatureModel(self._context, seed, warmup=BATCH)
        self._arguments = ms.arg_info.ArgInfo.from_entry_func(self._module, remove_preproc=True)
        self._sketches = [
            space.trace.simplified(remove_postproc=True) for space in self._context.generate_design_space()
        ]
        self._genes = [sampled(trace) for trace in self._sketches]
        self._nodes = [[node_of(trace, instruction) for instruction in genes] for trace, genes in self._pairs()]

    def _pairs(self) -> list[tuple[Any, list[Any]]]:
        return list(zip(self._sketches, self._genes, strict=True))

    def _annotate(self, genes: Genes) -> _Member | None:
        """The sketch with these decisions, those that are None drawn; None where it does not apply."""
        trace, instructions = self._sketches[genes[0]], self._genes[genes[0]]
        fixed = {one: value for one, value in zip(instructions, genes[1], strict=True) if value is not None}
        schedule = tvm.s_tir.Schedule(self._module, seed=self._random.randrange(1, 2**31 - 1))
        try:
            tvm.s_tir.schedule.Trace(trace.insts, fixed).apply_to_schedule(schedule, remove_postproc=True)
        except TVM_ERRORS:
            return None
        made = tuple(_plain(schedule.trace.get_decision(one)) for one in sampled(schedule.trace))
        if not all(post.apply(schedule) for post in self._context.space_generator.postprocs):
            return None
        code = int(tvm_ffi.structural_hash(schedule.mod))
        return _Member((genes[0], made), schedule, ms.MeasureCandidate(schedule, self._arguments), code)

    def _draw(self) -> _Member | None:
        for _ in range(_ATTEMPTS):
            sketch = self._random.randrange(len(self._sketches))
            found = self._annotate((sketch, (None,) * len(self._genes[sketch])))
            if found is not None:
                return found
        return None

    # Evolution -----------------------------------------------------------------------------------------------------

    def _evolve(self) -> list[_Member]:
        """The population after some generations, best score first, none of it measured before."""
        known = [made for _, genes in self._best if (made := self._annotate(genes)) is not None]
        fresh = [made for _ in range(self._population - len(known)) if (made := self._draw()) is not None]
        members = {member.code: member for member in (*known, *fresh)}
        if not members:
            return []
        for _ in range(GENERATIONS if self._model.trained else 0):
            parents = list(members.values())
            scores = self._model.predict([parent.handle for parent in parents])
            weights = (scores - scores.min() + 1e-3).tolist()
            for _ in range(self._population // 2):
                child = self._child(parents, scores, weights)
                if child is not None:
                    members.setdefault(child.code, child)
            members = self._fittest(members)
        return [member for member in self._fittest(members).values() if member.code not in self._seen]

    def _fittest(self, members: Mapping[int, _Member]) -> dict[int, _Member]:
        found = list(members.values())
        order = np.argsort(-self._model.predict([member.handle for member in found]), kind="stable")
        return {found[index].code: found[index] for index in order[: 2 * self._population]}

    def _child(self, parents: Sequence[_Member], scores: np.ndarray, weights: Sequence[float]) -> _Member | None:
        index = self._random.choices(range(len(parents)), weights)[0]
        first = parents[index]
        others = [i for i, parent in enumerate(parents) if parent.genes[0] == first.genes[0] and i != index]
        if others and self._random.random() > MUTATED:
            other = self._random.choices(others, [weights[i] for i in others])[0]
            better, worse = (first, parents[other]) if scores[index] >= scores[other] else (parents[other], first)
            return self._annotate(self._cross(better.genes, worse.genes))
        return self._annotate(self._mutate(first.genes))

    def _cross(self, better: Genes, worse: Genes) -> Genes:
        """Node-based: the decisions about a block stay together; most come from the better parent."""
        nodes = self._nodes[better[0]]
        taken = {node: self._random.random() < 0.3 for node in dict.fromkeys(nodes)}
        pairs = zip(nodes, better[1], worse[1], strict=True)
        return better[0], tuple(b if taken[node] else a for node, a, b in pairs)

    def _mutate(self, genes: Genes) -> Genes:
        """One decision moved: a factor from one level of a tile to another, or anything else drawn again."""
        sketch, decisions = genes
        if not decisions:
            return genes
        place = self._random.randrange(len(decisions))
        changed = list(decisions)
        changed[place] = self._moved(decisions[place])
        return sketch, tuple(changed)

    def _moved(self, decision: Any) -> Any:
        if not isinstance(decision, list) or not any(extent > 1 for extent in decision):
            return None
        source = self._random.choice([i for i, extent in enumerate(decision) if extent > 1])
        target = self._random.choice([i for i in range(len(decision)) if i != source])
        factor = self._random.choice(_divisors(decision[source]))
        moved = list(decision)
        moved[source] //= factor
        moved[target] *= factor
        return moved

    def _pick(self, ranked: Sequence[_Member], n: int) -> list[_Member]:
        """The best, but for a part that is picked at random; all count as seen."""
        left, picked = list(ranked), list[_Member]()
        while left and len(picked) < n:
            index = self._random.randrange(len(left)) if self._random.random() < EPSILON else 0
            picked.append(left.pop(index))
        self._seen.update(member.code for member in picked)
        return picked

    def _candidate(self, member: _Member) -> Candidate | None:
        spec = ScheduleSpec("trace", self.name, trace_to_json(member.schedule.trace))
        reason = unreadable(self._task, spec, member.schedule.mod)
        if reason is None:
            return Candidate(spec, member.schedule.mod, member)
        logger.warning("%s: a candidate is left out: %s", self._task.workload.label, reason)
        self._rejected["invalid"] = self._rejected.get("invalid", 0) + 1
        return None

    def _learn(self, history: Sequence[Record]) -> None:
        """Stored traces, whoever found them, teach the model; none is asked again."""
        handles, seconds = [], []
        with tvm_target(self._task.target):
            for record in history:
                if record.schedule.kind != "trace":
                    continue
                schedule = tvm.s_tir.Schedule(self._module)
                try:
                    tvm.s_tir.schedule.Trace.apply_json_to_schedule(record.schedule.data, schedule)
                except TVM_ERRORS as error:
                    logger.warning("%s: a stored trace is left out: %s", self._task.workload.label, one_line(error))
                    continue
                self._seen.add(int(tvm_ffi.structural_hash(schedule.mod)))
                handles.append(ms.MeasureCandidate(schedule, self._arguments))
                seconds.append(record.median_s if record.status == "ok" else math.inf)
        if handles:
            self._model.update(handles, seconds)


def sketch_rules() -> list[Any]:
    """The paper's sketch rules (table 1) and annotations as TVM's rules, for a CPU."""
    rules = ms.schedule_rule
    return [
        rules.InlineConstantScalars(),
        rules.AutoInline(
            into_producer=False,
            into_consumer=True,
            inline_const_tensor=True,
            disallow_if_then_else=True,
            require_injective=True,
            require_ordered=True,
            disallow_op=["tirx.exp"],
        ),
        rules.AddRFactor(max_jobs_per_core=16, max_innermost_factor=64),
        rules.MultiLevelTiling(
            structure="SSRSRS",
            max_innermost_factor=64,
            reuse_write=rules.ReuseType(req="may", levels=[1, 2], scope="global"),
        ),
        rules.ParallelizeVectorizeUnroll(
            max_jobs_per_core=16, max_vectorize_extent=64, unroll_max_steps=[0, 16, 64, 512], unroll_explicit=True
        ),
        rules.RandomComputeLocation(),
    ]


def sampled(trace: Any) -> list[Any]:
    """The instructions of a trace that draw something, in order."""
    return [one for one in trace.insts if str(one.kind.name).startswith("Sample")]


def node_of(trace: Any, instruction: Any) -> str:
    """The name of the block that a sampling instruction is about; "" where the trace does not say."""
    made: dict[Any, str] = {}
    for one in trace.insts:
        kind = str(one.kind.name)
        names = [made[value] for value in one.inputs if value in made]
        name = str(one.attrs[0]) if kind == "GetSBlock" else names[0] if names else ""
        if one.same_as(instruction):
            return name
        made.update((output, name) for output in one.outputs)
    return ""


def _divisors(number: int) -> list[int]:
    return [factor for factor in range(2, number + 1) if number % factor == 0]


def _plain(decision: Any) -> Any:
    """A decision as Python's numbers: a list of factors, or one number."""
    if decision is None:
        return None
    if isinstance(decision, int):
        return decision
    if hasattr(decision, "value"):
        return int(decision.value)
    return [int(part) for part in decision]
