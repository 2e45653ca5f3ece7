"""Why each candidate became a kernel or did not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ...errors import IllegalGroup
from ...graph import Graph
from ..categories import (
    CYCLE,
    FORBIDDEN,
    FUSED,
    INSIDE,
    MEASURED_SLOWER,
    OUTBID,
    PINNED,
    RECOMPUTE,
    SIZE_LIMIT,
    SLOWER,
    TIE,
    UNSCHEDULED,
)
from ..cost_models import Prediction
from ..legality import check_partition
from ..matching import is_view
from ..plan import Decision, Verdict, duration
from ..profit import factors
from ._base import Unit
from ._edges import Edges, recompute_text
from ._pool import Nodes, Pool, Refused
from ._search import Item, cheapest_cover

TIED = 0.05  # predictions within this fraction of each other are no evidence
MEASURED_TIE = 0.03  # neither are measured times of kernels within this one
PARTIAL_NODES = 60  # operators up to which the best way to fuse a part is looked for
Bounds = tuple[float, float, float]  # seconds: median, low, high
Times = dict[str, Bounds]  # by form: "fused", "partial", "unfused"
Forms = dict[str, Sequence[Sequence[str]]]  # the kernels of each form


def decisions(pool: Pool, units: Sequence[Unit]) -> tuple[Decision, ...]:
    """One decision for every candidate, in the rules' order, and for every edge between groups."""
    context = _Context.of(pool, units)
    illegal = [_illegal(pool, one) for one in pool.refused]
    made = [context.candidate(unit) for unit in context.candidates()]
    return (*illegal, *made, *Edges(pool, units).decisions())


def verdict_of(fused: float, apart: float, tied: float) -> Verdict:
    """Whether one kernel is faster than several, slower, or within a fraction ``tied`` of them."""
    if abs(fused - apart) <= tied * max(fused, apart):
        return "tie"
    return "fuse" if fused < apart else "split"


def _illegal(pool: Pool, refused: Refused) -> Decision:
    one = refused.candidate
    wish = refused.category in (FORBIDDEN, SIZE_LIMIT, PINNED)
    return Decision(
        boundary="+".join(one.nodes), rule=one.rule, verdict="split", predicted_us={}, measured_us=None, factors=None,
        reason=f"{'' if wish else 'illegal: '}{refused.category}: {refused.detail}", nodes=one.nodes, kind=one.kind,
        rewrite=one.rewrite, category=refused.category,
    )  # fmt: skip


