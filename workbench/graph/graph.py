"""The immutable dataflow view of a model: pure data, nothing of TVM in it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

import numpy as np

from ..errors import PlanError

_BITS = {"bool": 8, "bfloat16": 16, "float8_e4m3fn": 8, "float8_e5m2": 8, "int4": 4, "uint4": 4}


def dtype_bytes(dtype: str) -> float:
    """Bytes of one element of a TVM dtype name such as ``float32`` or ``bool`` (0.5 for 4-bit types)."""
    if dtype in _BITS:
        return _BITS[dtype] / 8
    return int(dtype.lstrip("abcdefghijklmnopqrstuvwxyz").partition("_")[0] or 8) / 8


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor: an input, a constant (``data`` set), or what a node produces."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    producer: str | None = None  # node id; None for inputs and constants
    data: np.ndarray | None = None  # constants only; read-only, shared with the model

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of the dense tensor."""
        return math.ceil(self.size * dtype_bytes(self.dtype))


@dataclass(frozen=True)
class IterationSpace:
    """Extents of the loops of a node's main computation: those that index its output, and those that are summed.

    For row-wise operators (softmax, norms) ``spatial`` are the rows and ``reduction`` the normalised axes.
    """

    spatial: tuple[int, ...]
    reduction: tuple[int, ...] = ()

    @property
    def points(self) -> int:
        """Number of iterations."""
        return math.prod(self.spatial) * math.prod(self.reduction)


