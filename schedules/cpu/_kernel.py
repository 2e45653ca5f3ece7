"""What every kernel that is written for a whole graph shares: its arguments, and the function around its body."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from workbench.graph import Graph
from workbench.tvm_seam import tvm

from .._expressions import Leaf, Unsupported, kernel_arguments
from ._register_tile import Buffer, IRBuilder, T, scheduled_module

if TYPE_CHECKING:
    from workbench.kernels.workload import Workload

Found = TypeVar("Found")
Finder: TypeAlias = Callable[[Graph, tuple[str, ...], Leaf], Found]


def find(workload: Workload, finder: Finder[Found]) -> Found | None:
    """What ``finder`` sees in the workload's graph; None without a graph, and where the finder raises Unsupported.

    None too where the workload's tensors are not the graph's values as they are, such as weights in another layout.
    """
    graph = workload.graph
    if graph is None:
        return None
    arguments = kernel_arguments(graph)
    shapes = tuple(graph.values[name].shape for name in (*arguments, *graph.outputs))
    if shapes != tuple(spec.shape for spec in workload.args):
        return None
    try:
        return finder(graph, arguments, lambda name, _index: tvm.tirx.Var("element", graph.values[name].dtype))
    except Unsupported:
        return None


def find_inside(workload: Workload, finder: Finder[Found], buffers: Mapping[str, Buffer]) -> Found:
    """What ``finder`` sees, its leaves elements of the buffers of the function that :func:`write` has opened."""
    assert workload.graph is not None
    arguments = kernel_arguments(workload.graph)
    return finder(workload.graph, arguments, lambda name, index: buffers[name][index])


def write(workload: Workload, body: Callable[[Mapping[str, Buffer]], None]) -> tvm.IRModule:
    """A module whose ``main`` takes the graph's arguments and outputs; ``body`` emits what it does with their buffers,
    which it gets by the values' names."""
    graph = workload.graph
    assert graph is not None
    names = (*kernel_arguments(graph), *graph.outputs)
    with IRBuilder() as builder:
        with T.prim_func(s_tir=True):
            T.func_name("main")
            T.func_attr({"tirx.noalias": True})
            body(
                {
                    name: T.arg(f"a{position}", T.buffer(spec.shape, spec.dtype))
                    for position, (name, spec) in enumerate(zip(names, workload.args, strict=True))
                }
            )
        return scheduled_module(builder)
