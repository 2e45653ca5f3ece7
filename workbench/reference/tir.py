"""A NumPy interpreter of unscheduled TIR: what LegalizeOps, FuseTIR and ``te.create_prim_func`` make.

Every block is evaluated over its whole iteration domain at once, in pieces where that would need too much memory.
Sums of products become matrix products; other sums, products, maxima and minima are array reductions; any other
reduction (argmax and its like) is folded point by point over the reduced axes and vectorised over the others.
Statements outside of blocks run one by one, with parallel loops vectorised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import KernelError
from ..tvm_seam import tvm
from .dtypes import Precision, evaluation_dtype, np_dtype
from .tir_block import Block
from .tir_domain import Loop, Vectorised
from .tir_expr import Affine, Evaluator, strided
from .tir_walk import has_block, is_leaf, written_buffers

# Statements run one at a time before the interpreter gives up: about half a minute.
_MAX_STEPS = 400_000


def evaluate_prim_func(func: Any, inputs: Sequence[np.ndarray], dtype: Precision = "float64") -> list[np.ndarray]:
    """The outputs of a PrimFunc: the parameters that it writes, in order.

    ``inputs`` are the parameters that it does not write, in order. ``float64`` and ``native`` as in
    ``workbench.reference.evaluate``: with ``float64`` every floating buffer is float64. Raises KernelError that names a
    construct which the interpreter does not know, and for inputs that do not fit.
    """
    written = written_buffers(func.body)
    buffers: dict[Any, np.ndarray] = {}
    given = list(inputs)
    outputs = []
    for param in func.params:
        if not hasattr(param.ty, "shape"):
            raise KernelError(f"parameter '{param}' is no buffer; the reference takes tensor parameters only")
        shape = _shape(param)
        if param in written:
            buffers[param] = np.zeros(shape, evaluation_dtype(str(param.dtype), dtype))
            outputs.append(param)
            continue
        if not given:
            raise KernelError(f"no array was given for parameter '{param.name}'")
        array = given.pop(0)
        if array.shape != shape:
            raise KernelError(f"parameter '{param.name}' has shape {shape}, given was {array.shape}")
        buffers[param] = np.asarray(array, evaluation_dtype(str(param.dtype), dtype), order="C")
    if given:
        raise KernelError(f"{len(given)} more arrays were given than the tensor program reads")
    with np.errstate(all="ignore"):
        Machine(dtype, buffers).run(func.body)
    return [buffers[param] for param in outputs]


def argument_roles(func: Any) -> list[bool]:
    """For every parameter of a PrimFunc, whether it is written."""
    written = written_buffers(func.body)
    return [param in written for param in func.params]


def _shape(buffer: Any) -> tuple[int, ...]:
    try:
        return tuple(int(n) for n in buffer.shape)
    except (TypeError, ValueError):
        raise KernelError(
            f"buffer '{buffer.name}' has the symbolic shape {list(buffer.shape)}; bind it first"
        ) from None


class Machine:
    """The state of one evaluation: buffers, variables, and the axes that are vectorised at the moment."""

    def __init__(self, precision: Precision, buffers: dict[Any, np.ndarray]) -> None:
        self.precision: Precision = precision
        self.buffers = buffers
        self.env: dict[Any, Any] = {}
        self.affine: dict[Any, Affine] = {}
        self.shape: tuple[int, ...] = ()
        self.mask: np.ndarray | None = None
        self.steps = 0

    def evaluator(self) -> Evaluator:
        evaluator = Evaluator(self.precision, self.env, self.buffers, self.affine, self.shape)
        evaluator.guarded = self.mask is not None
        return evaluator

    def run(self, stmt: Any) -> None:
        kind = type(stmt).__name__
        handler = _STATEMENTS.get(kind)
        if handler is None:
            raise KernelError(f"the reference cannot run a TIR statement of kind {kind}")
        handler(self, stmt)

    def sequence(self, stmt: Any) -> None:
        for part in stmt.seq:
            self.run(part)

    def bind(self, stmt: Any) -> None:
        self.env[stmt.var] = self.evaluator()(stmt.value)
        self.affine.pop(stmt.var, None)

    def attribute(self, stmt: Any) -> None:
        self.run(stmt.body)

    def evaluate(self, stmt: Any) -> None:
        if isinstance(stmt.value, tvm.tirx.IntImm):
            return
        raise KernelError(f"the reference cannot run the call {stmt.value}")

    def allocate(self, stmt: Any) -> None:
        self.allocate_buffer(stmt.buffer)

    def allocate_buffer(self, buffer: Any) -> None:
        self.buffers[buffer] = np.zeros(_shape(buffer), evaluation_dtype(str(buffer.dtype), self.precision))

    def condition(self, stmt: Any) -> None:
        chosen = self.evaluator()(stmt.condition)
        if np.ndim(chosen) == 0:
            branch = stmt.then_case if chosen else stmt.else_case
            if branch is not None:
                self.run(branch)
            return
        outer = self.mask
        for branch, mask in ((stmt.then_case, chosen), (stmt.else_case, np.logical_not(chosen))):
            if branch is not None:
                self.mask = mask if outer is None else outer & mask
                self.run(branch)
        self.mask = outer

    def while_loop(self, stmt: Any) -> None:
        if self.shape:
            raise KernelError("the reference cannot run a while loop inside a parallel loop")
        while self.evaluator()(stmt.condition):
            self.step()
            self.run(stmt.body)

    def step(self) -> None:
        self.steps += 1
        if self.steps > _MAX_STEPS:
            raise KernelError(f"the tensor program takes more than {_MAX_STEPS} steps that cannot be vectorised")

    # Loops and blocks

    def loop(self, stmt: Any) -> None:
        loops, body = [], stmt
        while type(body).__name__ == "For":
            loops.append(self._bounds(body))
            body = body.body
        if not self.shape and type(body).__name__ == "SBlockRealize" and is_leaf(body.block):
            Block(self, body, loops).run()
            return
        if not self.shape and stmt.kind == tvm.tirx.ForKind.PARALLEL and not has_block(stmt.body):
            with Vectorised(self, [loops[0]]):
                self.run(stmt.body)
            return
        self.repeat(loops[0], lambda: self.run(stmt.body))

    def _bounds(self, stmt: Any) -> Loop:
        evaluator = self.evaluator()
        try:
            return Loop(stmt.loop_var, int(evaluator(stmt.min)), int(evaluator(stmt.extent)))
        except KernelError:  # bounds that depend on an outer loop of the same nest
            return Loop(stmt.loop_var, 0, -1)

    def repeat(self, loop: Loop, action: Callable[[], None]) -> None:
        """Runs something for every value of a loop variable, one by one."""
        integer = np_dtype(str(loop.var.ty)).type
        for i in range(loop.start, loop.start + loop.extent):
            self.step()
            self.env[loop.var] = integer(i)
            action()

    def block(self, stmt: Any) -> None:
        """A block outside of a perfect nest: the root, an opaque block, or one whose loops run one by one."""
        block = stmt.block
        if not self.shape and is_leaf(block):
            Block(self, stmt, []).run()
            return
        if block.match_buffers:
            raise KernelError(f"the reference cannot run block '{block.name_hint}', which matches buffer regions")
        evaluator = self.evaluator()
        if not evaluator(stmt.predicate):
            return
        reducing = False
        first = True
        for iter_var, value in zip(block.iter_vars, stmt.iter_values, strict=True):
            self.env[iter_var.var] = evaluator(value)
            if iter_var.iter_type == tvm.tirx.IterVar.CommReduce:
                reducing = True
                first = first and int(self.env[iter_var.var]) == int(evaluator(iter_var.dom.min))
        for buffer in block.alloc_buffers:
            self.allocate_buffer(buffer)
        if block.init is not None and (first or not reducing):
            self.run(block.init)
        self.run(block.body)

    def store(self, stmt: Any) -> None:
        """One store over the vectorised axes; later positions win where indices repeat."""
        evaluator = self.evaluator()
        value = evaluator(stmt.value)
        target = evaluator.buffer(stmt.buffer)
        forms = [evaluator.form(i) for i in stmt.indices]
        if self.mask is None and all(f is not None for f in forms):
            view = strided(target, forms, self.shape)  # type: ignore[arg-type]
            spread = np.shape(value)
            if view is not None and all(n == 1 or n == m for n, m in zip(spread, view.shape, strict=False)):
                view[...] = value
                return
        self._scatter(stmt, evaluator, target, value)

    def _scatter(self, stmt: Any, evaluator: Evaluator, target: np.ndarray, value: Any) -> None:
        index = [np.broadcast_to(np.asarray(evaluator(i)).astype(np.int64), self.shape) for i in stmt.indices]
        spread = np.broadcast_to(value, self.shape)
        if self.mask is not None:
            chosen = np.broadcast_to(self.mask, self.shape)
            index, spread = [i[chosen] for i in index], spread[chosen]
        for i, n in zip(index, target.shape, strict=True):
            if i.size and (i.min() < 0 or i.max() >= n):
                raise KernelError(
                    f"the tensor program writes {stmt.buffer.name} at {int(i.min())}..{int(i.max())} of {n}"
                )
        target[tuple(index)] = spread


_STATEMENTS: dict[str, Callable[[Machine, Any], None]] = {
    "SeqStmt": Machine.sequence,
    "Bind": Machine.bind,
    "AttrStmt": Machine.attribute,
    "Evaluate": Machine.evaluate,
    "AllocBuffer": Machine.allocate,
    "IfThenElse": Machine.condition,
    "While": Machine.while_loop,
    "For": Machine.loop,
    "SBlockRealize": Machine.block,
    "BufferStore": Machine.store,
}
