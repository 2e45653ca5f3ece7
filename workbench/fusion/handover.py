"""What a kernel costs inside a model beyond its time alone.

Timed alone, over and over, a kernel finds its arguments in the cache of the very core that reads them. In a model
another kernel has just written them, on other cores, and what ran in between has evicted them from the nearest caches;
threads have to be woken and code fetched. Kernels of the built-in models on two cores of an AVX-512 server, alone and
inside the model: of those whose arguments fit the second-level caches, most take 3 µs and 7 µs a megabyte more. Larger
arguments come from beyond these caches in either case, and cost nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..graph import Graph
from ..targets.target import Target
from .matching import is_view
from .profit import cache_level

# Relax's virtual machine spends 0.2 to 0.3 µs on a call and its result's buffer: chains of 1 to 41 empty kernels.
CALL_SECONDS = 0.25e-6
WAKE_SECONDS = 3e-6
HANDOVER_SPEEDUP = 2.5  # bandwidth over that of main memory


def beside(graph: Graph, nodes: Iterable[str], target: Target) -> float:
    """Seconds that the kernel of ``nodes`` takes in the model beyond its time alone; 0 for what is only a view."""
    members = graph.order(nodes)
    if is_view(graph, members):
        return 0.0
    arguments = [graph.values[name] for name in (*graph.group_inputs(members), *graph.group_outputs(members))]
    handed = sum(value.bytes for value in arguments if not value.is_constant)
    if cache_level(sum(value.bytes for value in arguments), target) not in ("L1", "L2"):
        handed = 0
    return CALL_SECONDS + WAKE_SECONDS + handed / (target.peak_gbps * 1e9 * HANDOVER_SPEEDUP)
