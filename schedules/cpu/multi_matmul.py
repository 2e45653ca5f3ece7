"""Several matmuls of one input in one kernel: SwiGLU, query/key/value projections.

::

    parallel task (row block, column range):
        copy the row block of x                                       # rows beyond the last are repeated
        for each panel of columns, for each tile of rows:
            for each matmul:  c = x[rows] @ packed[panel]             # in registers
            write every output's elementwise tail of the c's          # bias, activation, gate

Matmuls whose results meet (SwiGLU's gate and up projection) share the loop over panels, so that they meet in cache.
Weights are read as ``packed[panel, k, column]``. Constant weights are packed once, when the kernel is loaded (blocks
marked ``meta_schedule.layout_rewrite_preproc``); weights that are activations are packed at each call.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from workbench.graph import Graph, Node
from workbench.targets import Target
from workbench.tvm_seam import tvm

from .._base import LibrarySchedule, Parameters
from .._expressions import (
    ELEMENTWISE,
    Evaluator,
    Expr,
    Index,
    Unsupported,
    broadcast_index,
    kernel_arguments,
    substitute,
    unravel,
)
from ._register_tile import (
    Buffer,
    IRBuilder,
    RegisterTile,
    T,
    accumulator_buffer,
    ceil_div,
    emit_product,
    emit_row_copy,
    float_lanes,
    scheduled_module,
)

if TYPE_CHECKING:
    from workbench.kernels.workload import Workload

# A copied row starts this many floats after the end of the last one: rows of 4 KiB would share one set of the L1 cache.
_ROW_PADDING = 16


@dataclass(frozen=True)
class _Branch:
    """Matmuls whose results meet in elementwise operators, and the outputs made of them; all are [..., columns]."""

    matmuls: tuple[Node, ...]
    outputs: tuple[str, ...]
    columns: int


@dataclass(frozen=True)
class _Problem:
    graph: Graph
    arguments: tuple[str, ...]
    x: str
    rows: int  # all dimensions of x but the last, multiplied
    depth: int  # extent of the sum
    branches: tuple[_Branch, ...]


class MultiMatmul(LibrarySchedule):
    """``x @ W_i`` for at least two W_i, each with an elementwise tail, or with tails that meet."""

    name: ClassVar[str] = "multi_matmul"
    summary: ClassVar[str] = "several matmuls of one input with elementwise tails (SwiGLU, QKV), any sizes"

    def serves(self, workload: Workload) -> bool:
        """float32; at least two matmuls of one argument with 2-d weights, all else elementwise on their results."""
        return _analyse(workload) is not None

    def space(self, workload: Workload, target: Target) -> Mapping[str, tuple[int, ...]]:
        """``tile_rows`` x ``tile_vectors`` registers; ``block_rows`` of x and 1 of ``column_tasks`` ranges a task."""
        problem = _problem(workload)
        wide = target.vector_bits >= 512
        tile_rows = [rows for rows in ((8, 12, 6) if wide else (6, 4)) if rows <= problem.rows] or [problem.rows]
        blocks = list(dict.fromkeys(min(rows, problem.rows) for rows in (128, 64, 256)))
        # Rows of x are read once a panel of columns: they should stay in half of the L2 cache, panels take the rest.
        blocks.sort(key=lambda rows: 4 * rows * problem.depth > (target.caches.l2 or 2**19) // 2)
        return {
            "tile_rows": tuple(tile_rows),
            "tile_vectors": (2, 3) if wide or target.vector_bits >= 256 else (2, 1),
            "block_rows": tuple(blocks),
            "column_tasks": (target.threads, 2 * target.threads, 4 * target.threads),
        }

    def legal(self, workload: Workload, target: Target, parameters: Parameters) -> bool:
        """The tile fits the registers, and every thread has a task unless the product is small."""
        tile = _tile(target, parameters)
        problem = _problem(workload)
        panels = max(ceil_div(branch.columns, tile.columns) for branch in problem.branches)
        few = parameters["column_tasks"] == target.threads
        return tile.fits(target) and (few or parameters["column_tasks"] <= panels)

    def apply(self, workload: Workload, target: Target, parameters: Parameters) -> tvm.IRModule:
        """The kernel, written for the workload's sizes."""
        return _Writer(workload, _problem(workload), target, parameters).write()


