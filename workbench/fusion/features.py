"""A kernel as numbers, for learned cost models: what it moves and computes, and the loop nests that it is lowered to.

Sizes and times are logarithms, since what matters about them is their ratio. The loop nests are those that the kernel
stage makes of a group (see ``profit``); a test compares them with lowered tensor programs.
"""

from __future__ import annotations

import functools
import hashlib
import math
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..graph import Graph, Node, dtype_bytes
from ..graph.serialise import from_json
from ..targets.target import Caches, Target
from .cost_models.analytic import AnalyticCostModel, compute_seconds, contraction_family, memory_seconds
from .matching import CONVOLUTIONS
from .profit import KernelWork, Nest, parallelism, pressure, work_of

FAMILIES = ("single", "parallel", "attention", "unscheduled")
NORMS = frozenset({"nn.layer_norm", "nn.rms_norm", "nn.group_norm", "nn.instance_norm", "nn.batch_norm"})
GATHERS = frozenset({"take", "gather_elements", "gather_nd"})
# Operators that are lowered to several loop nests: how many reductions each has (others one), and which of them end
# with a pass over their elements, which is inlined like any elementwise operator where nobody outside reads it.
REDUCTIONS = {"nn.softmax": 2, "nn.log_softmax": 2, "nn.layer_norm": 2, "nn.group_norm": 2, "nn.instance_norm": 2}
REDUCTIONS |= {"variance": 2, "std": 2}
FINISHED = frozenset({*REDUCTIONS, "nn.rms_norm", "mean"})
FINISHED_POOLS = ("nn.avg_pool", "nn.adaptive_avg_pool")
SLOW_FUNCTION = 16.0  # operations an element from which on a function is a polynomial or a library call

Flag = Callable[[Graph, Node], bool]
# Operators that tuned kernels treat in a way of their own.
FLAGS: Mapping[str, Flag] = {
    "softmax": lambda graph, node: node.op in ("nn.softmax", "nn.log_softmax"),
    "norm": lambda graph, node: node.op in NORMS,
    "pooling": lambda graph, node: "_pool" in node.op,
    "conv_1x1": lambda graph, node: _is_conv(node) and _window(node) == 1 and not _is_depthwise(node),
    "conv_windowed": lambda graph, node: _is_conv(node) and _window(node) > 1 and not _is_depthwise(node),
    "conv_depthwise": lambda graph, node: _is_conv(node) and _is_depthwise(node),
    "conv_strided": lambda graph, node: _is_conv(node) and max(_ints(node.attrs.get("strides"))) > 1,
    "matmul_batched": lambda graph, node: node.op == "matmul" and len(node.space.spatial) > 2,
    "matvec": lambda graph, node: node.op == "matmul" and math.prod(node.space.spatial[:-1]) == 1,
    "concat": lambda graph, node: node.op == "concat",
    "gather": lambda graph, node: node.op in GATHERS,
    "transpose": lambda graph, node: node.op == "permute_dims",
    "pad": lambda graph, node: node.op == "nn.pad",
    "slow_function": lambda graph, node: (
        node.kind == "elementwise" and node.flops >= SLOW_FUNCTION * math.prod(node.space.spatial)
    ),
    "opaque": lambda graph, node: node.kind == "opaque",
}
NAMES: tuple[str, ...] = (
    *("analytic", "compute", "memory", "launch_share"),
    *("flops_contraction", "flops_reduction", "flops_elementwise", "flops_inlined", "inlined_share"),
    *("bytes_in", "bytes_out", "bytes_temporary", "footprint_l1", "footprint_l2", "footprint_l3", "intensity"),
    *("recompute", "parallelism", "pressure", "operators", "arguments", "outputs", "dtype_bytes"),
    *("nests", "nests_contraction", "nests_reduction", "transposed_reads", "transposed_bytes"),
    *("main_outer", "main_innermost", "main_reduction", "main_reduction_innermost", "main_share"),
    *(f"family_{name}" for name in FAMILIES),
    *FLAGS,
)

