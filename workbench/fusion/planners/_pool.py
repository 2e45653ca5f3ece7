"""Every set of nodes that a plan may make one kernel, and what each costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ...errors import IllegalGroup
from ...graph import Graph
from ..categories import OVERLAP, PINNED
from ..constraints import Measured, refused_wish
from ..cost_models import Prediction
from ..handover import beside
from ..legality import check, check_candidate, check_partition
from ..matching import INJECTIVE_KINDS, is_renaming
from ..rules import Candidate, propose
from ..rules.elementwise_chain import ElementwiseChain
from ._base import Problem, Unit

MAX_JOINED = 50  # operators in a group that grew by joining neighbours
Nodes = frozenset[str]


@dataclass(frozen=True)
class Refused:
    """A proposed set that no plan may hold, and why."""

    candidate: Candidate
    category: str
    detail: str


class Pool:
    """Units by their nodes: single operators, legal candidates of the rules, and what grew out of those.

    Pins are the only units that hold their nodes. ``refused`` are the proposals that are illegal here.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.graph = problem, problem.graph
        self.units: dict[Nodes, Unit] = {}
        self.proposed: dict[Nodes, Candidate] = {}
        self.refused: list[Refused] = []
        self.pinned: dict[str, Nodes] = {}
        off = frozenset(problem.constraints.rules_off)
        self.rules = [rule for rule in problem.rules if rule.name not in off]
        self.extendable = {rule.name: rule.extendable for rule in self.rules}
        candidates = [candidate for rule in self.rules for candidate in propose(rule, self.graph)[0]]
        self._pin(candidates)
        for node in self.graph.nodes:
            if node.id not in self.pinned:
                self.units[frozenset((node.id,))] = Unit.single(node.id)
        for candidate in candidates:
            self._propose(candidate)
        for measured in problem.evidence.measured:
            ops = {self.graph.node(node).op for node in measured}
            rewrite = "decompose_batchnorm" if "nn.batch_norm" in ops else None  # as TVM's own fusion does it
            self._add(measured, "measured", "measured as a group of another variant", rewrite, len(measured))
        self._costs: dict[Nodes, Prediction] = {}
        self._beside: dict[Nodes, float] = {}
        self._holding: dict[str, list[Nodes]] = {}
        for measured in problem.evidence.measured:
            for name in measured:
                self._holding.setdefault(name, []).append(measured)
        self._measured_alone = frozenset(
            node.id
            for node in self.graph.nodes
            if frozenset((node.id,)) in problem.evidence.measured and not is_renaming(self.graph, node)
        )

    def _pin(self, candidates: Sequence[Candidate]) -> None:
        """A pin that is also a rule's candidate keeps the candidate's rewrite. Raises IllegalGroup, with the reason."""
        for pin in self.problem.constraints.pins:
            nodes = frozenset(pin)
            same = [c for c in candidates if frozenset(c.nodes) == nodes]
            candidate = same[0] if same else Candidate("pin", "horizontal", tuple(pin), "pinned by the user")
            try:
                check_candidate(self.graph, candidate)
                self._check_wishes(nodes, pin=True)
                taken = nodes.intersection(self.pinned)
                if taken:
                    other = "+".join(self.graph.order(self.pinned[min(taken)]))
                    raise IllegalGroup(OVERLAP, f"another pin holds {other}")
            except IllegalGroup as error:
                raise IllegalGroup(error.category, f"pin {'+'.join(pin)}: {error.detail}") from None
            self.pinned.update(dict.fromkeys(nodes, nodes))
            ordered = replace(candidate, nodes=self.graph.order(nodes), reason=f"pinned; {candidate.reason}")
            self.units[nodes] = Unit.of(ordered, extendable=False)
        if self.pinned:
            pins = list(dict.fromkeys(self.pinned.values()))
            rest = [(node.id,) for node in self.graph.nodes if node.id not in self.pinned]
            check_partition(self.graph, [*(self.graph.order(pin) for pin in pins), *rest])

    def _propose(self, proposed: Candidate) -> None:
        """Adds a candidate where it is legal and wanted; of equal sets the one of the earlier rule stays."""
        nodes = frozenset(proposed.nodes)
        try:
            check_candidate(self.graph, proposed)
            self._check_wishes(nodes)
        except IllegalGroup as error:
            self.refused.append(Refused(proposed, error.category, error.detail))
            return
        if len(nodes) > 1 and nodes not in self.proposed:
            candidate = replace(proposed, nodes=self.graph.order(nodes))
            self.proposed[nodes] = candidate
            self.units.setdefault(nodes, Unit.of(candidate, self.extendable.get(proposed.rule, True)))

    def _check_wishes(self, nodes: Nodes, pin: bool = False) -> None:
        constraints = self.problem.constraints
        refused = refused_wish(nodes, constraints.forbidden, constraints.max_nodes)
        if refused is not None:
            raise refused
        for node in nodes if not pin else ():
            held = self.pinned.get(node)
            if held is not None and held != nodes:
                raise IllegalGroup(PINNED, f"{node} is pinned to {'+'.join(self.graph.order(held))}")

    # What a kernel costs -------------------------------------------------------------------------------------------

    def predict(self, wanted: Iterable[Nodes]) -> None:
        """Asks the cost model for all that is not known yet, in one call."""
        new = [nodes for nodes in dict.fromkeys(wanted) if nodes not in self._costs]
        if new:
            ordered = [self.graph.order(nodes) for nodes in new]
            found = self.problem.model.predict(self.graph, ordered, self.problem.target)
            self._costs.update(zip(new, found, strict=True))

    def prediction(self, nodes: Iterable[str]) -> Prediction:
        """The model's prediction, whatever was measured."""
        key = frozenset(nodes)
        if key not in self._costs:
            self.predict([key])
        return self._costs[key]

    def measured(self, nodes: Iterable[str]) -> Measured | None:
        """What was measured of this very set of nodes."""
        return self.problem.evidence.measured.get(frozenset(nodes))

    def failure(self, nodes: Iterable[str]) -> str | None:
        """Why nothing schedules this set of nodes; None where something does, or nobody has tried."""
        return self.problem.evidence.failed.get(frozenset(nodes))

    def seconds(self, nodes: Iterable[str]) -> float:
        """Measured seconds; else the prediction, scaled by how the operators' own predictions compared.

        With what the kernel costs in the model beyond that, which neither of the two holds.
        """
        key = frozenset(nodes)
        known = self.measured(key)
        seconds = self.prediction(key).seconds * self._scale(key) if known is None else known.seconds
        return seconds + self.beside(key)

    def beside(self, nodes: Iterable[str]) -> float:
        """Seconds that a kernel takes in the model beyond its time alone."""
        key = frozenset(nodes)
        if key not in self._beside:
            self._beside[key] = beside(self.graph, key, self.problem.target)
        return self._beside[key]

    def _scale(self, nodes: Nodes) -> float:
        """How much longer the operators took on their own than predicted; else the measured sets that hold them."""
        if not self.problem.evidence.measured:
            return 1.0
        if not nodes.isdisjoint(self._measured_alone):
            sets = [frozenset((node,)) for node in self.graph.order(nodes.intersection(self._measured_alone))]
        else:
            sets = list(dict.fromkeys(one for node in self.graph.order(nodes) for one in self._holding.get(node, ())))
        predicted = sum(self.prediction(one).seconds for one in sets)
        return sum(self.problem.evidence.measured[one].seconds for one in sets) / predicted if predicted else 1.0

    def apart(self, nodes: Iterable[str]) -> float:
        """Seconds of every operator as a kernel of its own."""
        return sum(self.seconds((node,)) for node in self.graph.order(nodes))

    # What grows out of a partition -----------------------------------------------------------------------------------

    def grow(self, chosen: Sequence[Unit]) -> bool:
        """Adds sets that the rules did not propose but that a partition suggests; True when there is a new one.

        Elementwise units joined with a neighbour, and what a larger pattern left of an elementwise chain: this
        finishes what the elementwise rule began, so nothing grows when that rule is off.
        """
        if ElementwiseChain.name not in self.extendable:
            return False
        before = len(self.units)
        owner = {node: unit for unit in chosen for node in unit.nodes}
        for unit in chosen:
            if unit.extendable and self._only(unit.nodes, INJECTIVE_KINDS) and unit.nodes[0] not in self.pinned:
                for other in self._neighbours(unit, owner):
                    self._join(unit, other)
        for remainder in self._remainders(owner):
            self._add(remainder, "elementwise_chain", f"{len(remainder)} elementwise operators in one pass over memory")
        return len(self.units) > before

    def _neighbours(self, unit: Unit, owner: dict[str, Unit]) -> list[Unit]:
        graph = self.graph
        around = [n for node in unit.nodes for n in (*graph.predecessors(node), *graph.successors(node))]
        return list(dict.fromkeys(owner[n.id] for n in around if owner[n.id] is not unit))

    def _join(self, unit: Unit, other: Unit) -> None:
        """Both as one, where that is sensible; layout operators join elementwise units only."""
        if not other.extendable or other.nodes[0] in self.pinned:
            return
        pointwise = self._only(other.nodes, INJECTIVE_KINDS)
        if not pointwise and not self._only(unit.nodes, frozenset({"elementwise", "broadcast"})):
            return
        main = other if len(other.nodes) > 1 or not pointwise else unit
        nodes = frozenset((*unit.nodes, *other.nodes))
        if len(main.nodes) > 1:
            rule, reason = main.rule, main.reason
        else:
            rule = "elementwise_chain" if pointwise else "epilogue"
            reason = f"{'+'.join(self.graph.order(nodes))} in one pass over memory"
        self._add(nodes, rule, reason, other.rewrite or unit.rewrite)

    def _remainders(self, owner: dict[str, Unit]) -> Iterator[Nodes]:
        """Connected parts of elementwise candidates that lie outside the groups that took the rest of them."""
        for nodes, candidate in list(self.proposed.items()):
            if candidate.rule != ElementwiseChain.name:
                continue
            free = {node for node in nodes if len(owner[node].nodes) == 1 or nodes.issuperset(owner[node].nodes)}
            if len(free) < len(nodes):
                yield from _connected(self.graph, free)

    def _add(self, nodes: Nodes, rule: str, reason: str, rewrite: str | None = None, limit: int = MAX_JOINED) -> None:
        if nodes in self.units or not 1 < len(nodes) <= limit:
            return
        try:
            check(self.graph, nodes, "vertical", rewrite)
            self._check_wishes(nodes)
        except IllegalGroup:
            return
        self.units[nodes] = Unit(self.graph.order(nodes), rule, "vertical", reason, rewrite)

    def _only(self, nodes: Iterable[str], kinds: frozenset[str]) -> bool:
        return all(self.graph.node(node).kind in kinds for node in nodes)


def _connected(graph: Graph, nodes: set[str]) -> Iterator[Nodes]:
    left = set(nodes)
    for start in graph.order(nodes):
        if start not in left:
            continue
        left.remove(start)
        part, stack = {start}, [start]
        while stack:
            node = stack.pop()
            for other in (*graph.predecessors(node), *graph.successors(node)):
                if other.id in left:
                    left.remove(other.id)
                    part.add(other.id)
                    stack.append(other.id)
        yield frozenset(part)
