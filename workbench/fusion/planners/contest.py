"""What would be worth measuring: groups that may be faster than the ones chosen, as far as predictions can tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...errors import IllegalGroup
from ...graph import Graph
from ..legality import check_partition
from ..plan import FusionPlan
from ._base import Problem, Unit, assemble
from ._pool import Nodes, Pool
from ._search import Item, cheapest_cover
from .predict import best_partition

MIN_GAIN = 0.5e-6  # seconds; less is within what a launch costs more or less
MIN_SHARE = 0.01  # of the groups in question
MAX_REGION = 80  # operators that a candidate and what it would break up may have together

Signature = tuple[object, ...]


@dataclass(frozen=True)
class Contest:
    """Equal kernels (repeated layers) that were not measured; ``value``: the most seconds that they may save."""

    units: tuple[Unit, ...]
    value: float


def contests(problem: Problem) -> tuple[Contest, ...]:
    """Candidates that would win if they were as fast as the low end of their prediction; the most valuable first."""
    pool = Pool(problem)
    chosen, _ = best_partition(pool)
    owner = {node: unit for unit in chosen for node in unit.nodes}
    holding: dict[str, list[Unit]] = {}
    for unit in pool.units.values():
        for node in unit.nodes:
            holding.setdefault(node, []).append(unit)
    found: dict[Signature, list[tuple[float, Unit]]] = {}
    for nodes, unit in pool.units.items():
        if len(nodes) < 2 or nodes in pool.pinned.values() or pool.measured(nodes) or pool.failure(nodes):
            continue
        value = _value(pool, unit, owner, holding)
        if value > 0:
            found.setdefault(_signature(pool.graph, unit), []).append((value, unit))
    ranked = [Contest(tuple(unit for _, unit in ones), sum(value for value, _ in ones)) for ones in found.values()]
    return tuple(sorted(ranked, key=lambda contest: -round(contest.value, 10)))


def _value(pool: Pool, unit: Unit, owner: dict[str, Unit], holding: dict[str, list[Unit]]) -> float:
    """Seconds saved if the unit's kernel took the low end of its prediction; 0 when that is not worth a look.

    It would replace the chosen groups that it overlaps; what is left of them is covered anew. A chosen group is worth
    nothing here, since it is tuned in any case.
    """
    broken = list(dict.fromkeys(owner[node] for node in unit.nodes))
    if broken == [unit]:
        return 0.0
    now = sum(pool.seconds(one.nodes) for one in broken)
    region = pool.graph.order({node for one in broken for node in one.nodes})
    if len(region) > MAX_REGION:
        return 0.0
    prediction = pool.prediction(unit.nodes)
    low = pool.seconds(unit.nodes) * prediction.low / max(prediction.seconds, 1e-12)
    left = [node for node in region if node not in unit.nodes]
    value = now - low - _cover_seconds(pool, left, holding)
    return value if value > max(MIN_GAIN, MIN_SHARE * now) else 0.0


def _cover_seconds(pool: Pool, nodes: Sequence[str], holding: dict[str, list[Unit]]) -> float:
    if not nodes:
        return 0.0
    place = {node: i for i, node in enumerate(nodes)}
    inside = {
        frozenset(one.nodes): one for node in nodes for one in holding[node] if all(n in place for n in one.nodes)
    }
    items = [
        Item(tuple(place[node] for node in one.nodes), (round(pool.seconds(one.nodes), 12),))
        for one in inside.values()
        if len(one.nodes) == 1 or pool.failure(one.nodes) is None
    ]
    return cheapest_cover(range(len(nodes)), items, range(len(items)), width=32).cost[0]


def _signature(graph: Graph, unit: Unit) -> Signature:
    """Equal for units of equal structure, which become one workload: operators, attributes, and who reads what."""
    names: dict[str, int] = {}
    parts: list[object] = [unit.rewrite]
    for node_id in unit.nodes:
        node = graph.node(node_id)
        attributes = tuple((key, str(value)) for key, value in sorted(node.attrs.items()))
        tensors = []
        for name in (*node.inputs, *node.outputs):
            value = graph.values[name]
            scalar = value.data.tobytes() if value.data is not None and not value.shape else None
            tensors.append((names.setdefault(name, len(names)), value.shape, value.dtype, scalar))
        parts.append((node.op, attributes, tuple(tensors)))
    return tuple(parts)


def alternative_plans(problem: Problem, contested: Iterable[Contest]) -> tuple[FusionPlan, ...]:
    """Plans that hold the contested units, each as often as it occurs, and nothing else that is fused.

    Units that overlap or would wait for each other lie in different plans.
    """
    graph = problem.graph
    packs: list[list[Unit]] = []
    for unit in (unit for contest in contested for unit in contest.units):
        home = next((pack for pack in packs if _fits(graph, [*pack, unit])), None)
        if home is None:
            packs.append([unit])
        else:
            home.append(unit)
    return tuple(_plan(problem, pack) for pack in packs)


def _fits(graph: Graph, units: Sequence[Unit]) -> bool:
    taken: set[str] = set()
    for unit in units:
        if not taken.isdisjoint(unit.nodes):
            return False
        taken.update(unit.nodes)
    rest = [(node.id,) for node in graph.nodes if node.id not in taken]
    try:
        check_partition(graph, [*(unit.nodes for unit in units), *rest])
    except IllegalGroup:
        return False
    return True


def _plan(problem: Problem, units: Sequence[Unit]) -> FusionPlan:
    return given_partition(problem, units, "contested", "measured to settle a close decision")


def given_partition(problem: Problem, units: Sequence[Unit], planner: str, reason: str) -> FusionPlan:
    """A plan of these units and, for all other nodes, single operators. Raises IllegalGroup where it cannot be."""
    graph = problem.graph
    taken: Nodes = frozenset(node for unit in units for node in unit.nodes)
    whole = [*units, *(Unit.single(node.id, reason) for node in graph.nodes if node.id not in taken)]
    predictions = problem.model.predict(graph, [unit.nodes for unit in whole], problem.target)
    seconds = {unit.nodes: one.seconds for unit, one in zip(whole, predictions, strict=True)}
    return assemble(problem, whole, seconds, planner, (), "")
