"""What fusing a set of nodes changes, factor by factor. Pure; no time in it, see ``cost_models``.

The model of a kernel is what the kernel stage makes of a group: an operator whose result is written out, a reduction
and a contraction are loop nests of their own ("roots"); every other operator is inlined into the nests that read it
and is computed again there, once for each element that they ask for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..graph import Graph, Node
from ..targets.target import Target
from .matching import INJECTIVE_KINDS
from .plan import Factors

WINDOWED = "_pool"  # operators whose window reads an input element several times
SELECT_FLOPS = 2.0  # choosing one operand of a concat by index, for each operand


@dataclass(frozen=True)
class Nest:
    """One loop nest: the root's own work, what is inlined into it, and which values it reads (once each)."""

    root: Node
    own_flops: float
    inlined_flops: float
    reads: tuple[str, ...]
    transposed: frozenset[str]  # of ``reads``: those that are read through a transpose


@dataclass(frozen=True)
class KernelWork:
    """All nests of one kernel. ``recompute``: how often each inlined node is computed, over once an element."""

    nests: tuple[Nest, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    temporaries: tuple[str, ...]  # results of inner nests that nobody outside reads
    recompute: Mapping[str, float]

    @property
    def flops(self) -> float:
        return sum(nest.own_flops + nest.inlined_flops for nest in self.nests)


def work_of(graph: Graph, nodes: Iterable[str]) -> KernelWork:
    """The loop nests of the kernel that computes ``nodes``."""
    members = graph.order(nodes)
    inside = frozenset(members)
    outputs = graph.group_outputs(members)
    written = set(outputs)
    roots = [
        graph.node(node)
        for node in members
        if graph.node(node).kind not in INJECTIVE_KINDS or written.intersection(graph.node(node).outputs)
    ]
    root_ids = {root.id for root in roots}
    nests, evaluations = [], dict.fromkeys(members, 0.0)
    for root in roots:
        nests.append(_nest(graph, root, inside - root_ids, evaluations))
    recompute = {node: evaluations[node] / max(1, _size(graph, node)) for node in members if node not in root_ids}
    temporaries = tuple(out for root in roots for out in root.outputs if out not in written and graph.users(out))
    return KernelWork(tuple(nests), graph.group_inputs(members), outputs, temporaries, recompute)


def _nest(graph: Graph, root: Node, inlinable: frozenset[str], evaluations: dict[str, float]) -> Nest:
    """Walk from the root to its inlined producers, last consumer first; adds to ``evaluations``.

    Within a nest a value that is reached twice with the same index is computed once (common subexpressions), so the
    larger demand counts; over several nests the demands add up.
    """
    demand: dict[str, float] = {root.id: float(_size(graph, root.id))}
    cone = _cone(graph, root, inlinable)
    reads: dict[str, None] = {}
    transposed: set[str] = set()
    through: dict[str, bool] = {root.id: _transposes(root)}
    inlined = 0.0
    for node_id in reversed(graph.order((*cone, root.id))):
        node = graph.node(node_id)
        if node is not root:
            inlined += demand[node_id] * _cost(node, graph)
            evaluations[node_id] += demand[node_id]
        for name in dict.fromkeys(node.inputs):
            producer = graph.producer(name)
            asked = _asked(graph, node, name, demand[node_id], node is root)
            if producer is not None and producer.id in cone:
                demand[producer.id] = max(demand.get(producer.id, 0.0), asked)
                through[producer.id] = through.get(producer.id, False) or through[node_id] or _transposes(producer)
            else:
                reads[name] = None
                if through[node_id]:
                    transposed.add(name)
    own = root.flops if root.kind not in INJECTIVE_KINDS else demand[root.id] * _cost(root, graph)
    return Nest(root, own, inlined, tuple(reads), frozenset(transposed))


def _cone(graph: Graph, root: Node, inlinable: frozenset[str]) -> set[str]:
    cone: set[str] = set()
    stack = [root.id]
    while stack:
        for producer in graph.predecessors(stack.pop()):
            if producer.id in inlinable and producer.id not in cone:
                cone.add(producer.id)
                stack.append(producer.id)
    return cone


def _asked(graph: Graph, node: Node, name: str, demand: float, is_root: bool) -> float:
    """How many elements of input ``name`` the node evaluates when ``demand`` of its own are asked for."""
    value = graph.values[name]
    if is_root and node.kind == "contraction":
        return float(node.space.points)
    if is_root and node.kind == "reduction":
        if WINDOWED in node.op:
            return float(node.space.points)
        return float(graph.values[node.inputs[0]].size)  # a row is made once and kept for all passes
    if node.op == "concat":
        return demand * value.size / max(1, graph.values[node.outputs[0]].size)
    return demand


def _cost(node: Node, graph: Graph) -> float:
    """Operations per output element."""
    if node.op == "concat":
        return SELECT_FLOPS * (len(node.inputs) - 1)
    return node.flops / max(1, _size(graph, node.id))


def _size(graph: Graph, node_id: str) -> int:
    return sum(graph.values[out].size for out in graph.node(node_id).outputs)


def _transposes(node: Node) -> bool:
    axes = node.attrs.get("axes") if node.op == "permute_dims" else None
    if node.op == "permute_dims" and not isinstance(axes, tuple):
        return True
    return isinstance(axes, tuple) and len(axes) > 1 and axes[-1] not in (len(axes) - 1, -1)


def traffic(graph: Graph, work: KernelWork) -> int:
    """Bytes that a kernel has to move at least: every argument and every result once."""
    return sum(graph.values[name].bytes for name in (*work.inputs, *work.outputs))


def parallelism(graph: Graph, work: KernelWork) -> int:
    """Independent outer iterations of the narrowest nest: its output's loops without the innermost, vectorised one."""
    widths = []
    for nest in work.nests:
        spatial = nest.root.space.spatial
        if nest.root.kind in INJECTIVE_KINDS:
            widths.append(max(1, math.prod(spatial) // 16))  # one fused loop, cut into vectors
        else:
            keep = spatial if nest.root.space.reduction and WINDOWED not in nest.root.op else spatial[:-1]
            widths.append(max(1, math.prod(keep[:-1] if nest.root.kind == "contraction" else keep)))
    return min(widths, default=1)


def vector_registers(target: Target) -> int:
    """Architectural vector registers: 32 with AVX-512, else 16 (Intel SDM vol. 1, 2023)."""
    return 32 if any(feature.startswith("avx512") for feature in target.features) else 16


def pressure(graph: Graph, nodes: Iterable[str], target: Target) -> float:
    """Most values alive at once in the kernel's inner loop, over the vector registers.

    A contraction's register tile takes about three quarters of the file by itself.
    """
    members = graph.order(nodes)
    last = {name: i for i, node in enumerate(members) for name in graph.node(node).inputs}
    live: set[str] = set()
    most = 0
    for i, node_id in enumerate(members):
        node = graph.node(node_id)
        live.update(name for name in (*node.inputs, *node.outputs) if graph.values[name].shape)
        most = max(most, len(live))
        live = {name for name in live if last.get(name, -1) > i}
    registers = vector_registers(target)
    tiles = 0.75 if any(graph.node(node).kind == "contraction" for node in members) else 0.0
    return tiles + most / registers


def factors(graph: Graph, nodes: Iterable[str], target: Target) -> Factors:
    """The factors of making ``nodes`` one kernel, against every node its own kernel."""
    members = graph.order(nodes)
    fused = work_of(graph, members)
    apart = [work_of(graph, (node,)) for node in members]
    bytes_before, bytes_after = sum(traffic(graph, work) for work in apart), traffic(graph, fused)
    flops_before = sum(work.flops for work in apart)
    costly = {node: ratio for node, ratio in fused.recompute.items() if graph.node(node).flops > 0}
    return Factors(
        bytes_saved=bytes_before - bytes_after,
        launches_saved=len(members) - 1,
        intensity_before=flops_before / max(1, bytes_before),
        intensity_after=fused.flops / max(1, bytes_after),
        recompute=max([1.0, *costly.values()]),
        parallelism=parallelism(graph, fused),
        pressure=pressure(graph, members, target),
    )
