"""Publicly reported inputs on which a compiler's own fusion was slow, as models: ``benchmarks/fusion_cases.py:NAME``.

All are float32, whatever the report used. Shapes are the report's where it has them; the other sizes are chosen so
that a case runs on two cores in milliseconds, and the function's docstring gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from workbench.models.zoo._net import Net
from workbench.tvm_seam import relax, tvm

Shape = tuple[int, ...]

COLUMNS = 4096
LAYERS = 12
TREES = 500
LEVELS = 8


@dataclass(frozen=True)
class Case:
    """A reported input. ``right``: what a planner should make of it."""

    build: Callable[[], tvm.IRModule]
    url: str
    right: str


def pool_of_concats() -> tvm.IRModule:
    """Nine adds, concatenated in threes and then all, a 2x2 max-pool and two adds behind it; x[1, 16, 64, 64]."""

    def body(net: Net, x: Any) -> Any:
        parts = [net("add", x, 0.5 + i) for i in range(9)]
        thirds = [net("concat", relax.Tuple(parts[i : i + 3]), axis=1) for i in (0, 3, 6)]
        joined = net("concat", relax.Tuple(thirds), axis=1)
        pooled = net("nn.max_pool2d", joined, pool_size=[2, 2], strides=[2, 2])
        return net("add", pooled, 1.25), net("add", pooled, 2.75)

    return _module({"x": (1, 16, 64, 64)}, body)


def thin_chain_8() -> tvm.IRModule:
    """``z = exp(x - z / 2)`` 8 times on x[4096, 1], then added to b[4096, 4096].

    On a CPU LLVM hoists what is the same in a whole row out of the inner loop, so that fusing costs little here.
    """
    return _thin_chain(8, (COLUMNS, 1))


def thin_chain_16() -> tvm.IRModule:
    """``z = exp(x - z / 2)`` 16 times on x[4096, 1], then added to b[4096, 4096]; see ``thin_chain_8``."""
    return _thin_chain(16, (COLUMNS, 1))


def thin_row_chain_8() -> tvm.IRModule:
    """``thin_chain_8`` with x[1, 4096]: what is thin is a row, so that no compiler hoists it out of the inner loop."""
    return _thin_chain(8, (1, COLUMNS))


def thin_row_chain_16() -> tvm.IRModule:
    """``thin_chain_16`` with x[1, 4096]; see ``thin_row_chain_8``."""
    return _thin_chain(16, (1, COLUMNS))


def masked_softmax() -> tvm.IRModule:
    """``softmax(where(mask, scores, -1e9))``, scores[1, 12, 128, 128], one mask for all heads (sizes chosen)."""

    def body(net: Net, scores: Any, mask: Any) -> Any:
        return net("nn.softmax", net("where", mask, scores, -1e9), axis=-1)

    return _module({"scores": (1, 12, 128, 128), "mask": (1, 1, 128, 128)}, body, {"mask": "bool"})


def paired_products() -> tvm.IRModule:
    """Five products ``2 x`` of one x[10, 20], summed in pairs."""

    def body(net: Net, x: Any) -> Any:
        first, *rest = (net("multiply", x, 2.0) for _ in range(5))
        return reduce(lambda total, term: net("add", total, term), rest, first)

    return _module({"x": (10, 20)}, body)


def tree_lookups() -> tvm.IRModule:
    """500 decision trees of 8 levels, walked by table lookups: index[2000], tables of 500 to 128,000 entries."""

    def body(net: Net, value: Any, index: Any) -> Any:
        rows = index.ty.shape.values[0]
        for level in range(LEVELS):
            threshold = net(
                "reshape", net("take", net.weight(TREES << level), index, axis=0, mode="clip"), shape=(rows, 1)
            )
            right = net("astype", net("greater_equal", value, threshold), dtype="int64")
            doubled = net("multiply", index, relax.const(2, "int64"))
            index = net("add", doubled, net("reshape", right, shape=(rows,)))
        return net("take", net.weight(TREES << LEVELS), index, axis=0, mode="clip")

    return _module({"value": (2000, 1), "index": (2000,)}, body, {"index": "int64"})


def window_softmax() -> tvm.IRModule:
    """``softmax(scores + mask)`` over axis 2 of [64, 49, 49, 4]: the innermost axis is 4 heads (sizes chosen)."""

    def body(net: Net, scores: Any, mask: Any) -> Any:
        return net("nn.softmax", net("add", scores, mask), axis=2)

    return _module({"scores": (64, 49, 49, 4), "mask": (64, 49, 49, 1)}, body)


def row_softmax() -> tvm.IRModule:
    """Softmax over the last axis of [1, 16, 384, 384], written out, since one operator leaves nothing to fuse."""

    def body(net: Net, scores: Any) -> Any:
        raised = net("exp", net("subtract", scores, net("max", scores, axis=-1, keepdims=True)))
        return net("divide", raised, net("sum", raised, axis=-1, keepdims=True))

    return _module({"scores": (1, 16, 384, 384)}, body)


def norm_transpose() -> tvm.IRModule:
    """Rows of x[4096, 1024] less their mean, over their standard deviation, stored transposed."""

    def body(net: Net, x: Any) -> Any:
        centred = net("subtract", x, net("mean", x, axis=1, keepdims=True))
        variance = net("mean", net("multiply", centred, centred), axis=1, keepdims=True)
        return net("permute_dims", net("divide", centred, net("sqrt", variance)), axes=[1, 0])

    return _module({"x": (4096, 1024)}, body)


def relu_transpose_sum() -> tvm.IRModule:
    """``relu(x + b)`` of [128, 256, 64], its last two axes exchanged, summed over the new last axis."""

    def body(net: Net, x: Any, b: Any) -> Any:
        turned = net("permute_dims", net("nn.relu", net("add", x, b)), axes=[0, 2, 1])
        return net("sum", turned, axis=2)

    return _module({"x": (128, 256, 64), "b": (64,)}, body)


def thin_producers() -> tvm.IRModule:
    """``exp(a) tanh(a)`` of a thin a[384, 1], added to [384, 384], in each of 12 layers with an ``a`` of its own."""

    def body(net: Net, wide: Any, *thin: Any) -> Any:
        for a in thin:
            wide = net("add", net("multiply", net("exp", a), net("tanh", a)), wide)
        return wide

    thin = {f"a{layer}": (384, 1) for layer in range(LAYERS)}
    return _module({"b": (384, 384), **thin}, body)


def amax_cast() -> tvm.IRModule:
    """Maxima of the rows of ``clip(x, -4, 4)``, rounded to float16; x[4096, 4096] (half the report's rows)."""

    def body(net: Net, x: Any) -> Any:
        largest = net("max", net("clip", x, min=-4.0, max=4.0), axis=1)
        return net("astype", largest, dtype="float16")

    return _module({"x": (4096, 4096)}, body)


def matmul_prologue() -> tvm.IRModule:
    """``relu(x + b) W``, all of it 1024 x 1024 (a sixteenth of the report's)."""

    def body(net: Net, x: Any, b: Any) -> Any:
        return net("matmul", net("nn.relu", net("add", x, b)), net.weight(1024, 1024, scale=1 / 32))

    return _module({"x": (1024, 1024), "b": (1024,)}, body)


CASES: Mapping[str, Case] = {
    "pool_of_concats": Case(
        pool_of_concats,
        "https://github.com/apache/tvm/issues/20401",
        "the pool with what reads it, apart from the adds and concats before it",
    ),
    "thin_chain_8": Case(
        thin_chain_8,
        "https://github.com/apache/tvm/issues/20342",
        "the chain as one kernel, cut where it is broadcast to 4096 columns",
    ),
    "thin_chain_16": Case(
        thin_chain_16,
        "https://github.com/apache/tvm/issues/20342",
        "the chain as one kernel, cut where it is broadcast to 4096 columns",
    ),
    "thin_row_chain_8": Case(
        thin_row_chain_8,
        "https://github.com/apache/tvm/issues/20342",
        "the chain as one kernel, cut where it is broadcast to 4096 rows",
    ),
    "thin_row_chain_16": Case(
        thin_row_chain_16,
        "https://github.com/apache/tvm/issues/20342",
        "the chain as one kernel, cut where it is broadcast to 4096 rows",
    ),
    "masked_softmax": Case(
        masked_softmax,
        "https://github.com/apache/tvm/issues/4324",
        "a few per cent either way, shown with an interval",
    ),
    "paired_products": Case(
        paired_products,
        "https://github.com/apache/tvm/issues/15358",
        "one kernel, or kernels within the size limit that was asked for",
    ),
    "tree_lookups": Case(
        tree_lookups,
        "https://github.com/microsoft/hummingbird/issues/232",
        "kernels of a few levels: one giant expression compiles for ever and runs slowly",
    ),
    "window_softmax": Case(
        window_softmax,
        "https://github.com/pytorch/pytorch/issues/190757",
        "the parallel loop outermost, though the innermost axis is 4 wide",
    ),
    "row_softmax": Case(
        row_softmax,
        "https://github.com/pytorch/torchdynamo/issues/1401",
        "as fast as the row's three passes apart, on one core and on all",
    ),
    "norm_transpose": Case(
        norm_transpose,
        "https://github.com/pytorch/pytorch/issues/124131",
        "the normalisation as one kernel, the transposed store as another",
    ),
    "relu_transpose_sum": Case(
        relu_transpose_sum,
        "https://github.com/csarofeen/pytorch/issues/1372",
        "cut at the transpose unless the sum can read through it",
    ),
    "thin_producers": Case(
        thin_producers,
        "https://github.com/iree-org/iree/issues/13308",
        "each thin producer computed once, not for each of 384 columns",
    ),
    "amax_cast": Case(
        amax_cast,
        "https://github.com/jax-ml/jax/issues/18424",
        "the reduction keeps its schedule with a cast behind it",
    ),
    "matmul_prologue": Case(
        matmul_prologue,
        "https://github.com/NVIDIA/cutlass/issues/458",
        "nothing fused into the matmul's input",
    ),
}


def _thin_chain(depth: int, thin: Shape) -> tvm.IRModule:
    def body(net: Net, x: Any, b: Any) -> Any:
        z = x
        for _ in range(depth):
            z = net("exp", net("subtract", x, net("multiply", z, 0.5)))
        return net("add", b, z)

    return _module({"x": thin, "b": (COLUMNS, COLUMNS)}, body)


def _module(
    inputs: Mapping[str, Shape], body: Callable[..., Any], dtypes: Mapping[str, str] | None = None
) -> tvm.IRModule:
    """An IRModule whose ``main`` takes ``inputs`` and returns what ``body(net, *inputs)`` returns."""
    builder = relax.BlockBuilder()
    kinds = dtypes or {}
    params = [relax.Var(name, relax.TensorType(shape, kinds.get(name, "float32"))) for name, shape in inputs.items()]
    with builder.function("main", params):
        with builder.dataflow():
            result = body(Net(builder), *params)
            output = builder.emit_output(relax.Tuple(result) if isinstance(result, Sequence) else result)
        builder.emit_func_output(output)
    return builder.get()