@dataclass(frozen=True, eq=False)
class Node:
    """One operator. Items taken from a tuple result belong to the node: each is one of ``outputs``.

    ``id`` is the name of the operator's binding in ``model.module["main"]``; ``bindings`` are all binding names the
    node covers (the call first, then its tuple items). ``op`` is the Relax name without ``relax.``, such as
    ``nn.softmax``; ``call_tir:NAME`` for a user's own tensor program. ``inputs`` are value names in argument order
    (tuples flattened). ``attrs`` holds plain Python values (int, float, str, bool, tuples of these), shape arguments
    included (``reshape`` has ``shape``, ``clip`` has ``min`` and ``max``). Where the operator returns a tuple,
    ``attrs["tuple_items"]`` says which item each of ``outputs`` is. Two attributes are TVM objects, for the reference
    only: ``prim_func`` of ``call_tir:NAME`` and ``index_map`` of ``layout_transform``.
    """

    id: str
    op: str
    kind: str  # "elementwise" | "broadcast" | "injective" | "reduction" | "contraction" | "opaque"
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, object]
    bindings: tuple[str, ...]
    flops: float
    space: IterationSpace


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in topological (program) order; every mapping is read-only.

    ``module`` is the Relax module that the graph was read from, for rules that match Relax patterns; nothing else may
    look at it, and a graph made by hand or cut out of another has none.
    """

    name: str
    nodes: tuple[Node, ...]
    values: Mapping[str, Value]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    fingerprint: str
    module: object | None = field(default=None, repr=False)

    @cached_property
    def _nodes_by_id(self) -> dict[str, Node]:
        return {node.id: node for node in self.nodes}

    @cached_property
    def _position(self) -> dict[str, int]:
        return {node.id: i for i, node in enumerate(self.nodes)}

    @cached_property
    def _users(self) -> dict[str, tuple[Node, ...]]:
        users: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                users.setdefault(name, []).append(node)
        return {name: tuple(nodes) for name, nodes in users.items()}

    @cached_property
    def _predecessors(self) -> dict[str, tuple[Node, ...]]:
        found = {}
        for node in self.nodes:
            producers = (self.values[name].producer for name in node.inputs)
            found[node.id] = tuple(self._nodes_by_id[p] for p in dict.fromkeys(producers) if p is not None)
        return found

    @cached_property
    def _successors(self) -> dict[str, tuple[Node, ...]]:
        found = {}
        for node in self.nodes:
            ids = {user.id for out in node.outputs for user in self.users(out)}
            found[node.id] = tuple(self._nodes_by_id[i] for i in sorted(ids, key=self._position.__getitem__))
        return found

    @cached_property
    def _output_set(self) -> frozenset[str]:
        return frozenset(self.outputs)

    def node(self, node_id: str) -> Node:
        """The node of this id; PlanError when the graph has none."""
        try:
            return self._nodes_by_id[node_id]
        except KeyError:
            raise PlanError(
                f"graph '{self.name}' has no node '{node_id}'; it has {len(self.nodes)}, such as "
                f"{', '.join(n.id for n in self.nodes[:3]) or 'none'}"
            ) from None

    def producer(self, value: str) -> Node | None:
        """The node that produces a value; None for inputs and constants."""
        node_id = self.values[value].producer
        return None if node_id is None else self._nodes_by_id[node_id]

    def users(self, value: str) -> tuple[Node, ...]:
        """Nodes that read a value, in program order, each once."""
        return self._users.get(value, ())

    def predecessors(self, node_id: str) -> tuple[Node, ...]:
        """Nodes whose results the node reads, each once, in argument order."""
        return self._predecessors[self.node(node_id).id]

    def successors(self, node_id: str) -> tuple[Node, ...]:
        """Nodes that read one of the node's results, each once, in program order."""
        return self._successors[self.node(node_id).id]

    def order(self, node_ids: Iterable[str]) -> tuple[str, ...]:
        """The given node ids, each once, in program order."""
        return tuple(sorted({self.node(i).id for i in node_ids}, key=self._position.__getitem__))

    def group_inputs(self, node_ids: Iterable[str]) -> tuple[str, ...]:
        """Values that the nodes read and do not produce: tensors first, then constants (0-d ones included).

        Each once, in order of first use.
        """
        members = self.order(node_ids)
        inner = set(members)
        read = dict.fromkeys(name for i in members for name in self._nodes_by_id[i].inputs)
        outer = [name for name in read if self.values[name].producer not in inner]
        return tuple(sorted(outer, key=lambda name: self.values[name].is_constant))

    def group_outputs(self, node_ids: Iterable[str]) -> tuple[str, ...]:
        """Values that the nodes produce and that are read outside of them, or are outputs of the graph."""
        members = self.order(node_ids)
        inner = set(members)
        return tuple(
            out
            for i in members
            for out in self._nodes_by_id[i].outputs
            if out in self._output_set or any(user.id not in inner for user in self.users(out))
        )

    def is_output(self, value: str) -> bool:
        """Whether a value is an output of the graph."""
        return value in self._output_set

    def subgraph(self, node_ids: Iterable[str]) -> Graph:
        """The nodes alone: values that come from outside become inputs, constants stay constants.

        Outputs are ``group_outputs``. The fingerprint stays that of the whole graph.
        """
        members = self.order(node_ids)
        boundary = self.group_inputs(members)
        nodes = tuple(self._nodes_by_id[i] for i in members)
        values: dict[str, Value] = {}
        for name in boundary:
            value = self.values[name]
            values[name] = value if value.is_constant else Value(name, value.shape, value.dtype)
        for node in nodes:
            values.update((out, self.values[out]) for out in node.outputs)
        return Graph(
            name=self.name,
            nodes=nodes,
            values=MappingProxyType(values),
            inputs=tuple(name for name in boundary if not self.values[name].is_constant),
            outputs=self.group_outputs(members),
            fingerprint=self.fingerprint,
        )

    @property
    def flops(self) -> float:
        """Floating-point operations of all nodes (see ``_cost`` for what counts as one)."""
        return sum(node.flops for node in self.nodes)

    def describe(self) -> str:
        """One line a node: what it makes of what, as text."""
        lines = [f"graph {self.name}: {len(self.nodes)} nodes, {self.flops / 1e6:.3g} MFLOP"]
        lines += [f"  input  {_typed(self.values[name])}" for name in self.inputs]
        for node in self.nodes:
            made = ", ".join(_typed(self.values[out]) for out in node.outputs)
            read = ", ".join(_short(self.values[name]) for name in node.inputs)
            lines.append(f"  {made} = {node.op}({read})  # {node.kind}, {node.flops:.3g} flops")
        lines.append(f"  output {', '.join(self.outputs)}")
        return "\n".join(lines)


def _typed(value: Value) -> str:
    return f"{value.name}: {value.dtype}[{', '.join(map(str, value.shape))}]"


def _short(value: Value) -> str:
    if value.data is None:
        return value.name
    return f"{value.data}" if value.data.ndim == 0 else f"const[{', '.join(map(str, value.shape))}]"


def from_model(model: object) -> Graph:
    """The graph of a ``workbench.models.Model``; see ``_from_relax`` for what raises."""
    from . import _from_relax

    return _from_relax.from_model(model)


def from_function(func: object, name: str, fingerprint: str = "", module: object = None) -> Graph:
    """The graph of one Relax function, such as a group's Primitive function.

    ``module`` is where the tensor programs that it calls (``call_tir``) are found; without it they have no reference.
    """
    from . import _from_relax

    return _from_relax.from_function(func, name, fingerprint, module)
