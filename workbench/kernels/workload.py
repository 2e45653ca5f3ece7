"""A workload: the tensor program of a group, identified by its structure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..graph import Graph
from ..models.model import TensorSpec

if TYPE_CHECKING:
    import tvm


@dataclass(frozen=True, eq=False)
class Workload:
    """One unscheduled TIR PrimFunc, normalised to an IRModule with ``main``.

    ``key`` is sha256 over TVM's structural JSON of the function without its name, so equal groups with different
    weights (weights are parameters) have one key. ``args`` are inputs, then constants, then outputs, in parameter
    order. ``layout_free`` are the indices of arguments that hold constants and may be re-packed at compile time.
    """

    key: str
    module: tvm.IRModule
    args: tuple[TensorSpec, ...]
    num_outputs: int
    layout_free: tuple[int, ...]
    ops: tuple[str, ...]  # operators, in order, such as ("matmul", "add", "nn.gelu")
    flops: float
    bytes: int  # least traffic: every argument once
    graph: Graph | None = None  # the group's operators; its inputs are ``args`` without the outputs. None for `greedy`

    @property
    def label(self) -> str:
        """Operators joined by ``+``, for tables."""
        return "+".join(op.removeprefix("nn.") for op in self.ops)

    @property
    def shapes(self) -> str:
        """Shapes of the inputs and the first output, for tables: ``256x512, 512x2048 -> 256x2048``."""
        texts = ["x".join(str(extent) for extent in spec.shape) or "scalar" for spec in self.args]
        first_output = len(texts) - self.num_outputs
        return f"{', '.join(texts[:first_output])} -> {texts[first_output]}"


@dataclass(frozen=True)
class KernelCall:
    """One call of a workload in the lowered ``main``."""

    group: str  # group id, or the TVM function name for `greedy`
    function: str  # name of the GlobalVar in the lowered module
    workload: str  # Workload.key
    ops: tuple[str, ...]
    nodes: tuple[str, ...]  # graph node ids; () where the partition is TVM's own


@dataclass(frozen=True, eq=False)
class LoweredModel:
    """A partitioned model on the level of TIR: ``main`` calls one PrimFunc a group.

    ``workloads`` maps a key to its workload (equal groups share one); ``calls`` lists the calls in order.
    ``intermediate_bytes``: bytes that kernels write for, and read from, each other (see ``main_function.traffic``).
    """

    name: str  # variant: "unfused", "greedy", "planned"
    module: tvm.IRModule
    workloads: dict[str, Workload]
    calls: tuple[KernelCall, ...]
    intermediate_bytes: int