@dataclass(eq=False)
class _Context:
    """A finished partition, and what is asked about it again and again."""

    pool: Pool
    graph: Graph
    units: Sequence[Unit]
    owner: dict[str, Unit]
    chosen: dict[Nodes, Unit]
    by_node: dict[str, list[Unit]]

    @staticmethod
    def of(pool: Pool, units: Sequence[Unit]) -> _Context:
        by_node: dict[str, list[Unit]] = {}
        for unit in pool.units.values():
            for node in unit.nodes if len(unit.nodes) > 1 else ():
                by_node.setdefault(node, []).append(unit)
        owner = {node: unit for unit in units for node in unit.nodes}
        return _Context(pool, pool.graph, units, owner, {frozenset(u.nodes): u for u in units}, by_node)

    def candidates(self) -> Iterator[Unit]:
        """Units that rules proposed, and grown ones that were chosen."""
        for nodes, unit in self.pool.units.items():
            if len(nodes) > 1 and (nodes in self.pool.proposed or nodes in self.chosen):
                yield unit

    def candidate(self, unit: Unit) -> Decision:
        predicted, measured = self._predicted(unit), self._measured(unit)
        alone = self._alone(unit)
        expected = verdict_of(predicted["fused"][0], _best_apart(predicted), TIED)
        verdict, category, reason = self._settled(unit, predicted, measured)
        return Decision(
            boundary="+".join(unit.nodes),
            rule=unit.rule,
            verdict=verdict,
            predicted_us={name: times[0] * 1e6 for name, times in predicted.items()},
            measured_us={name: times[0] * 1e6 for name, times in alone.items()} or None,
            factors=factors(self.graph, unit.nodes, self.pool.problem.target),
            reason=reason,
            nodes=unit.nodes,
            kind=unit.kind,
            rewrite=unit.rewrite,
            category=category,
            predicted_range_us=_ranges(predicted),
            measured_range_us=_ranges(alone),
            expected=expected,
            measured_in="kernel" if measured else "",
            beside_us=self._beside(unit),
        )

    def _predicted(self, unit: Unit) -> Times:
        """What the model says of the forms inside the whole, whatever was measured."""
        pool = self.pool
        forms = self._forms(unit, lambda nodes: pool.prediction(nodes).seconds + pool.beside(nodes))
        return {name: self._bounds(parts, pool.prediction) for name, parts in forms.items()}

    def _beside(self, unit: Unit) -> dict[str, float]:
        pool = self.pool
        forms = self._forms(unit, lambda nodes: pool.prediction(nodes).seconds + pool.beside(nodes))
        return {name: 1e6 * sum(map(pool.beside, parts)) for name, parts in forms.items()}

    def _measured(self, unit: Unit) -> Times:
        """The same from measured times."""
        return {name: self._bounds(parts, self._sure) for name, parts in self._measured_forms(unit).items()}

    def _alone(self, unit: Unit) -> Times:
        """Measured times of the kernels by themselves."""
        forms = self._measured_forms(unit)
        return {name: _sums([self._sure(part) for part in parts]) for name, parts in forms.items()}

    def _measured_forms(self, unit: Unit) -> Forms:
        if self.pool.measured(unit.nodes) is None:
            return {}
        forms = self._forms(unit, self._measured_seconds)
        return {name: parts for name, parts in forms.items() if all(self._known(part) is not None for part in parts)}

    def _forms(self, unit: Unit, seconds: Callable[[Sequence[str]], float]) -> Forms:
        """Kernels of the unit as one, of the best way to fuse only parts of it, and of none fused."""
        forms: Forms = {"fused": [unit.nodes], "unfused": [(node,) for node in unit.nodes]}
        parts = self._partial(unit, seconds)
        return {"fused": forms["fused"], **({"partial": parts} if parts else {}), "unfused": forms["unfused"]}

    def _bounds(self, parts: Sequence[Sequence[str]], known: Callable[[Sequence[str]], Prediction]) -> Bounds:
        beside = sum(map(self.pool.beside, parts))
        seconds, low, high = _sums([known(part) for part in parts])
        return seconds + beside, low + beside, high + beside

    def _sure(self, nodes: Sequence[str]) -> Prediction:
        known = self._known(nodes)
        assert known is not None
        return known

    def _known(self, nodes: Sequence[str]) -> Prediction | None:
        """A measurement; a reshape on its own is no kernel, so its price is known without one."""
        found = self.pool.measured(nodes)
        if found is not None:
            return Prediction(found.seconds, found.low, found.high)
        view = is_view(self.graph, nodes)
        return self.pool.prediction(nodes) if view else None

    def _measured_seconds(self, nodes: Sequence[str]) -> float:
        known = self._known(nodes)
        return float("inf") if known is None else known.seconds + self.pool.beside(nodes)

    def _partial(self, unit: Unit, seconds: Callable[[Sequence[str]], float]) -> list[tuple[str, ...]]:
        """The best way found to make only parts of a unit kernels; empty when there is none that fuses anything."""
        if len(unit.nodes) > PARTIAL_NODES:
            return []
        whole = frozenset(unit.nodes)
        near = {frozenset(one.nodes): one for node in unit.nodes for one in self.by_node.get(node, ())}
        inside = [one.nodes for nodes, one in near.items() if nodes < whole]
        parts = [nodes for nodes in inside if seconds(nodes) < float("inf")]
        if not parts:
            return []
        place = {node: i for i, node in enumerate(unit.nodes)}
        sets = [*sorted(parts, key=lambda nodes: (-len(nodes), place[nodes[0]])), *((node,) for node in unit.nodes)]
        items = [Item(tuple(place[node] for node in nodes), (round(seconds(nodes), 12),)) for nodes in sets]
        cover = cheapest_cover(range(len(unit.nodes)), items, range(len(items)), width=64)
        chosen = [sets[index] for index in cover.chosen]
        return chosen if any(len(nodes) > 1 for nodes in chosen) else []

    def _settled(self, unit: Unit, predicted: Times, measured: Times) -> tuple[Verdict, str, str]:
        """Verdict, category and reason: by the partition that was chosen, with the evidence that there is."""
        pool, nodes = self.pool, frozenset(unit.nodes)
        if nodes in pool.pinned.values():
            return "fuse", PINNED, unit.reason
        failure = pool.failure(nodes)
        if failure is not None:
            return "split", UNSCHEDULED, f"no schedule for {unit.rule}: {failure}"
        sure = "fused" in measured and len(measured) > 1
        times, tied = (measured, MEASURED_TIE) if sure else (self._estimated(unit, predicted), TIED)
        fused, apart = times["fused"][0], _best_apart(times)
        said = verdict_of(fused, apart, tied)
        word = "measured" if sure else "estimated" if measured else "predicted"
        text = f"{word} {duration(fused)} fused, {duration(apart)} apart"
        if sure:
            text = self._measured_text(unit, fused, apart)
        if nodes in self.chosen:
            if said == "tie":
                return "tie", TIE, f"{unit.reason}; {text}: a tie, fewer kernels win"
            return "fuse", FUSED, f"{unit.reason}; {text}"
        holders = {self.owner[node] for node in unit.nodes}
        if len(holders) == 1:
            return "fuse", INSIDE, f"part of the larger group {_names([next(iter(holders))])}"
        if said != "fuse" and fused >= apart:
            return self._slower(unit, said, text, sure)
        return self._outbid(unit, text)

    def _measured_text(self, unit: Unit, fused: float, apart: float) -> str:
        """What the kernels took by themselves, and in the model where that decides otherwise."""
        alone = self._alone(unit)
        own, others = alone["fused"][0], _best_apart(alone)
        text = f"measured {duration(own)} fused, {duration(others)} apart"
        if verdict_of(own, others, MEASURED_TIE) == verdict_of(fused, apart, MEASURED_TIE):
            return text
        beside = "with what kernels cost in a model beside their own time"
        return f"{text}; {duration(fused)} and {duration(apart)} {beside}"

    def _estimated(self, unit: Unit, predicted: Times) -> Times:
        """Predictions brought to the scale of what was measured of the operators."""
        pool = self.pool
        scaled = {"fused": (pool.seconds(unit.nodes),) * 3, "unfused": (pool.apart(unit.nodes),) * 3}
        parts = self._partial(unit, pool.seconds) if "partial" in predicted else []
        return scaled | ({"partial": (sum(map(pool.seconds, parts)),) * 3} if parts else {})

    def _slower(self, unit: Unit, said: Verdict, text: str, sure: bool) -> tuple[Verdict, str, str]:
        repeated = "" if sure else recompute_text(self.graph, unit.nodes)
        text = f"{repeated}: {text}" if repeated else text
        if said == "tie":
            return "tie", TIE, f"{text}: a tie; operators stay apart"
        return "split", MEASURED_SLOWER if sure else RECOMPUTE if repeated else SLOWER, text

    def _outbid(self, unit: Unit, text: str) -> tuple[Verdict, str, str]:
        rivals = list(dict.fromkeys(self.owner[node] for node in unit.nodes if len(self.owner[node].nodes) > 1))
        if rivals:
            return "split", OUTBID, f"{text}; it overlaps {_names(rivals)}: together with the rest that is faster"
        rest = [one.nodes for one in self.units if frozenset(unit.nodes).isdisjoint(one.nodes)]
        try:
            check_partition(self.graph, [unit.nodes, *rest])
        except IllegalGroup as error:
            return "split", CYCLE, f"illegal: {error}; {text}"
        return "split", TIE, f"{text}: beside measurements an estimate has to promise more"


def _sums(parts: Sequence[Prediction]) -> Bounds:
    """Sums; the bounds as if all parts erred to the same side, since they share one model and one machine."""
    return sum(p.seconds for p in parts), sum(p.low for p in parts), sum(p.high for p in parts)


def _best_apart(times: Times) -> float:
    """The fastest known way that is not one kernel."""
    return min(seconds[0] for name, seconds in times.items() if name != "fused")


def _ranges(times: Times) -> dict[str, tuple[float, float]]:
    return {name: (low * 1e6, high * 1e6) for name, (_, low, high) in times.items()}


def _names(units: Sequence[Unit]) -> str:
    return ", ".join(f"{'+'.join(unit.nodes)} ({unit.rule})" for unit in units[:2])