# Groups that between them have a part in every feature, and a processor with round figures: see `stamp`.
_PROBE_TARGET = Target(
    "llvm", "probe", "znver3", ("avx2", "fma"), 256, 2, 2, Caches(32 << 10, 512 << 10, 32 << 20), "20", 200.0, 40.0
)
_PROBES: tuple[dict[str, Any], ...] = (
    {
        "schema": 1,
        "values": [
            *({"shape": shape, "dtype": "float32"} for shape in ([64, 96], [96, 32], [32])),
            *({"shape": shape, "dtype": "float32"} for shape in ([64, 32], [64, 32], [64, 32], [64, 32], [32, 64])),
        ],
        "nodes": [
            {"op": "matmul", "inputs": ["v0", "v1"], "outputs": ["v3"], "attrs": {}},
            {"op": "add", "inputs": ["v3", "v2"], "outputs": ["v4"], "attrs": {}},
            {"op": "nn.gelu", "inputs": ["v4"], "outputs": ["v5"], "attrs": {}},
            {"op": "nn.softmax", "inputs": ["v5"], "outputs": ["v6"], "attrs": {"axis": -1}},
            {"op": "permute_dims", "inputs": ["v5"], "outputs": ["v7"], "attrs": {"axes": [1, 0]}},
        ],
        "inputs": ["v0", "v1", "v2"],
        "outputs": ["v6", "v7"],
    },
    {
        "schema": 1,
        "values": [
            *({"shape": shape, "dtype": "float32"} for shape in ([1, 32, 28, 28], [64, 32, 3, 3], [1, 64, 1, 1])),
            *({"shape": [1, 64, 14, 14], "dtype": "float32"} for _ in range(3)),
            {"shape": [1, 64, 7, 7], "dtype": "float32"},
        ],
        "nodes": [
            {"op": "nn.conv2d", "inputs": ["v0", "v1"], "outputs": ["v3"], "attrs": {"strides": [2, 2], "groups": 1}},
            {"op": "add", "inputs": ["v3", "v2"], "outputs": ["v4"], "attrs": {}},
            {"op": "nn.relu", "inputs": ["v4"], "outputs": ["v5"], "attrs": {}},
            {"op": "nn.max_pool2d", "inputs": ["v5"], "outputs": ["v6"], "attrs": {"pool_size": [2, 2]}},
        ],
        "inputs": ["v0", "v1", "v2"],
        "outputs": ["v6"],
    },
    {
        "schema": 1,
        "values": [{"shape": shape, "dtype": "float32"} for shape in ([96, 1], [96, 80], [96, 1], [96, 80])],
        "nodes": [
            {"op": "exp", "inputs": ["v0"], "outputs": ["v2"], "attrs": {}},
            {"op": "add", "inputs": ["v2", "v1"], "outputs": ["v3"], "attrs": {}},
        ],
        "inputs": ["v0", "v1"],
        "outputs": ["v3"],
    },
)

ANALYTIC = AnalyticCostModel()  # shared, since it keeps what it has worked out
_known: weakref.WeakKeyDictionary[Graph, dict[tuple[frozenset[str], Target], np.ndarray]] = weakref.WeakKeyDictionary()
_flags: weakref.WeakKeyDictionary[Graph, dict[str, tuple[bool, ...]]] = weakref.WeakKeyDictionary()


def features(graph: Graph, nodes: Iterable[str], target: Target) -> np.ndarray:
    """The kernel that computes ``nodes`` as float32[len(NAMES)], read-only. Kept a graph, so asking again is cheap."""
    known = _known.setdefault(graph, {})
    key = (frozenset(nodes), target)
    if key not in known:
        row = np.array(_row(graph, graph.order(key[0]), target), dtype=np.float32)
        row.flags.writeable = False
        known[key] = row
    return known[key]


def feature_table(graph: Graph, kernels: Sequence[Iterable[str]], target: Target) -> np.ndarray:
    """A row of :func:`features` for each kernel: float32[len(kernels), len(NAMES)]."""
    if not kernels:
        return np.empty((0, len(NAMES)), dtype=np.float32)
    return np.stack([features(graph, nodes, target) for nodes in kernels])


