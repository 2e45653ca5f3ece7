"""What fusing a set of nodes changes, factor by factor. Pure; no time in it, see ``cost_models``.

The model of a kernel is what the kernel stage makes of a group: an operator whose result is written out, a reduction
and a contraction are loop nests of their own ("roots"); every other operator is inlined into the nests that read it
and is computed again there, once for each element that they ask for.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..graph import Graph, Node
from ..targets.target import Target
from .compile_time import compile_seconds
from .matching import INJECTIVE_KINDS, is_renaming
from .plan import Factors

WINDOWED = "_pool"  # operators whose window reads an input element several times
# Elements of a row for which work that is the same in all of them is done once: LLVM moves it out of the innermost
# loop, which is as long as a tile is wide. Measured: 12 thin producers in one kernel of [384, 384] take 44 us, not 800.
HOISTED = 64
SELECT_FLOPS = 2.0  # choosing one operand of a concat by index, for each operand
CACHE_SPEEDUP = {"L1": 16.0, "L2": 8.0, "L3": 4.0, "memory": 1.0}  # bandwidth over that of main memory


@dataclass(frozen=True)
class Nest:
    """One loop nest: the root's own work, what is inlined into it, and which values it reads (once each).

    ``executed_flops``: what is left of ``inlined_flops`` on a CPU, where a compiler moves work that is the same along
    the innermost axis out of that loop.
    """

    root: Node
    own_flops: float
    inlined_flops: float
    executed_flops: float
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

    @property
    def executed_flops(self) -> float:
        """Without what a compiler hoists out of innermost loops."""
        return sum(nest.own_flops + nest.executed_flops for nest in self.nests)


_WORK: weakref.WeakKeyDictionary[Graph, dict[frozenset[str], KernelWork]] = weakref.WeakKeyDictionary()


def work_of(graph: Graph, nodes: Iterable[str]) -> KernelWork:
    """The loop nests of the kernel that computes ``nodes``; worked out once a graph and set."""
    known = _WORK.setdefault(graph, {})
    key = frozenset(nodes)
    if key not in known:
        known[key] = _work_of(graph, graph.order(key))
    return known[key]


def _work_of(graph: Graph, members: tuple[str, ...]) -> KernelWork:
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
    aligned: dict[str, bool] = {root.id: True}  # whether a node's rows are the root's rows, wherever it is read
    steady: dict[str, bool] = {root.id: False}  # whether all that is asked of a node is the same along the root's rows
    inlined = executed = 0.0
    for node_id in reversed(graph.order((*cone, root.id))):
        node = graph.node(node_id)
        if node is not root:
            inlined += demand[node_id] * _cost(node, graph)
            executed += demand[node_id] * _cost(node, graph) / (_tile(graph, root) if steady[node_id] else 1)
            evaluations[node_id] += demand[node_id]
        for name in dict.fromkeys(node.inputs):
            producer = graph.producer(name)
            asked = _asked(graph, node, name, demand[node_id], node is root)
            if producer is not None and producer.id in cone:
                demand[producer.id] = max(demand.get(producer.id, 0.0), asked)
                through[producer.id] = through.get(producer.id, False) or through[node_id] or _transposes(producer)
                same = steady[node_id] or (aligned[node_id] and _spreads(graph, node, name))
                steady[producer.id] = steady.get(producer.id, True) and same
                along = aligned[node_id] and node.kind in ("elementwise", "broadcast")
                aligned[producer.id] = aligned.get(producer.id, True) and along
            else:
                reads[name] = None
                if through[node_id]:
                    transposed.add(name)
    own = root.flops if root.kind not in INJECTIVE_KINDS else demand[root.id] * _cost(root, graph)
    return Nest(root, own, inlined, executed, tuple(reads), frozenset(transposed))


def _spreads(graph: Graph, node: Node, name: str) -> bool:
    """Whether the node reads one element of ``name`` for a whole row of its result, element by element."""
    shape, result = graph.values[name].shape, graph.values[node.outputs[0]].shape
    return (
        node.kind in ("elementwise", "broadcast")
        and len(result) > 0
        and result[-1] > 1
        and (len(shape) == 0 or shape[-1] == 1)
    )


def _tile(graph: Graph, root: Node) -> int:
    """Elements of the root's row that share what is the same in all of them."""
    shape = graph.values[root.outputs[0]].shape
    return min(HOISTED, shape[-1]) if shape and root.kind in INJECTIVE_KINDS else 1


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


