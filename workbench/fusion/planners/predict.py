"""The planner: of all partitions that the candidates allow, the one with the smallest predicted (or measured) cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..compile_time import compile_seconds
from ..constraints import Objective
from ..legality import contracted_order
from ..matching import is_view
from ..plan import FusionPlan
from ._base import Planner, Problem, Unit, assemble
from ._decisions import MEASURED_TIE, decisions
from ._pool import Pool
from ._search import Cost, Cover, Item, PartitionSearch

ROUNDS = 12  # of growing the pool around the partition found; a chain doubles its length each round
DIGITS = 12  # seconds are compared to the picosecond, so that sums in another order are equal
ESTIMATE_MARGIN = 0.10  # what an estimated group must promise over measured ones
NEVER = 1e9  # seconds of a kernel that nothing schedules


class PredictPlanner(Planner):
    """Searches all legal partitions of the rules' candidates; with evidence, measured times replace predicted ones."""

    name = "predict"

    def plan(self, problem: Problem) -> FusionPlan:
        pool = Pool(problem)
        units, cover = best_partition(pool)
        made = decisions(pool, units)
        seconds = {unit.nodes: pool.seconds(unit.nodes) for unit in units}
        return assemble(problem, units, seconds, self.name, made, "exact" if cover.exact else "beam")


def best_partition(pool: Pool) -> tuple[tuple[Unit, ...], Cover]:
    """The cheapest partition, with the pool grown around it until nothing new is cheaper."""
    units, cover = search(pool)
    for _ in range(ROUNDS):
        if not pool.grow(units):
            break
        better, found = search(pool)
        if not found.cost < cover.cost:
            cover = found
            break
        units, cover = better, found
    return units, cover


def search(pool: Pool) -> tuple[tuple[Unit, ...], Cover]:
    """The cheapest acyclic partition by the units of the pool."""
    graph = pool.graph
    position = {node.id: i for i, node in enumerate(graph.nodes)}
    # On equal cost the larger group wins, then the earlier rule: the order of the items breaks ties.
    units = sorted(pool.units.values(), key=lambda unit: -len(unit.nodes))
    pool.predict(frozenset(unit.nodes) for unit in units)
    items = [Item(tuple(position[node] for node in unit.nodes), cost(pool, unit)) for unit in units]

    def cycle(chosen: Sequence[int]) -> tuple[int, ...]:
        owner = {node: place for place, index in enumerate(chosen) for node in units[index].nodes}
        first = [items[index].nodes[0] for index in chosen]
        order = contracted_order(graph, owner, first)
        if len(order) == len(chosen):
            return ()
        stuck = set(range(len(chosen))).difference(order)
        return tuple(
            chosen[place]
            for place in _on_cycles(pool, [units[index] for index in chosen], stuck)
            if units[chosen[place]].nodes[0] not in pool.pinned
        )

    cover = PartitionSearch(len(graph.nodes), items, cycle).run()
    return tuple(units[index] for index in cover.chosen), cover


def _on_cycles(pool: Pool, chosen: Sequence[Unit], stuck: set[int]) -> list[int]:
    """The units of one cycle among those that wait for each other, found by walking back along what they wait for."""
    owner = {node: place for place in stuck for node in chosen[place].nodes}
    waits = {
        place: list(
            dict.fromkeys(
                owner[before.id]
                for node in chosen[place].nodes
                for before in pool.graph.predecessors(node)
                if before.id in owner and owner[before.id] != place
            )
        )
        for place in sorted(stuck)
    }
    walked: list[int] = []
    place = min(stuck)
    while place not in walked:
        walked.append(place)
        place = waits[place][0]
    return walked[walked.index(place) :]


def cost(pool: Pool, unit: Unit) -> Cost:
    """What a unit adds to the objective: first the objective's own figure, then seconds; fewer kernels break ties."""
    seconds = pool.seconds(unit.nodes) * _caution(pool, unit)
    if len(unit.nodes) > 1 and pool.failure(unit.nodes) is not None:
        seconds += NEVER
    return (*_FIRST[pool.problem.objective](pool, unit), round(seconds, DIGITS), 1.0)


def _caution(pool: Pool, unit: Unit) -> float:
    """Beside measurements: on a tie fewer kernels win, and a group that is only estimated has to promise more."""
    if len(unit.nodes) == 1 or not pool.problem.evidence.measured:
        return 1.0
    return 1.0 + ESTIMATE_MARGIN if pool.measured(unit.nodes) is None else 1.0 - MEASURED_TIE


def _memory(pool: Pool, unit: Unit) -> Cost:
    """Bytes that the kernel reads from and writes for other kernels."""
    graph = pool.graph
    read = [graph.values[n] for n in graph.group_inputs(unit.nodes) if graph.values[n].producer is not None]
    written = [graph.values[n] for n in graph.group_outputs(unit.nodes) if graph.users(n)]
    return (float(sum(value.bytes for value in (*read, *written))),)


def _kernels(pool: Pool, unit: Unit) -> Cost:
    free = is_view(pool.graph, unit.nodes)
    return (0.0 if free else 1.0,)


def _compile(pool: Pool, unit: Unit) -> Cost:
    kinds = [pool.graph.node(node).kind for node in unit.nodes]
    names = (*pool.graph.group_inputs(unit.nodes), *pool.graph.group_outputs(unit.nodes))
    arguments = sum(1 for name in names if pool.graph.values[name].shape)
    seconds = compile_seconds(len(kinds), kinds.count("contraction"), kinds.count("reduction"), arguments)
    return (round(seconds, 6),)


_FIRST: dict[Objective, Callable[[Pool, Unit], Cost]] = {
    "latency": lambda pool, unit: (),
    "memory": _memory,
    "kernels": _kernels,
    "compile": _compile,
}