def _row(graph: Graph, members: Sequence[str], target: Target) -> list[float]:
    work = work_of(graph, members)
    seconds = ANALYTIC.seconds(graph, members, target)
    flops = work.executed_flops
    moved_in, moved_out, temporary = (
        float(sum(graph.values[name].bytes for name in names))
        for names in (work.inputs, work.outputs, work.temporaries)
    )
    caches, footprint = target.caches, moved_in + moved_out
    transposed = {name for nest in work.nests for name in nest.transposed}
    flags = _flags_of(graph, members)
    return [
        math.log(seconds),
        math.log(1e-9 + compute_seconds(graph, members, work, target)),
        math.log(1e-9 + memory_seconds(graph, work, target)),
        target.launch_us * 1e-6 / seconds,
        *_flops_by_kind(work),
        sum(nest.executed_flops for nest in work.nests) / max(1.0, flops),
        _log(moved_in),
        _log(moved_out),
        _log(temporary),
        _log(footprint / (caches.l1 * target.threads)),
        _log(footprint / (caches.l2 * target.threads)),
        _log(footprint / caches.l3),
        _log(flops / max(1.0, footprint)),
        _log(max([1.0, *(ratio for node, ratio in work.recompute.items() if graph.node(node).flops > 0)])),
        math.log2(max(1, parallelism(graph, work)) / target.threads),
        pressure(graph, members, target),
        float(len(members)),
        float(sum(1 for name in work.inputs if graph.values[name].shape)),
        float(len(work.outputs)),
        _element_bytes(graph, work),
        float(lowered_nests(work)),
        float(sum(nest.root.kind == "contraction" for nest in work.nests)),
        float(sum(nest.root.kind == "reduction" for nest in work.nests)),
        float(len(transposed)),
        _log(float(sum(graph.values[name].bytes for name in transposed))),
        *_main_nest(work),
        *(float(contraction_family(graph, members) == name) for name in FAMILIES),
        *flags,
    ]


def lowered_nests(work: KernelWork) -> int:
    """How many loop nests the kernel has once everything that can be inlined is inlined."""
    count = 0
    for root in (nest.root for nest in work.nests):
        if root.kind != "reduction":
            count += 1
            continue
        finished = root.op in FINISHED or root.op.startswith(FINISHED_POOLS)
        count += REDUCTIONS.get(root.op, 1) + (finished and not set(root.outputs).isdisjoint(work.outputs))
    return count


def _log(value: float) -> float:
    """0 for nothing; about log2 for much."""
    return math.log2(1.0 + value)


def _flops_by_kind(work: KernelWork) -> tuple[float, float, float, float]:
    """Of contractions, of reductions, of what is written element by element, and of what is inlined into any."""
    own = {"contraction": 0.0, "reduction": 0.0, "elementwise": 0.0}
    for nest in work.nests:
        own[nest.root.kind if nest.root.kind in own else "elementwise"] += nest.own_flops
    inlined = sum(nest.executed_flops for nest in work.nests)
    return _log(own["contraction"]), _log(own["reduction"]), _log(own["elementwise"]), _log(inlined)


def _main_nest(work: KernelWork) -> tuple[float, float, float, float, float]:
    """The nest with most work: outer and innermost spatial, all and innermost reduction extents, share of the work."""

    def size(nest: Nest) -> tuple[float, int]:
        return nest.own_flops + nest.executed_flops, nest.root.space.points

    main = max(work.nests, key=size)
    spatial, reduction = main.root.space.spatial, main.root.space.reduction
    share = size(main)[0] / work.executed_flops if work.executed_flops else 1.0
    return (
        _log(float(math.prod(spatial[:-1]))),
        _log(float(spatial[-1] if spatial else 1)),
        _log(float(math.prod(reduction)) if reduction else 0.0),
        _log(float(reduction[-1]) if reduction else 0.0),
        share,
    )


def _element_bytes(graph: Graph, work: KernelWork) -> float:
    """Of the first result: what vector lanes are cut into."""
    return dtype_bytes(graph.values[work.outputs[0]].dtype) if work.outputs else 4.0


def _flags_of(graph: Graph, members: Sequence[str]) -> list[float]:
    known = _flags.setdefault(graph, {})
    for node in members:
        if node not in known:
            known[node] = tuple(flag(graph, graph.node(node)) for flag in FLAGS.values())
    return [float(any(column)) for column in zip(*(known[node] for node in members), strict=True)]


def _is_conv(node: Node) -> bool:
    return node.op in CONVOLUTIONS


def _window(node: Node) -> int:
    return math.prod(node.space.reduction[1:])


def _is_depthwise(node: Node) -> bool:
    return node.space.reduction[:1] == (1,) and int(str(node.attrs.get("groups", 1))) > 1


def _ints(value: object) -> tuple[int, ...]:
    return tuple(int(item) for item in value) if isinstance(value, tuple) and value else (1,)


@functools.cache
def stamp() -> str:
    """Changes when a feature gives another number: a model that was trained before must not be asked any more."""
    text = []
    for graph in map(from_json, _PROBES):
        row = features(graph, [node.id for node in graph.nodes], _PROBE_TARGET)
        text.append(" ".join(f"{value:.3g}" for value in row))
    return hashlib.sha256("\n".join(text).encode()).hexdigest()[:16]
