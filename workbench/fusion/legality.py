"""What can be one kernel at all, whatever a rule proposes.

A set of nodes is legal when contracting it leaves the graph acyclic, when TVM can lower every operator and type in it,
and when the kernel's signature stays within what compiles in reasonable time. Values that are read outside a group
are legal: they become further outputs.
"""

from __future__ import annotations

import heapq
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from ..errors import IllegalGroup
from ..graph import Graph, Node
from .categories import (
    ARGUMENTS,
    CYCLE,
    DISCONNECTED,
    DTYPE,
    EMPTY,
    ESCAPES,
    OPAQUE,
    OUTPUTS,
    OVERLAP,
    RANK,
    REWRITE,
    UNCOVERED,
    UNKNOWN,
)

if TYPE_CHECKING:
    from .rules import Candidate

# LLVM code generation of TVM 0.27 handles these; float8, int4, strings and handles have no arithmetic on a CPU.
ALLOWED_DTYPES = frozenset(
    {"bool", "float16", "bfloat16", "float32", "float64"}
    | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
# Folding multiplies weights before they are rounded to the kernel's type; half precision would lose digits there.
REWRITE_DTYPES = {
    "decompose_batchnorm": frozenset({"float32"}),
    "fold_batchnorm": frozenset({"float32", "float64"}),
}
MAX_RANK = 8  # loops above this are not split or fused by any schedule here
MAX_ARGUMENTS = 32  # a concat of 500 inputs had not compiled after 40 s; scalars are inlined and do not count
MAX_OUTPUTS = 8


class Reachability:
    """Ancestors and descendants of every node as bit sets; O(nodes * edges / word) once a graph.

    Bit ``i`` stands for ``graph.nodes[i]``.
    """

    _cache: ClassVar[weakref.WeakKeyDictionary[Graph, Reachability]] = weakref.WeakKeyDictionary()

    def __init__(self, graph: Graph) -> None:
        self.index = {node.id: i for i, node in enumerate(graph.nodes)}
        self.ids = tuple(self.index)
        self.ancestors = [0] * len(self.ids)
        self.descendants = [0] * len(self.ids)
        predecessors = [[self.index[p.id] for p in graph.predecessors(node_id)] for node_id in self.ids]
        for i, before in enumerate(predecessors):
            for p in before:
                self.ancestors[i] |= self.ancestors[p] | (1 << p)
        for i in reversed(range(len(self.ids))):
            for p in predecessors[i]:
                self.descendants[p] |= self.descendants[i] | (1 << i)

    @classmethod
    def of(cls, graph: Graph) -> Reachability:
        """The graph's reachability; computed once and kept as long as the graph lives."""
        found = cls._cache.get(graph)
        if found is None:
            found = cls._cache[graph] = cls(graph)
        return found

    def mask(self, nodes: Iterable[str]) -> int:
        result = 0
        for node in nodes:
            result |= 1 << self.index[node]
        return result

    def names(self, mask: int) -> Iterator[str]:
        while mask:
            low = mask & -mask
            yield self.ids[low.bit_length() - 1]
            mask ^= low

    def depends(self, node: str, on: str) -> bool:
        """Whether ``node`` needs the result of ``on``, directly or not."""
        return bool(self.ancestors[self.index[node]] >> self.index[on] & 1)

    def between(self, nodes: Iterable[str]) -> tuple[str, ...]:
        """Nodes outside the set that lie on a path from the set back into it; empty when the set is convex."""
        inside = self.mask(nodes)
        before, after = 0, 0
        for name in self.names(inside):
            before |= self.ancestors[self.index[name]]
            after |= self.descendants[self.index[name]]
        return tuple(self.names(before & after & ~inside))


def check(
    graph: Graph,
    nodes: Iterable[str],
    kind: str = "vertical",
    rewrite: str | None = None,
    private: Iterable[str] = (),
) -> None:
    """Raise :class:`IllegalGroup` unless ``nodes`` can become one kernel of ``graph``.

    ``kind`` "vertical" asks for a connected set. ``private`` are members whose results must not be read outside.
    A single node is always legal (it has to be a kernel of its own), unless it is unknown.
    """
    group = frozenset(nodes)
    if not group:
        raise IllegalGroup(EMPTY, "a group needs at least one node")
    known = Reachability.of(graph).index
    unknown = sorted(node for node in group if node not in known)
    if unknown:
        raise IllegalGroup(UNKNOWN, f"{graph.name} has no node {', '.join(unknown)}")
    if len(group) == 1 and rewrite is None:
        return
    members = [graph.node(node) for node in graph.order(group)]
    _check_operators(graph, members, rewrite)
    if rewrite == "fold_batchnorm":
        _check_foldable(graph, members)
    path = Reachability.of(graph).between(group)
    if path:
        raise IllegalGroup(CYCLE, f"{_list(path)} lies on a path out of the group and back into it")
    if kind == "vertical":
        _check_connected(graph, members)
    _check_signature(graph, group)
    _check_escapes(graph, group, frozenset(private))


def check_candidate(graph: Graph, candidate: Candidate) -> None:
    """:func:`check` for what a rule proposed."""
    check(graph, candidate.nodes, candidate.kind, candidate.rewrite, candidate.private)


def check_partition(graph: Graph, groups: Sequence[Sequence[str]]) -> tuple[int, ...]:
    """Check that ``groups`` are disjoint, cover the graph and stay acyclic when each is contracted.

    Groups that are legal one by one can still depend on each other. Returns the indices of the groups in an execution
    order; among groups that are ready the one whose first node comes first in the program goes first.
    Raises :class:`IllegalGroup`.
    """
    position = {node.id: i for i, node in enumerate(graph.nodes)}
    owner: dict[str, int] = {}
    for index, group in enumerate(groups):
        if not group:
            raise IllegalGroup(EMPTY, f"group {index} has no node")
        for node in group:
            if node not in position:
                raise IllegalGroup(UNKNOWN, f"{graph.name} has no node {node}")
            if node in owner:
                raise IllegalGroup(OVERLAP, f"{node} is in two groups")
            owner[node] = index
    missing = [node for node in position if node not in owner]
    if missing:
        raise IllegalGroup(UNCOVERED, f"{_list(missing)} belongs to no group")
    order = contracted_order(graph, owner, [min(position[node] for node in group) for group in groups])
    if len(order) < len(groups):
        stuck = sorted(set(range(len(groups))) - set(order))
        names = "; ".join("+".join(groups[i]) for i in stuck[:3] if len(groups[i]) > 1) or str(stuck)
        raise IllegalGroup(CYCLE, f"groups depend on each other: {names}")
    return order


def contracted_order(graph: Graph, owner: Mapping[str, int], first: Sequence[int]) -> tuple[int, ...]:
    """Topological order of contracted groups (Kahn 1962); shorter than ``first`` when there is a cycle.

    ``owner`` maps every node to its group's index, ``first`` gives each group's rank among groups that are ready.
    """
    waits = [0] * len(first)
    after: list[set[int]] = [set() for _ in first]
    for node in graph.nodes:
        for successor in graph.successors(node.id):
            source, sink = owner[node.id], owner[successor.id]
            if source != sink and sink not in after[source]:
                after[source].add(sink)
                waits[sink] += 1
    ready = [(first[i], i) for i in range(len(first)) if waits[i] == 0]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, group = heapq.heappop(ready)
        order.append(group)
        for sink in after[group]:
            waits[sink] -= 1
            if waits[sink] == 0:
                heapq.heappush(ready, (first[sink], sink))
    return tuple(order)


def _check_operators(graph: Graph, members: Sequence[Node], rewrite: str | None) -> None:
    allowed = REWRITE_DTYPES.get(rewrite or "", ALLOWED_DTYPES)
    for node in members:
        if node.kind == "opaque":
            raise IllegalGroup(OPAQUE, f"{node.op} ({node.id}) has no loops to fuse with")
        for name in (*node.inputs, *node.outputs):
            value = graph.values[name]
            if value.dtype not in allowed:
                raise IllegalGroup(
                    DTYPE, f"{value.dtype} of {name} at {node.op} ({node.id}); allowed: {_list(allowed)}"
                )
            if len(value.shape) > MAX_RANK:
                raise IllegalGroup(RANK, f"{name} at {node.op} ({node.id}) has rank {len(value.shape)} > {MAX_RANK}")


def _check_connected(graph: Graph, members: Sequence[Node]) -> None:
    inside = {node.id for node in members}
    seen, stack = set(), [members[0].id]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        around = (*graph.predecessors(node), *graph.successors(node))
        stack += [other.id for other in around if other.id in inside]
    if seen != inside:
        raise IllegalGroup(DISCONNECTED, f"{_list(sorted(inside - seen))} shares no edge with {members[0].id}")


def _check_signature(graph: Graph, group: frozenset[str]) -> None:
    outputs = graph.group_outputs(group)
    if len(outputs) > MAX_OUTPUTS:
        raise IllegalGroup(OUTPUTS, f"{len(outputs)} values are read outside the group, at most {MAX_OUTPUTS} may be")
    arguments = len(outputs) + sum(1 for name in graph.group_inputs(group) if graph.values[name].shape)
    if arguments > MAX_ARGUMENTS:
        raise IllegalGroup(ARGUMENTS, f"{arguments} tensor arguments, at most {MAX_ARGUMENTS} are allowed")


def _check_foldable(graph: Graph, members: Sequence[Node]) -> None:
    """Every batch norm of the group must be the only reader of a conv2d of the group with constant weights."""
    inside = {node.id for node in members}
    norms = [node for node in members if node.op == "nn.batch_norm"]
    for norm in norms:
        conv = graph.producer(norm.inputs[0])
        if conv is None or conv.id not in inside or conv.op != "nn.conv2d":
            raise IllegalGroup(REWRITE, f"fold_batchnorm: {norm.id} follows no conv2d of the group")
        if any(graph.values[name].data is None for name in (conv.inputs[1], *norm.inputs[1:5])):
            raise IllegalGroup(REWRITE, f"fold_batchnorm: weights or statistics of {norm.id} are no constants")
        if graph.users(norm.inputs[0]) != (norm,) or graph.is_output(norm.inputs[0]):
            raise IllegalGroup(ESCAPES, f"{norm.inputs[0]} of {conv.op} ({conv.id}) is read elsewhere too")
    if not norms:
        raise IllegalGroup(REWRITE, "fold_batchnorm: the group has no nn.batch_norm")


def _check_escapes(graph: Graph, group: frozenset[str], private: frozenset[str]) -> None:
    for name in graph.group_outputs(group):
        producer = graph.producer(name)
        if producer is not None and producer.id in private:
            raise IllegalGroup(ESCAPES, f"{name} of {producer.op} ({producer.id}) is read outside the group")


def _list(names: Iterable[str]) -> str:
    ordered = sorted(names) if isinstance(names, frozenset) else list(names)
    return ", ".join(ordered[:6]) + (f" and {len(ordered) - 6} more" if len(ordered) > 6 else "")