def _tile(target: Target, parameters: Parameters) -> RegisterTile:
    return RegisterTile(parameters["tile_rows"], parameters["tile_vectors"], float_lanes(target))


def _problem(workload: Workload) -> _Problem:
    problem = _analyse(workload)
    if problem is None:
        raise Unsupported(f"{workload.label} is not made of matmuls of one input")
    return problem


def _analyse(workload: Workload) -> _Problem | None:
    graph = workload.graph
    if graph is None or len(workload.args) > 32:
        return None
    arguments = kernel_arguments(graph)
    matmuls = [node for node in graph.nodes if node.op == "matmul"]
    tails = [node for node in graph.nodes if node.op != "matmul"]
    if len(matmuls) < 2 or not all(_is_projection(graph, node, arguments) for node in matmuls):
        return None
    x = matmuls[0].inputs[0]
    if any(node.inputs[0] != x for node in matmuls) or any(node.op not in ELEMENTWISE for node in tails):
        return None
    shapes = tuple(graph.values[name].shape for name in (*arguments, *graph.outputs))
    if shapes != tuple(spec.shape for spec in workload.args):
        return None
    branches = _branches(graph, matmuls)
    if branches is None:
        return None
    *outer, depth = graph.values[x].shape
    problem = _Problem(graph, arguments, x, math.prod(outer), depth, branches)
    return problem if _writable(problem) else None


def _is_projection(graph: Graph, node: Node, arguments: Sequence[str]) -> bool:
    """[..., K] @ [K, N] of arguments in float32; the weight is read by nothing else than matmuls, on their right."""
    left, right = (graph.values[name] for name in node.inputs)
    if left.name not in arguments or right.name not in arguments or left.name == right.name:
        return False
    if len(left.shape) < 2 or len(right.shape) != 2 or math.prod(left.shape) * right.size == 0:
        return False
    as_weight = all(user.op == "matmul" and user.inputs[0] != right.name for user in graph.users(right.name))
    return as_weight and {left.dtype, right.dtype, graph.values[node.outputs[0]].dtype} == {"float32"}


def _branches(graph: Graph, matmuls: Sequence[Node]) -> tuple[_Branch, ...] | None:
    """Partition by which matmuls an output depends on; None when an output is no tensor [..., N] of a matmul."""
    sources: dict[str, frozenset[str]] = {node.outputs[0]: frozenset({node.id}) for node in matmuls}
    for node in graph.nodes:
        if node.op != "matmul":
            found = frozenset().union(*(sources.get(name, frozenset()) for name in node.inputs))
            sources.update((out, found) for out in node.outputs)
    parts: list[set[str]] = [{node.id} for node in matmuls]
    for name in graph.outputs:
        meeting = [part for part in parts if part & sources.get(name, frozenset())]
        if not meeting or graph.values[name].dtype != "float32":
            return None
        parts = [part for part in parts if part not in meeting] + [set().union(*meeting)]
    branches = []
    for part in parts:
        members = tuple(node for node in matmuls if node.id in part)
        outputs = tuple(name for name in graph.outputs if sources[name] & part)
        shapes = {graph.values[name].shape for name in (*outputs, *(node.outputs[0] for node in members))}
        if len(shapes) != 1 or not outputs:
            return None
        branches.append(_Branch(members, outputs, shapes.pop()[-1]))
    return tuple(sorted(branches, key=lambda branch: graph.outputs.index(branch.outputs[0])))