def cache_level(footprint: int, target: Target) -> str:
    """The smallest cache that holds so many bytes: "L1" or "L2" of all threads together, "L3", else "memory"."""
    sizes = (target.caches.l1 * target.threads, target.caches.l2 * target.threads, target.caches.l3)
    for name, size in zip(("L1", "L2", "L3"), sizes, strict=True):
        if footprint <= size:
            return name
    return "memory"


def recomputed_flops(graph: Graph, work: KernelWork) -> float:
    """All operations that the kernel does again: for each inlined operator, those beyond once an element."""
    return sum(
        (ratio - 1.0) * _size(graph, node) * _cost(graph.node(node), graph)
        for node, ratio in work.recompute.items()
        if ratio > 1.0
    )


@dataclass
class _Roof:
    """Seconds that kernels need at least, resource by resource (Williams, Waterman, Patterson 2009)."""

    compute: float = 0.0
    memory: float = 0.0
    launch: float = 0.0

    def add(self, flops: float, moved: int, target: Target) -> None:
        """Add a kernel. Traffic goes at the bandwidth of the level that holds all of it."""
        level = cache_level(moved, target)
        self.compute += flops / (target.peak_gflops * 1e9)
        self.memory += moved / (target.peak_gbps * 1e9 * CACHE_SPEEDUP[level])
        self.launch += target.launch_us * 1e-6

    @property
    def bound(self) -> str:
        if self.launch > max(self.compute, self.memory):
            return "launch"
        return "compute" if self.compute > self.memory else "memory"


_ALONE: weakref.WeakKeyDictionary[Graph, dict[str, tuple[float, int]]] = weakref.WeakKeyDictionary()


def _alone(graph: Graph, node: str) -> tuple[float, int] | None:
    """Operations and bytes of an operator as its own kernel; None for a reshape, which is a view then."""
    if is_renaming(graph, graph.node(node)):
        return None
    known = _ALONE.setdefault(graph, {})
    if node not in known:
        work = work_of(graph, (node,))
        known[node] = work.flops, traffic(graph, work)
    return known[node]


def factors(graph: Graph, nodes: Iterable[str], target: Target, work: KernelWork | None = None) -> Factors:
    """The factors of making ``nodes`` one kernel, against every node its own kernel.

    ``work``: what ``work_of`` gave for these nodes, where the caller has it. Kernels apart are worked out once a graph.
    """
    members = graph.order(nodes)
    fused = work_of(graph, members) if work is None else work
    apart = [alone for node in members if (alone := _alone(graph, node)) is not None]
    flops_before, bytes_before = sum(flops for flops, _ in apart), sum(moved for _, moved in apart)
    flops_after, bytes_after = fused.flops, traffic(graph, fused)
    before, after = _Roof(), _Roof()
    for flops, moved in apart:
        before.add(flops, moved, target)
    after.add(flops_after, bytes_after, target)
    costly = {node: ratio for node, ratio in fused.recompute.items() if graph.node(node).flops > 0}
    kinds = [graph.node(node).kind for node in members]
    arguments = sum(1 for name in (*fused.inputs, *fused.outputs) if graph.values[name].shape)
    return Factors(
        bytes_saved=bytes_before - bytes_after,
        launches_saved=max(0, len(apart) - 1),
        intensity_before=flops_before / max(1, bytes_before),
        intensity_after=flops_after / max(1, bytes_after),
        recompute=max([1.0, *costly.values()]),
        parallelism=parallelism(graph, fused),
        pressure=pressure(graph, members, target),
        recomputed_flops=recomputed_flops(graph, fused),
        level=cache_level(bytes_after, target),
        bound_before=before.bound,
        bound_after=after.bound,
        compile_s=compile_seconds(len(members), kinds.count("contraction"), kinds.count("reduction"), arguments),
        arguments=arguments,
    )
