"""Scaled dot-product attention, one kernel with online softmax (Milakov and Gimelshein 2018; Dao et al. 2022)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...graph import Graph, Node
from ..categories import ATTRIBUTE, ESCAPES, OPERATOR
from ..matching import (
    LAYOUT,
    Why,
    first_escape,
    made_by,
    only_user,
    produced_by,
    producers_chain,
    skip_renaming_down,
    skip_renaming_up,
    used_only_by,
)
from ._base import Candidate, Refusal, Rule

# Scale, additive and boolean masks, casts, and the soft cap ``c * tanh(scores / c)`` (Gemma 2, 2024).
MASK_AND_SCALE = frozenset(
    {"multiply", "divide", "add", "subtract", "where", "astype", "maximum", "minimum", "clip", "tanh"}
)


@dataclass(frozen=True)
class Core:
    """Both products of an attention, and all nodes from the first to the second."""

    nodes: tuple[str, ...]
    scores: Node
    weighted: Node


class Attention(Rule):
    """``softmax(q @ k^T * s + mask) @ v`` -> one kernel; the scores never reach memory.

    The mask may be added, causal (a constant triangle) or boolean under ``where``. Two candidates: the core, and the
    core with the layout operators that split and join the heads, and repeat those that several queries share.
    """

    name = "attention"
    kind = "vertical"
    summary = "softmax(q @ k^T * scale + mask) @ v, with or without the layout operators around it"
    extendable = False
    example = """
        x: float32[1, 256, 512]
        k: float32[1, 2, 256, 64]
        v: float32[1, 2, 256, 64]
        mask: float32[1, 1, 256, 256] = const
        split: float32[1, 256, 8, 64] = reshape(x){shape=(1, 256, 8, 64)}
        q: float32[1, 8, 256, 64] = permute_dims(split){axes=(0, 2, 1, 3)}
        keys: float32[1, 8, 256, 64] = repeat(k){repeats=4, axis=1}
        values: float32[1, 8, 256, 64] = repeat(v){repeats=4, axis=1}
        turned: float32[1, 8, 64, 256] = permute_dims(keys){axes=(0, 1, 3, 2)}
        scores: float32[1, 8, 256, 256] = matmul(q, turned)
        scaled: float32[1, 8, 256, 256] = multiply(scores, 0.125)
        masked: float32[1, 8, 256, 256] = add(scaled, mask)
        weights: float32[1, 8, 256, 256] = nn.softmax(masked){axis=-1}
        heads: float32[1, 8, 256, 64] = matmul(weights, values)
        joined: float32[1, 256, 8, 64] = permute_dims(heads){axes=(0, 2, 1, 3)}
        y: float32[1, 256, 512] = reshape(joined){shape=(1, 256, 512)}
        return y"""

    def propose(self, graph: Graph) -> Iterator[Candidate | Refusal]:
        for softmax in graph.nodes:
            if softmax.op != "nn.softmax":
                continue
            core = _core(graph, softmax)
            if not isinstance(core, Core):
                near = [softmax, *graph.predecessors(softmax.id), *graph.successors(softmax.id)]
                yield Refusal(self.name, graph.order(node.id for node in near), *core)
                continue
            yield self._candidate(graph, core.nodes, "scores stay in cache, softmax runs along with both products")
            around = _layout_around(graph, core)
            if around:
                whole = graph.order(frozenset((*core.nodes, *around)))
                yield self._candidate(graph, whole, "heads are split and joined by indexing, scores stay in cache")

    def _candidate(self, graph: Graph, nodes: tuple[str, ...], reason: str) -> Candidate:
        return Candidate(self.name, self.kind, nodes, reason, private=nodes[:-1])


def _core(graph: Graph, softmax: Node) -> Core | Why:
    """The attention around a softmax, or why there is none."""
    axis, rank = softmax.attrs.get("axis", -1), len(graph.values[softmax.inputs[0]].shape)
    if axis not in (-1, rank - 1):
        return ATTRIBUTE, f"axis of nn.softmax ({softmax.id}) is {axis}, the last one is expected"
    after = _weighted_after(graph, softmax)
    if after is None:
        readers = graph.users(softmax.outputs[0])
        if len(readers) > 1 or (readers and graph.is_output(softmax.outputs[0])):
            return ESCAPES, f"the weights, {softmax.outputs[0]}, are read by more than the product with the values"
        found = f"{readers[0].op} ({readers[0].id})" if readers else "nothing"
        return OPERATOR, f"{found} reads the weights where matmul(weights, values) is expected"
    weighted, behind = after
    before = _scores_before(graph, softmax.inputs[0])
    if before is None:
        return (
            OPERATOR,
            f"{made_by(graph, softmax.inputs[0])} leads to no single matmul(q, k) by scale and mask alone",
        )
    scores, between = before
    nodes = graph.order(frozenset((scores.id, *between, softmax.id, *behind, weighted.id)))
    return first_escape(graph, nodes, weighted.outputs[0]) or Core(nodes, scores, weighted)


def _weighted_after(graph: Graph, softmax: Node) -> tuple[Node, tuple[str, ...]] | None:
    """The matmul of the weights and v, and the reshapes and casts on the way to it."""
    passed: list[str] = []
    value, steps = skip_renaming_down(graph, softmax.outputs[0])
    passed += steps
    while (user := only_user(graph, value)) is not None and user.op == "astype":
        value, steps = skip_renaming_down(graph, user.outputs[0])
        passed += [user.id, *steps]
    weighted = only_user(graph, value)
    if weighted is None or weighted.op != "matmul" or weighted.inputs[0] != value or weighted.inputs[1] == value:
        return None
    return weighted, tuple(passed)


def _scores_before(graph: Graph, name: str) -> tuple[Node, tuple[str, ...]] | None:
    """The one matmul of q and k behind scale, mask and reshapes, and those."""
    before: list[str] = []
    while True:
        name, passed = skip_renaming_up(graph, name)
        chain = producers_chain(graph, name, MASK_AND_SCALE)
        before += [*passed, *chain]
        scores = _scores_below(graph, name, chain)
        if scores is not None:
            return scores, tuple(before)
        feeding = [i for n in chain for i in graph.node(n).inputs if _leads_to_matmul(graph, i)]
        if len(feeding) != 1:
            return None
        name = feeding[0]


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


def _layout_around(graph: Graph, core: Core) -> tuple[str, ...]:
    """Layout operators that feed q, k and v from, and take the result to, the projections' layout."""
    around: list[str] = []
    for name in (*core.scores.inputs, core.weighted.inputs[1]):
        while (node := produced_by(graph, name, *LAYOUT, "repeat")) is not None:
            if not used_only_by(graph, name, (*core.nodes, *around)):
                break
            around.append(node.id)
            name = node.inputs[0]
    name = core.weighted.outputs[0]
    while len(users := graph.users(name)) == 1 and not graph.is_output(name) and users[0].op in LAYOUT:
        around.append(users[0].id)
        name = users[0].outputs[0]
    return tuple(around)
