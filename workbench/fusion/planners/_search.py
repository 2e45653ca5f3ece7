"""The cheapest exact cover of a graph by candidate groups, acyclic when contracted. Pure: sets of integers and costs.

A partition is built in program order: the first node that is still open is always covered next, so only candidates
whose first node it is can follow, and what is left to know of a partial partition is which later nodes it has taken
already. Partial partitions that agree in that are one state of a dynamic programme, of which the cheapest survives.
Where the graph has narrow cuts the states are few and the result is exact; where a level has more than ``WIDTH``
states the most promising ones go on (beam search).

Groups that are legal one by one may still wait for each other. Such a cycle is found in a finished partition; one of
its groups cannot be in the answer, so the search branches on which (best first, Land and Doig 1960).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH = 2000  # states of one level that are kept
BRANCHES = 48  # partitions that are looked at for cycles before the cheapest repair is taken at each step

Cost = tuple[float, ...]  # compared in order; summed item by item
# How a state was reached: the candidate taken last, and the way before it.
Way = tuple[int, Any] | None
States = dict[int, tuple[Cost, Way]]


@dataclass(frozen=True)
class Item:
    """A candidate: node positions in ascending order, and what it costs."""

    nodes: tuple[int, ...]
    cost: Cost


@dataclass(frozen=True)
class Cover:
    """Chosen candidates by index, what they cost together, and whether nothing cheaper exists."""

    chosen: tuple[int, ...]
    cost: Cost
    exact: bool


def add(first: Cost, second: Cost) -> Cost:
    """Item by item."""
    return tuple(a + b for a, b in zip(first, second, strict=True))


def regions(count: int, items: Sequence[Item]) -> list[list[int]]:
    """Node positions that candidates tie together: each region is a problem of its own, but for cycles."""
    parent = list(range(count))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for item in items:
        first = root(item.nodes[0])
        for node in item.nodes[1:]:
            other = root(node)
            parent[max(first, other)] = first = min(first, other)
    found: dict[int, list[int]] = {}
    for node in range(count):
        found.setdefault(root(node), []).append(node)
    return list(found.values())


def cheapest_cover(nodes: Sequence[int], items: Sequence[Item], usable: Iterable[int], width: int = WIDTH) -> Cover:
    """The cheapest exact cover of ``nodes`` by the ``usable`` ones of ``items``.

    Every node must have a candidate of its own among them. On equal cost the candidate that comes first stays.
    """
    place = {node: i for i, node in enumerate(nodes)}
    starting: list[list[tuple[int, int]]] = [[] for _ in nodes]  # (candidate, its nodes as bits from its first on)
    share = [float("inf")] * len(nodes)
    for index in usable:
        at = [place[node] for node in items[index].nodes]
        starting[at[0]].append((index, sum(1 << (i - at[0]) for i in at)))
        for i in at:
            share[i] = min(share[i], items[index].cost[0] / len(at))
    zero: Cost = (0.0,) * len(items[starting[0][0][0]].cost) if nodes else ()
    # A state: bits of later nodes that are taken, relative to the level; with its cost and the way to it.
    levels: list[States] = [{} for _ in range(len(nodes) + 1)]
    levels[0][0] = (zero, None)
    exact = True
    for level in range(len(nodes)):
        states = levels[level]
        if len(states) > width:
            states, exact = _most_promising(states, share, level, width), False
        for taken, (cost, way) in states.items():
            for index, bits in starting[level]:
                if taken & bits:
                    continue
                after, ahead = (taken | bits) >> 1, 1
                while after & 1:
                    after, ahead = after >> 1, ahead + 1
                total = add(cost, items[index].cost)
                known = levels[level + ahead].get(after)
                if known is None or total < known[0]:
                    levels[level + ahead][after] = (total, (index, way))
        levels[level] = {}
    cost, way = levels[-1][0]
    chosen: list[int] = []
    while way is not None:
        index, way = way
        chosen.append(index)
    return Cover(tuple(reversed(chosen)), cost, exact)


def _most_promising(states: States, share: Sequence[float], level: int, width: int) -> States:
    """States by cost, less what the later nodes that they have taken would cost at the least."""

    def promise(state: tuple[int, tuple[Cost, Way]]) -> tuple[float, int]:
        taken, (cost, _) = state
        credit, at = 0.0, level
        while taken:
            if taken & 1:
                credit += share[at]
            taken, at = taken >> 1, at + 1
        return cost[0] - credit, state[0]

    return dict(heapq.nsmallest(width, states.items(), key=promise))


class PartitionSearch:
    """The cheapest acyclic cover of a whole graph. ``cycle`` gives indices of chosen items that wait for each other."""

    def __init__(self, count: int, items: Sequence[Item], cycle: Callable[[Sequence[int]], tuple[int, ...]]) -> None:
        self.items, self.cycle = items, cycle
        self.regions = regions(count, items)
        home = {node: i for i, region in enumerate(self.regions) for node in region}
        self.members: list[list[int]] = [[] for _ in self.regions]
        self.home = [home[item.nodes[0]] for item in items]
        for index, region in enumerate(self.home):
            self.members[region].append(index)
        self._solved: dict[tuple[int, frozenset[int]], Cover] = {}

    def run(self) -> Cover:
        """Best first over which candidates are left out; the first cover without a cycle is the cheapest one."""
        tried = 0
        order = 0
        start = self._cover(frozenset())
        heap: list[tuple[Cost, int, frozenset[int], Cover]] = [(start.cost, order, frozenset(), start)]
        seen = {frozenset[int]()}
        while True:
            _, _, banned, cover = heapq.heappop(heap)
            stuck = [i for i in self.cycle(cover.chosen) if len(self.items[i].nodes) > 1]
            if not stuck:
                return cover
            tried += 1
            if tried >= BRANCHES:
                heap.clear()
            further_ones = [banned | {index} for index in stuck]
            for further in further_ones if heap or not seen.issuperset(further_ones) else [banned.union(stuck)]:
                if further not in seen:
                    seen.add(further)
                    order += 1
                    found = self._cover(further)
                    exact = found.exact and tried < BRANCHES
                    heapq.heappush(heap, (found.cost, order, further, Cover(found.chosen, found.cost, exact)))

    def _cover(self, banned: frozenset[int]) -> Cover:
        chosen: list[int] = []
        cost: Cost = ()
        exact = True
        for region, members in enumerate(self.members):
            part = self._region(region, banned.intersection(members) if banned else banned)
            chosen += part.chosen
            cost = add(cost, part.cost) if cost else part.cost
            exact = exact and part.exact
        return Cover(tuple(chosen), cost, exact)

    def _region(self, region: int, banned: frozenset[int]) -> Cover:
        key = (region, banned)
        if key not in self._solved:
            usable = [index for index in self.members[region] if index not in banned]
            self._solved[key] = cheapest_cover(self.regions[region], self.items, usable)
        return self._solved[key]
