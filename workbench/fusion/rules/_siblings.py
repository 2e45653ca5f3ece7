"""What the horizontal rules put side by side: kernels of elementwise or row-wise operators, and which may share one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...graph import Graph, Node
from ..legality import MAX_ARGUMENTS, MAX_OUTPUTS, Reachability
from ..matching import producers_chain
from .elementwise_chain import grow
from .reduction import ROWWISE

OPEN = 4  # unfinished batches that a kernel is tried with: keeps the work linear


@dataclass(frozen=True)
class Sibling:
    """Nodes that would be one kernel, with what its loops look like: only kernels of equal loops are batched."""

    nodes: tuple[str, ...]
    loops: tuple[object, ...]
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    moved: int  # bytes read and written


@dataclass
class Batch:
    """Siblings that do not need each other's results; masks as in ``Reachability``."""

    members: list[Sibling]
    related: int


def pointwise(graph: Graph) -> list[Sibling]:
    """Chains of elementwise operators, and elementwise operators on their own."""
    members = [node for node in graph.nodes if node.kind in ("elementwise", "broadcast")]
    chains = grow(graph, members, cut_at_broadcast=False)
    inside = {node for chain in chains for node in chain}
    alone = [(node.id,) for node in members if node.id not in inside]
    found = [_sibling(graph, nodes, "pointwise") for nodes in (*chains, *alone)]
    ordered = [one for one in found if one is not None]
    place = {node.id: i for i, node in enumerate(graph.nodes)}
    return sorted(ordered, key=lambda one: place[one.nodes[0]])


def rowwise(graph: Graph) -> list[Sibling]:
    """Reductions with their elementwise producers."""
    found = []
    for node in graph.nodes:
        if node.op in ROWWISE:
            nodes = graph.order((*producers_chain(graph, node.inputs[0]), node.id))
            found.append(_sibling(graph, nodes, "rowwise", node))
    return [one for one in found if one is not None]


def batches(graph: Graph, siblings: Iterable[Sibling]) -> Iterator[tuple[Sibling, ...]]:
    """Sets of independent kernels, greedily in program order; sets of one are left out."""
    reach = Reachability.of(graph)
    open_batches: list[Batch] = []
    done: list[Batch] = []
    for one in siblings:
        mask = reach.mask(one.nodes)
        for batch in open_batches:
            if not batch.related & mask and _fits(graph, (*batch.members, one)):
                batch.members.append(one)
                batch.related |= related(reach, one)
                break
        else:
            open_batches.append(Batch([one], related(reach, one)))
            if len(open_batches) > OPEN:
                done.append(open_batches.pop(0))
    for batch in (*done, *open_batches):
        if len(batch.members) > 1:
            yield tuple(batch.members)


def related(reach: Reachability, one: Sibling) -> int:
    """The kernel's nodes, all that it needs, and all that needs it."""
    mask = reach.mask(one.nodes)
    for node in one.nodes:
        mask |= reach.ancestors[reach.index[node]] | reach.descendants[reach.index[node]]
    return mask


def _sibling(graph: Graph, nodes: tuple[str, ...], kind: str, main: Node | None = None) -> Sibling | None:
    """None where the results have several shapes, which is several loop nests already."""
    outputs = graph.group_outputs(nodes)
    shapes = {graph.values[out].shape for out in outputs}
    if len(shapes) != 1 or len(outputs) > MAX_OUTPUTS:
        return None
    inputs = tuple(name for name in graph.group_inputs(nodes) if graph.values[name].shape)
    moved = sum(graph.values[name].bytes for name in (*inputs, *outputs))
    return Sibling(nodes, (kind, *shapes, None if main is None else main.space), outputs, inputs, moved)


def _fits(graph: Graph, members: Sequence[Sibling]) -> bool:
    outputs = sum(len(one.outputs) for one in members)
    inputs = {name for one in members for name in one.inputs}
    return outputs <= MAX_OUTPUTS and outputs + len(inputs) <= MAX_ARGUMENTS
