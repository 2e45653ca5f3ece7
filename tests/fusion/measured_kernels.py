"""Kernels with made-up times: small groups of many shapes, and the laws that their times follow."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from fusion_graphs import TARGET, Net

from workbench.fusion.cost_models import AnalyticCostModel, Sample
from workbench.graph import Graph

Build = Callable[[Net, str, int], str]


def _dense(net: Net, x: str, width: int) -> str:
    return net.op("matmul", x, net.const(net.values[x].shape[-1], width))


CHAINS: dict[str, Build] = {
    "matmul": _dense,
    "matmul+add": lambda net, x, n: net.op("add", _dense(net, x, n), net.const(n)),
    "matmul+gelu": lambda net, x, n: net.op("nn.gelu", _dense(net, x, n)),
    "relu": lambda net, x, n: net.op("nn.relu", x),
    "exp": lambda net, x, n: net.op("exp", x),
    "add": lambda net, x, n: net.op("add", x, net.const(net.values[x].shape[-1])),
    "add+relu": lambda net, x, n: net.op("nn.relu", net.op("add", x, 1.0)),
    "softmax": lambda net, x, n: net.op("nn.softmax", x, axis=-1),
    "sum": lambda net, x, n: net.op("sum", x, axis=(1,)),
    "exp+sum": lambda net, x, n: net.op("sum", net.op("exp", x), axis=(1,)),
    "transpose": lambda net, x, n: net.op("permute_dims", x, axes=(1, 0)),
    "multiply+add": lambda net, x, n: net.op("add", net.op("multiply", x, x), x),
}


def group(chain: str, rows: int, columns: int, width: int = 64) -> Graph:
    net = Net(chain)
    return net.graph(CHAINS[chain](net, net.input("x", rows, columns), width))


def samples(law: Callable[[Graph, float], float], count: int = 96) -> list[Sample]:
    """``law(group, analytic seconds)`` -> measured seconds, for groups of many sizes."""
    random = np.random.default_rng(0)
    made = []
    for place in range(count):
        chain = list(CHAINS)[place % len(CHAINS)]
        graph = group(chain, *(int(size) for size in 2 ** random.uniform(4, 10, size=3)))
        seconds = law(graph, AnalyticCostModel().seconds(graph, [node.id for node in graph.nodes], TARGET))
        made.append(Sample(graph, seconds, seconds * 0.98, seconds * 1.02))
    return made


def noisy(spread: float, law: Callable[[Graph, float], float]) -> Callable[[Graph, float], float]:
    """A law with log-normal noise of a standard deviation."""
    random = np.random.default_rng(1)
    return lambda graph, analytic: law(graph, analytic) * float(np.exp(spread * random.standard_normal()))


def contractions_slow(graph: Graph, analytic: float) -> float:
    """Three times the analytic figure with a contraction, half of it without."""
    return analytic * (3.0 if any(node.kind == "contraction" for node in graph.nodes) else 0.5)
