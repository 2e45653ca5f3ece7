"""The immutable dataflow view of a model: pure data, nothing of TVM in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor: an input, a constant (``data`` set), or what a node produces."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    producer: str | None = None  # node id; None for inputs and constants
    data: np.ndarray | None = None  # constants only; read-only, shared with the model

    @property
    def is_constant(self) -> bool: ...

    @property
    def bytes(self) -> int: ...


@dataclass(frozen=True)
class IterationSpace:
    """Extents of the loops of a node's main computation: those that index its output, and those that are summed."""

    spatial: tuple[int, ...]
    reduction: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Node:
    """One operator. Items taken from a tuple result belong to the node: each is one of ``outputs``.

    ``id`` is the name of the operator's binding in ``model.module["main"]``; ``bindings`` are all binding names the
    node covers (the call first, then its tuple items). ``op`` is the Relax name without ``relax.``, such as
    ``nn.softmax``; ``call_tir:NAME`` for a user's own tensor program. ``inputs`` are value names in argument order
    (tuples flattened). ``attrs`` holds plain Python values (int, float, str, bool, tuples of these), shape arguments
    included (``reshape`` has ``shape``, ``clip`` has ``min`` and ``max``).
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
    """Nodes in topological (program) order; every mapping is read-only."""

    name: str
    nodes: tuple[Node, ...]
    values: Mapping[str, Value]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    fingerprint: str

    def node(self, node_id: str) -> Node: ...
    def producer(self, value: str) -> Node | None: ...
    def users(self, value: str) -> tuple[Node, ...]: ...
    def predecessors(self, node_id: str) -> tuple[Node, ...]: ...
    def successors(self, node_id: str) -> tuple[Node, ...]: ...
    def group_inputs(self, node_ids: frozenset[str]) -> tuple[str, ...]: ...
    def group_outputs(self, node_ids: frozenset[str]) -> tuple[str, ...]: ...
    def order(self, node_ids: frozenset[str]) -> tuple[str, ...]: ...


def from_model(model: object) -> Graph: ...