def _writable(problem: _Problem) -> bool:
    """Whether every output has an expression."""
    row, column = tvm.tirx.Var("row", "int32"), tvm.tirx.Var("column", "int32")
    zero = tvm.tirx.const(0.0, "float32")
    dtypes = {name: problem.graph.values[name].dtype for name in problem.arguments}
    try:
        for branch in problem.branches:
            held = {node.outputs[0]: zero for node in branch.matmuls}
            _tails(problem, branch, row, column, held, lambda name, _index: tvm.tirx.const(0, dtypes[name]))
    except Unsupported:
        return False
    return True


def _tails(
    problem: _Problem, branch: _Branch, row: Expr, column: Expr, held: Mapping[str, Expr], argument: Any
) -> list[tuple[str, Index, Expr]]:
    """(output, index, expression) of a branch's outputs at one row and column of its matmuls."""
    graph = problem.graph

    def leaf(name: str, index: Index) -> Expr | None:
        if name in held:
            return held[name]
        if name in problem.arguments:
            return argument(name, broadcast_index(graph.values[name].shape, index))
        return None

    evaluator = Evaluator(graph, {row: problem.rows, column: branch.columns}, leaf)
    outer = graph.values[branch.outputs[0]].shape[:-1]
    index = (*(evaluator.simplify(i) for i in unravel(row, outer)), column)
    return [(name, index, evaluator.evaluate(name, index)) for name in branch.outputs]


