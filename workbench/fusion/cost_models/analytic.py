"""A roofline with cache levels (Williams, Waterman, Patterson 2009; Ilic, Pratas, Sousa 2014).

The efficiencies are what tuned kernels reached on a two-core AVX2 machine, as fractions of the measured peak. They set
the scale only; which of two partitions wins depends on traffic, launches and recomputed work.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable, Sequence

from ...graph import Graph, Node
from ...targets.target import Target
from ..matching import CONVOLUTIONS, is_view
from ..profit import CACHE_SPEEDUP, KernelWork, Nest, cache_level, parallelism, pressure, work_of
from ._base import CostModel, Prediction

MATMUL_EFFICIENCY = 0.70
CONV_EFFICIENCY = 0.55
DEPTHWISE_EFFICIENCY = 0.12
ELEMENTWISE_EFFICIENCY = 0.25  # no multiply-add pairs, and dependent chains
UNSCHEDULED = 0.12  # several contractions that no schedule serves: each runs as a plain loop nest
ROWS_OF_PRODUCT = 0.5  # a reduction over a product's rows forces whole-row tiles on the contraction
MEMORY_EFFICIENCY = 0.85
TRANSPOSED_READ = 2.5  # a strided read uses a part of each cache line before it is evicted
TEMPORARY_SPEEDUP = 8.0  # tiles of an inner result live in L1 or L2
NOT_OVERLAPPED = 0.3  # of the shorter of compute and traffic; out-of-order cores hide the rest
ROW_PASSES = 4  # what feeds a normalisation is written to a row buffer once and read back by up to three passes
VIEW_SECONDS = 0.3e-6  # a reshape on its own is a view of the same buffer
UNSURE = 1.6  # a prediction is within this factor of the measurement eight times in ten
SPILL = 0.25  # more work for each register file's worth of values that do not fit


class AnalyticCostModel(CostModel):
    """Seconds = launch + the longer of compute and traffic + a part of the shorter. Results are kept a graph."""

    name = "analytic"

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Graph, dict[tuple[frozenset[str], Target], float]]
        self._known = weakref.WeakKeyDictionary()

    def predict(self, graph: Graph, kernels: Sequence[Iterable[str]], target: Target) -> list[Prediction]:
        seconds = [self.seconds(graph, nodes, target) for nodes in kernels]
        return [Prediction(one, one / UNSURE, one * UNSURE) for one in seconds]

    def seconds(self, graph: Graph, nodes: Iterable[str], target: Target) -> float:
        known = self._known.setdefault(graph, {})
        key = (frozenset(nodes), target)
        if key not in known:
            known[key] = self._seconds(graph, graph.order(key[0]), target)
        return known[key]

    def _seconds(self, graph: Graph, members: Sequence[str], target: Target) -> float:
        if is_view(graph, members):
            return VIEW_SECONDS
        work = work_of(graph, members)
        compute = compute_seconds(graph, members, work, target)
        memory = memory_seconds(graph, work, target)
        return target.launch_us * 1e-6 + max(compute, memory) + NOT_OVERLAPPED * min(compute, memory)


def compute_seconds(graph: Graph, members: Sequence[str], work: KernelWork, target: Target) -> float:
    """Arithmetic of all nests at the rate that their kind reaches, on as many threads as there is parallelism."""
    family = contraction_family(graph, members)
    scale = {"none": 1.0, "single": 1.0, "parallel": 1.0, "attention": 1.0, "unscheduled": UNSCHEDULED}[family]
    has_row_reduction = any(graph.node(node).kind == "reduction" for node in members)
    if family in ("single", "parallel") and has_row_reduction:
        scale = ROWS_OF_PRODUCT
    spill = 1.0 + SPILL * max(0.0, pressure(graph, members, target) - 1.0)
    peak = target.peak_gflops * 1e9 * min(target.threads, parallelism(graph, work)) / max(1, target.threads)
    seconds = 0.0
    for nest in work.nests:
        own = nest.own_flops / (_efficiency(graph, nest.root) * (scale if nest.root.kind == "contraction" else 1.0))
        seconds += (own + nest.executed_flops * spill / ELEMENTWISE_EFFICIENCY) / peak
    return seconds


def _efficiency(graph: Graph, root: Node) -> float:
    if root.kind != "contraction":
        return ELEMENTWISE_EFFICIENCY
    if root.op not in CONVOLUTIONS:
        return MATMUL_EFFICIENCY
    return CONV_EFFICIENCY if math.prod(root.space.reduction[:1]) > 1 else DEPTHWISE_EFFICIENCY


def memory_seconds(graph: Graph, work: KernelWork, target: Target) -> float:
    """Traffic at the bandwidth of the level that holds the kernel's arguments; inner results at cache speed."""
    footprint = sum(graph.values[name].bytes for name in (*work.inputs, *work.outputs))
    speed = target.peak_gbps * 1e9 * MEMORY_EFFICIENCY
    level = CACHE_SPEEDUP[cache_level(footprint, target)]
    temporaries = set(work.temporaries)
    seconds, shared = 0.0, set[str]()
    for nest in work.nests:
        for name in nest.reads:
            if name in temporaries:
                seconds += 2 * graph.values[name].bytes / (speed * TEMPORARY_SPEEDUP)
            elif name not in shared:
                factor = TRANSPOSED_READ if name in nest.transposed else 1.0
                seconds += factor * graph.values[name].bytes / (speed * level)
                if _shares_reads(nest):
                    shared.add(name)
        if nest.root.kind == "reduction" and nest.inlined_flops > 0:
            rows = graph.values[nest.root.inputs[0]].bytes
            seconds += ROW_PASSES * rows / (speed * TEMPORARY_SPEEDUP)
    written = sum(graph.values[name].bytes for name in work.outputs)
    return seconds + written / (speed * level)


def _shares_reads(nest: Nest) -> bool:
    """Contractions of one input are tiled together; other nests of a kernel each read their inputs again."""
    return nest.root.kind == "contraction"


def contraction_family(graph: Graph, members: Sequence[str]) -> str:
    """Which schedule can serve a group's contractions.

    "none", "single"; "parallel": several matmuls of one input; "attention": two matmuls with a softmax between them;
    "unscheduled": anything else, which no schedule keeps fast.
    """
    nodes = [graph.node(node) for node in members]
    contractions = [node for node in nodes if node.kind == "contraction"]
    if len(contractions) < 2:
        return "single" if contractions else "none"
    if len({node.inputs[0] for node in contractions}) == 1 and all(node.op == "matmul" for node in contractions):
        return "parallel"
    softmax = any(node.op == "nn.softmax" for node in nodes)
    pair = len(contractions) == 2 and all(node.op == "matmul" for node in contractions)
    return "attention" if pair and softmax else "unscheduled"
