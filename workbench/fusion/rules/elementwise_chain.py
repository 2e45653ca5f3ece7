"""Connected elementwise, broadcast and index-renaming operators become one loop nest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...graph import Graph, Node
from ..categories import ARGUMENTS, CYCLE, OPERATOR, OUTPUTS, SIZE_LIMIT
from ..legality import MAX_ARGUMENTS, MAX_OUTPUTS, Reachability
from ..matching import LAYOUT
from ._base import Candidate, Refusal, Rule

# One expression of more operators than this takes longer to compile than it saves: with decision-tree networks a
# depth near 50 was best, https://github.com/apache/tvm/pull/6327.
MAX_NODES = 50


def fusible(node: Node) -> bool:
    """Whether every output element is an expression of a few input elements."""
    return node.kind in ("elementwise", "broadcast") or node.op in LAYOUT or node.op in ("concat", "split", "take")


def widens(graph: Graph, producer: Node, consumer: Node) -> bool:
    """Whether the consumer reads each of the producer's elements more than once (a broadcast between the two)."""
    return graph.values[consumer.outputs[0]].size > graph.values[producer.outputs[0]].size and consumer.op != "concat"


def grow(graph: Graph, members: Iterable[Node], cut_at_broadcast: bool) -> list[tuple[str, ...]]:
    """Partition ``members`` into maximal connected convex groups, greedily in program order."""
    reach = Reachability.of(graph)
    allowed = {node.id for node in members}
    owner: dict[str, int] = {}
    groups: list[list[str]] = []
    for node in graph.nodes:
        if node.id not in allowed:
            continue
        near = [
            owner[p.id]
            for p in graph.predecessors(node.id)
            if p.id in owner and not (cut_at_broadcast and widens(graph, p, node))
        ]
        target = _join(graph, reach, groups, list(dict.fromkeys(near)), node.id)
        for member in groups[target]:
            owner[member] = target
    return [graph.order(frozenset(group)) for group in groups if len(group) > 1]


def _join(graph: Graph, reach: Reachability, groups: list[list[str]], near: list[int], node: str) -> int:
    """Put the node in one group with as many of its neighbours' groups as stays legal; the index of that group."""
    home: int | None = None
    for index in near:
        merged = [*groups[index], *(groups[home] if home is not None else [node])]
        if len(merged) > MAX_NODES or reach.between(merged) or not _fits(graph, merged):
            continue
        if home is not None:
            groups[index] = []
            groups[home] = merged
        else:
            home = index
            groups[index] = merged
    if home is None:
        groups.append([node])
        home = len(groups) - 1
    return home


def _fits(graph: Graph, members: list[str]) -> bool:
    group = frozenset(members)
    outputs = len(graph.group_outputs(group))
    tensors = sum(1 for name in graph.group_inputs(group) if graph.values[name].shape)
    return outputs <= MAX_OUTPUTS and outputs + tensors <= MAX_ARGUMENTS


class ElementwiseChain(Rule):
    """``relu(x + y) * z`` -> one kernel. Proposes whole groups, and the same cut where a thin result is broadcast."""

    name = "elementwise_chain"
    kind = "vertical"
    summary = "connected elementwise, broadcast and layout operators in one loop nest"

    example = """
        x: float32[1, 32, 32, 3]
        t: float32[32, 1]
        logs: float32[1, 32, 32, 3] = log(x)
        view: float32[32, 32, 3] = squeeze(logs){axis=(0,)}
        thin: float32[32, 1] = exp(t)
        thick: float32[32, 1] = tanh(thin)
        y: float32[32, 32, 3] = add(view, thick)
        return y"""

    def propose(self, graph: Graph) -> Iterator[Candidate | Refusal]:
        members = [node for node in graph.nodes if fusible(node)]
        pointwise = [node for node in members if node.kind in ("elementwise", "broadcast")]
        seen: set[tuple[str, ...]] = set()
        for pool, cut in ((members, False), (members, True), (pointwise, False), (pointwise, True)):
            for nodes in grow(graph, pool, cut):
                if nodes in seen or all(graph.node(n).kind == "injective" for n in nodes):
                    continue
                seen.add(nodes)
                where = ", cut where a thin result is broadcast" if cut else ""
                reason = f"{len(nodes)} elementwise operators in one pass over memory{where}"
                yield Candidate(self.name, self.kind, nodes, reason)
        yield from self._refusals(graph, grow(graph, members, False))

    def _refusals(self, graph: Graph, groups: list[tuple[str, ...]]) -> Iterator[Refusal]:
        """One for each edge at an elementwise operator that no chain holds."""
        owner = {node: index for index, group in enumerate(groups) for node in group}
        for node in graph.nodes:
            for user in graph.successors(node.id):
                if owner.get(node.id, -1) == owner.get(user.id, -2):
                    continue
                kinds = {node.kind, user.kind}
                if kinds.isdisjoint({"elementwise", "broadcast"}):
                    continue
                yield Refusal(self.name, (node.id, user.id), *_apart(graph, groups, owner, node, user))


def _apart(
    graph: Graph, groups: list[tuple[str, ...]], owner: dict[str, int], node: Node, user: Node
) -> tuple[str, str]:
    """Why two neighbours are in no chain together."""
    for end in (node, user):
        if not fusible(end):
            return OPERATOR, f"{end.op} ({end.id}) where elementwise, broadcast or layout is expected"
    ends = [groups[owner[end.id]] if end.id in owner else (end.id,) for end in (node, user)]
    merged = [*ends[0], *ends[1]]
    if between := Reachability.of(graph).between(merged):
        return CYCLE, f"{between[0]} lies on a path out of {'+'.join(ends[0][:3])} and into {'+'.join(ends[1][:3])}"
    if len(merged) > MAX_NODES:
        return SIZE_LIMIT, f"{len(merged)} operators, at most {MAX_NODES} are one chain"
    outputs = len(graph.group_outputs(merged))
    if outputs > MAX_OUTPUTS:
        return OUTPUTS, f"{outputs} values are read outside the group, at most {MAX_OUTPUTS} may be"
    return ARGUMENTS, f"more than {MAX_ARGUMENTS} tensor arguments"