class _Writer:
    """Writes one kernel. All extents are static; the last row block and the last panel may be partly empty."""

    def __init__(self, workload: Workload, problem: _Problem, target: Target, parameters: Parameters) -> None:
        self.workload, self.problem = workload, problem
        self.tile = _tile(target, parameters)
        self.block_rows = parameters["block_rows"]
        self.block_tiles = ceil_div(self.block_rows, self.tile.rows)
        self.row_tasks = ceil_div(problem.rows, self.block_rows)
        self.column_tasks = parameters["column_tasks"]
        self.row_stride = problem.depth + _ROW_PADDING
        self.buffers: dict[str, Buffer] = {}
        self.packed: dict[str, Buffer] = {}

    def write(self) -> tvm.IRModule:
        names = (*self.problem.arguments, *self.problem.graph.outputs)
        with IRBuilder() as builder:
            with T.prim_func(s_tir=True):
                T.func_name("main")
                T.func_attr({"tirx.noalias": True})
                for position, (name, spec) in enumerate(zip(names, self.workload.args, strict=True)):
                    self.buffers[name] = T.arg(f"a{position}", T.buffer(spec.shape, spec.dtype))
                self._pack_weights()
                with T.parallel(0, self.row_tasks * self.column_tasks) as task, T.sblock("task"):
                    bound = T.axis.spatial(self.row_tasks * self.column_tasks, task)
                    T.reads()
                    T.writes()
                    self._task(bound // self.column_tasks, bound % self.column_tasks)
            return scheduled_module(builder)

    def _panels(self, columns: int) -> int:
        return ceil_div(columns, self.tile.columns)

    def _pack_weights(self) -> None:
        """packed[panel, k, column] = weight[k, panel * columns + column], zero beyond the last column."""
        columns = self.tile.columns
        for name in dict.fromkeys(node.inputs[1] for branch in self.problem.branches for node in branch.matmuls):
            weight = self.buffers[name]
            depth, width = self.problem.graph.values[name].shape
            panels = self._panels(width)
            packed = self.packed[name] = T.sblock_alloc_buffer((panels, depth, columns), "float32")
            constant = self.problem.arguments.index(name) in self.workload.layout_free
            loops = (T.parallel(0, panels), T.serial(0, depth), T.vectorized(0, columns))
            with loops[0] as i, loops[1] as k, loops[2] as j, T.sblock(f"pack_{len(self.packed) - 1}"):
                panel, row, column = T.axis.spatial(panels, i), T.axis.spatial(depth, k), T.axis.spatial(columns, j)
                source = panel * columns + column
                T.reads(weight[row, T.min(source, width - 1)])
                T.writes(packed[panel, row, column])
                if constant:
                    T.sblock_attr({"meta_schedule.layout_rewrite_preproc": True})
                value = weight[row, source]
                if width % columns:
                    value = T.if_then_else(source < width, value, T.float32(0))
                T.buffer_store(packed, value, [panel, row, column])

    def _task(self, row_task: Expr, column_task: Expr) -> None:
        tile = self.tile
        # One dimension: TVM would take the padding out of a second one.
        block = T.sblock_alloc_buffer((self.block_tiles * tile.rows * self.row_stride,), "float32")
        accumulators = accumulator_buffer(tile)
        most = max(len(branch.matmuls) for branch in self.problem.branches)
        results = [T.sblock_alloc_buffer((tile.rows, tile.columns), "float32") for _ in range(most)]
        first_row = row_task * self.block_rows
        self._copy_rows(block, first_row)
        for branch in self.problem.branches:
            panels = self._panels(branch.columns)
            a_task = ceil_div(panels, self.column_tasks)
            count = T.max(T.min(a_task, panels - column_task * a_task), 0)
            with T.serial(0, count) as offset, T.serial(0, self.block_tiles) as row_tile:
                panel = column_task * a_task + offset
                for node, result in zip(branch.matmuls, results, strict=False):
                    self._product(block, accumulators, result, node, panel, row_tile)
                left_rows = T.min(self.problem.rows - first_row, self.block_rows) - row_tile * tile.rows
                with T.serial(0, T.max(T.min(left_rows, tile.rows), 0)) as i:
                    self._write_row(branch, results, first_row + row_tile * tile.rows + i, i, panel)

    def _copy_rows(self, block: Buffer, first_row: Expr) -> None:
        x = self.buffers[self.problem.x]
        outer = self.problem.graph.values[self.problem.x].shape[:-1]
        with T.serial(0, self.block_tiles * self.tile.rows) as i:
            source = unravel(T.min(first_row + i, self.problem.rows - 1), outer)

            def store(k: Expr) -> None:
                T.buffer_store(block, x[(*source, k)], [i * self.row_stride + k])

            emit_row_copy(self.tile.lanes, self.problem.depth, store)

    def _product(
        self, block: Buffer, accumulators: Buffer, result: Buffer, node: Node, panel: Expr, row_tile: Expr
    ) -> None:
        packed = self.packed[node.inputs[1]]
        emit_product(
            self.tile,
            accumulators,
            self.problem.depth,
            initial=lambda i, j: T.float32(0),
            left=lambda i, k: block[(row_tile * self.tile.rows + i) * self.row_stride + k],
            right=lambda k, j: packed[panel, k, j],
            finish=lambda i, j, value: T.buffer_store(result, value, [i, j]),
        )

    def _write_row(self, branch: _Branch, results: Sequence[Buffer], row: Expr, i: Expr, panel: Expr) -> None:
        """One row of a tile: whole vectors where the panel is full, else column by column."""
        tile = self.tile
        first = panel * tile.columns

        def store(j: Expr) -> None:
            self._store(branch, results, row, first + j, i, j)

        def full() -> None:
            with T.serial(0, tile.vectors) as vector, T.vectorized(0, tile.lanes) as lane:
                store(vector * tile.lanes + lane)

        if branch.columns % tile.columns == 0:
            full()
            return
        with T.If(first + tile.columns <= branch.columns):
            with T.Then():
                full()
            with T.Else(), T.serial(0, T.max(branch.columns - first, 0)) as j:
                store(j)

    def _store(self, branch: _Branch, results: Sequence[Buffer], row: Expr, column: Expr, i: Expr, j: Expr) -> None:
        row_name, column_name = tvm.tirx.Var("row", "int32"), tvm.tirx.Var("column", "int32")
        held = {node.outputs[0]: result[i, j] for node, result in zip(branch.matmuls, results, strict=False)}
        values = {row_name: row, column_name: column}
        for name, index, value in _tails(
            self.problem, branch, row_name, column_name, held, lambda name, index: self.buffers[name][index]
        ):
            place = [substitute(part, values) for part in index]
            T.buffer_store(self.buffers[name], substitute(value, values), place)
