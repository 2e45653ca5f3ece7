"""Scaled dot-product attention, one kernel with online softmax (Milakov and Gimelshein 2018; Dao et al. 2022)."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph import Graph, Node
from ..matching import LAYOUT, produced_by, producers_chain, skip_renaming_down, skip_renaming_up, used_only_by
from ._base import Candidate, Rule

MASK_AND_SCALE = frozenset({"multiply", "divide", "add", "subtract", "where", "astype", "maximum"})


class Attention(Rule):
    """``softmax(q @ k^T * s + mask) @ v`` -> one kernel; the scores never reach memory.

    Two candidates: the core, and the core with the reshapes and transposes that split and join the heads.
    """

    name = "attention"
    kind = "vertical"
    summary = "softmax(q @ k^T * scale + mask) @ v, with or without the layout operators around it"
    extendable = False

    def propose(self, graph: Graph) -> Iterator[Candidate]:
        for softmax in graph.nodes:
            if softmax.op != "nn.softmax" or not _last_axis(graph, softmax):
                continue
            core = _core(graph, softmax)
            if core is None:
                continue
            nodes, scores, weighted = core
            yield self._candidate(graph, nodes, "scores stay in cache, softmax runs along with both products")
            around = _layout_around(graph, nodes, scores, weighted)
            if around:
                whole = graph.order(frozenset((*nodes, *around)))
                yield self._candidate(graph, whole, "heads are split and joined by indexing, scores stay in cache")

    def _candidate(self, graph: Graph, nodes: tuple[str, ...], reason: str) -> Candidate:
        return Candidate(self.name, self.kind, nodes, reason, private=nodes[:-1])


def _last_axis(graph: Graph, softmax: Node) -> bool:
    axis = softmax.attrs.get("axis", -1)
    return axis in (-1, len(graph.values[softmax.inputs[0]].shape) - 1)


def _core(graph: Graph, softmax: Node) -> tuple[tuple[str, ...], Node, Node] | None:
    """(nodes, the q @ k^T matmul, the matmul with v) around a softmax; None when it is not attention."""
    value, after = skip_renaming_down(graph, softmax.outputs[0])
    readers = graph.users(value)
    weighted = readers[0] if len(readers) == 1 and not graph.is_output(value) else None
    if weighted is None or weighted.op != "matmul" or weighted.inputs[0] != value or weighted.inputs[1] == value:
        return None
    before: list[str] = []
    name = softmax.inputs[0]
    while True:
        name, passed = skip_renaming_up(graph, name)
        chain = producers_chain(graph, name, MASK_AND_SCALE)
        before += [*passed, *chain]
        scores = _scores_below(graph, name, chain)
        if scores is not None:
            break
        if not passed and not chain:
            return None
        feeding = [i for n in chain for i in graph.node(n).inputs if _leads_to_matmul(graph, i)]
        if len(feeding) != 1:
            return None
        name = feeding[0]
    nodes = graph.order(frozenset((scores.id, *before, softmax.id, *after, weighted.id)))
    inner = [out for n in nodes if n != weighted.id for out in graph.node(n).outputs]
    return (nodes, scores, weighted) if all(used_only_by(graph, out, nodes) for out in inner) else None


def _scores_below(graph: Graph, name: str, chain: tuple[str, ...]) -> Node | None:
    """The one matmul that the chain (or the value itself) reads."""
    direct = produced_by(graph, name, "matmul")
    if direct is not None:
        return direct
    found = {
        matmul.id: matmul
        for node in chain
        for inp in graph.node(node).inputs
        if (matmul := produced_by(graph, inp, "matmul")) is not None
    }
    return next(iter(found.values())) if len(found) == 1 else None


def _leads_to_matmul(graph: Graph, name: str) -> bool:
    below, passed = skip_renaming_up(graph, name)
    return bool(passed) and produced_by(graph, below, "matmul", *MASK_AND_SCALE) is not None


def _layout_around(graph: Graph, nodes: tuple[str, ...], scores: Node, weighted: Node) -> tuple[str, ...]:
    """Layout operators that feed q, k and v from, and take the result to, the projections' layout."""
    around: list[str] = []
    for name in (*scores.inputs, weighted.inputs[1]):
        while (node := produced_by(graph, name, *LAYOUT, "repeat")) is not None:
            if not used_only_by(graph, name, (*nodes, *around)):
                break
            around.append(node.id)
            name = node.inputs[0]
    name = weighted.outputs[0]
    while len(users := graph.users(name)) == 1 and not graph.is_output(name) and users[0].op in LAYOUT:
        around.append(users[0].id)
        name = users[0].outputs[0]
    return tuple(around)
