"""Graphs by hand, spelled as the importers spell them; and a target with round figures."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from workbench.graph import Graph, Node, Value
from workbench.graph._classify import kind_of
from workbench.graph._cost import cost_of
from workbench.targets.target import Caches, Target

TARGET = Target(
    kind="llvm",
    device="test machine",
    mcpu="znver3",
    features=("avx2", "fma"),
    vector_bits=256,
    cores=2,
    threads=2,
    caches=Caches(32 << 10, 512 << 10, 32 << 20),
    llvm="20.1.0",
    peak_gflops=195.0,
    peak_gbps=30.0,
    peaks_measured=True,
)


class Net:
    """Builds a graph node by node; an operator's id is also its value's name."""

    def __init__(self, name: str = "net") -> None:
        self.name = name
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []
        self.inputs: list[str] = []

    def input(self, name: str, *shape: int, dtype: str = "float32") -> str:
        self.values[name] = Value(name, shape, dtype)
        self.inputs.append(name)
        return name

    def const(self, *shape: int, dtype: str = "float32") -> str:
        name = f"c{len(self.values)}"
        data = np.linspace(0.5, 1.5, int(np.prod(shape)), dtype=dtype).reshape(shape)
        self.values[name] = Value(name, shape, dtype, data=data)
        return name

    def number(self, value: float, dtype: str = "float32") -> str:
        name = f"c{len(self.values)}"
        self.values[name] = Value(name, (), dtype, data=np.asarray(value, dtype))
        return name

    def op(self, op: str, *inputs: str | float, name: str | None = None, **attrs: object) -> str:
        given = [self.number(i) if isinstance(i, int | float) else i for i in inputs]
        values = [self.values[i] for i in given]
        node_id = name or f"lv{len(self.nodes)}"
        dtype = str(attrs.pop("dtype", values[0].dtype))
        out = Value(node_id, shape_of(op, [v.shape for v in values], attrs), dtype, producer=node_id)
        flops, space = cost_of(op, values, [out], attrs)
        kind = kind_of(op, values, [out])
        node = Node(node_id, op, kind, tuple(given), (node_id,), MappingProxyType(attrs), (node_id,), flops, space)
        self.nodes.append(node)
        self.values[node_id] = out
        return node_id

    def graph(self, *outputs: str) -> Graph:
        fingerprint = f"{hash((self.name, len(self.nodes))) & 0xFFFFFFFF:08x}" * 8
        values = MappingProxyType(dict(self.values))
        return Graph(self.name, tuple(self.nodes), values, tuple(self.inputs), outputs, fingerprint)


def shape_of(op: str, shapes: list[tuple[int, ...]], attrs: dict[str, object]) -> tuple[int, ...]:
    first = shapes[0]
    if op == "matmul":
        return tuple(np.matmul(np.empty(first, np.bool_), np.empty(shapes[1], np.bool_)).shape)
    if op in ("reshape", "broadcast_to"):
        return attrs["shape"]  # type: ignore[return-value]
    if op == "permute_dims":
        return tuple(first[a] for a in attrs["axes"])  # type: ignore[attr-defined]
    if op == "concat":
        axis = int(attrs["axis"])  # type: ignore[call-overload]
        return (*first[:axis], sum(s[axis] for s in shapes), *first[axis + 1 :])
    if op == "squeeze":
        return tuple(n for n in first if n != 1)
    if op in ("sum", "mean", "max"):
        axes = {a % len(first) for a in attrs["axis"]}  # type: ignore[attr-defined]
        kept = bool(attrs.get("keepdims"))
        return tuple(1 if i in axes else n for i, n in enumerate(first) if kept or i not in axes)
    if op == "nn.conv2d":
        pad, stride = int(attrs.get("pad", 0)), int(attrs.get("stride", 1))  # type: ignore[call-overload]
        rows, columns = ((n + 2 * pad - k) // stride + 1 for n, k in zip(first[2:], shapes[1][2:], strict=True))
        return (first[0], shapes[1][0], rows, columns)
    if op == "nn.max_pool2d":
        window = attrs["pool_size"]
        return (*first[:2], first[2] // window[0], first[3] // window[1])  # type: ignore[index]
    if op == "nn.adaptive_avg_pool2d":
        return (*first[:2], *attrs["output_size"])  # type: ignore[misc]
    if op == "take":
        return (*shapes[1], *first[1:])  # rows
    if op.startswith("nn.") or op in ("astype", "sort"):
        return first
    return tuple(np.broadcast_shapes(*shapes))


def ops(graph: Graph, nodes: tuple[str, ...]) -> str:
    """Operators of a node set, joined: what golden comparisons read."""
    return "+".join(graph.node(node).op for node in nodes)
