"""Converters that replace or extend those of TVM 0.27's PyTorch importer.

What they repair: ``batch_norm`` reads its arguments one place off and computes batch statistics; Linear, matrix
products and convolutions fix the result to float32, which breaks half precision and narrows float64; ``rms_norm`` and
``repeat_interleave`` are missing; ``select`` becomes a gather; ``scaled_dot_product_attention`` becomes one opaque
operator that no fusion rule can look into.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.errors import ModelError
from workbench.tvm_seam import relax

from ._relax import constant, static_shape
from .model import numpy_dtype


def _emit(importer: Any, value: relax.Expr) -> relax.Var:
    return importer.block_builder.emit(value)


def _args(node: Any, importer: Any, names: str) -> list[Any]:
    """The values of the arguments ``names`` (in the operator's order), None where one is absent."""
    given = list(importer.retrieve_args(node))
    named = {key: importer.env.get(v, v) if hasattr(v, "op") else v for key, v in node.kwargs.items()}
    return [given[i] if i < len(given) else named.get(name) for i, name in enumerate(names.split())]


def _const_like(array: Any, like: relax.Expr) -> relax.Expr:
    return constant(np.asarray(array).astype(numpy_dtype(str(like.ty.dtype))))


def _batch_norm(node: Any, importer: Any) -> relax.Var:
    names = "input weight bias running_mean running_var training momentum eps"
    x, weight, bias, mean, variance, training, momentum, eps = _args(node, importer, names)
    if training or mean is None or variance is None:
        raise ModelError(
            f"batch_norm at node '{node.name}' uses the statistics of the batch; call eval() before exporting"
        )
    weight = _const_like(np.ones(int(mean.ty.shape[0])), mean) if weight is None else weight
    bias = _const_like(np.zeros(int(mean.ty.shape[0])), mean) if bias is None else bias
    norm = relax.op.nn.batch_norm(
        x, weight, bias, mean, variance, axis=1, epsilon=eps, momentum=momentum, training=False
    )
    return _emit(importer, relax.TupleGetItem(_emit(importer, norm), 0))


def _linear(node: Any, importer: Any) -> relax.Var:
    x, weight, bias = _args(node, importer, "input weight bias")
    product = _emit(importer, relax.op.matmul(x, _emit(importer, relax.op.permute_dims(weight))))
    return product if bias is None else _emit(importer, relax.op.add(product, bias))


def _matmul(node: Any, importer: Any) -> relax.Var:
    return _emit(importer, relax.op.matmul(*_args(node, importer, "input other")))


def _addmm(node: Any, importer: Any) -> relax.Var:
    bias, x, weight = _args(node, importer, "input mat1 mat2")
    product = _emit(importer, relax.op.matmul(x, weight))
    alpha, beta = node.kwargs.get("alpha", 1), node.kwargs.get("beta", 1)
    if alpha != 1:
        product = _emit(importer, relax.op.multiply(product, _const_like(alpha, product)))
    if beta != 1:
        bias = _emit(importer, relax.op.multiply(bias, _const_like(beta, bias)))
    return _emit(importer, relax.op.add(product, bias))


def _convolution(rank: int) -> Callable[[Any, Any], relax.Var]:
    operator = (relax.op.nn.conv1d, relax.op.nn.conv2d, relax.op.nn.conv3d)[rank - 1]

    def convert(node: Any, importer: Any) -> relax.Var:
        x, weight, bias, stride, padding, dilation, groups = _args(
            node, importer, "input weight bias stride padding dilation groups"
        )
        if len(x.ty.shape) != rank + 2:
            raise NotImplementedError(f"a convolution of an input without a batch dimension {x.ty}")
        y = _emit(
            importer,
            operator(
                x,
                weight,
                strides=_per_axis(stride, 1, rank),
                padding=_per_axis(padding, 0, rank) * 2,
                dilation=_per_axis(dilation, 1, rank),
                groups=1 if groups is None else groups,
            ),
        )
        if bias is None:
            return y
        along_channels = _emit(importer, relax.op.reshape(bias, (1, -1, *(1,) * rank)))
        return _emit(importer, relax.op.add(y, along_channels))

    return convert


def _per_axis(value: Any, default: int, rank: int) -> list[int]:
    if value is None:
        return [default] * rank
    values = [value] if isinstance(value, int) else [int(v) for v in value]
    return values * rank if len(values) == 1 else values


def _select(node: Any, importer: Any) -> relax.Var:
    """One index of an axis as a slice: TVM's own converter makes it a gather, which reads the index at run time."""
    x, axis, index = _args(node, importer, "input dim index")
    axis %= len(x.ty.shape)
    index = index + int(x.ty.shape[axis]) if index < 0 else index
    part = _emit(importer, relax.op.strided_slice(x, axes=[axis], begin=[index], end=[index + 1]))
    return _emit(importer, relax.op.squeeze(part, axis))


def _repeat_interleave(node: Any, importer: Any) -> relax.Var:
    x, repeats, axis = _args(node, importer, "self repeats dim")
    return _emit(importer, relax.op.repeat(x, repeats, axis=axis))


def _rms_norm(node: Any, importer: Any) -> relax.Var:
    x, shape, weight, eps = _args(node, importer, "input normalized_shape weight eps")
    if weight is None:
        weight = _const_like(np.ones([int(d) for d in shape]), x)
    if eps is None:  # torch takes the distance from 1 to the next number of the dtype
        import ml_dtypes

        eps = float(ml_dtypes.finfo(numpy_dtype(str(x.ty.dtype))).eps)
    axes = list(range(-len(shape), 0))
    return _emit(importer, relax.op.nn.rms_norm(x, weight, axes=axes, epsilon=eps))


def _attention(node: Any, importer: Any) -> relax.Var:
    """``softmax(q k^T * scale + mask) v`` in primitive operators; masked scores get half the lowest finite number."""
    names = "query key value attn_mask dropout_p is_causal"
    q, k, v, mask, _, causal = _args(node, importer, names)
    rank = len(q.ty.shape)
    if node.kwargs.get("enable_gqa"):
        repeats = int(q.ty.shape[rank - 3]) // int(k.ty.shape[rank - 3])
        k, v = (_emit(importer, relax.op.repeat(t, repeats, axis=rank - 3)) for t in (k, v))
    swapped = [*range(rank - 2), rank - 1, rank - 2]
    scores = _emit(importer, relax.op.matmul(q, _emit(importer, relax.op.permute_dims(k, swapped))))
    scale = node.kwargs.get("scale")
    scale = 1.0 / math.sqrt(int(q.ty.shape[rank - 1])) if scale is None else scale
    scores = _emit(importer, relax.op.multiply(scores, _const_like(scale, scores)))
    if causal:
        scores = _emit(importer, relax.op.add(scores, _causal_mask(q, k, scores)))
    if mask is not None and str(mask.ty.dtype) == "bool":
        scores = _emit(importer, relax.op.where(mask, scores, _const_like(_lowest(scores), scores)))
    elif mask is not None:
        scores = _emit(importer, relax.op.add(scores, mask))
    return _emit(importer, relax.op.matmul(_emit(importer, relax.op.nn.softmax(scores, axis=-1)), v))


def _causal_mask(q: relax.Expr, k: relax.Expr, scores: relax.Expr) -> relax.Expr:
    rank = len(q.ty.shape)
    shape = static_shape(relax.TensorType([q.ty.shape[rank - 2], k.ty.shape[rank - 2]], "float32"))
    if shape is None:
        raise NotImplementedError("causal attention of a symbolic length")
    return _const_like(np.triu(np.full(shape, _lowest(scores)), k=1), scores)


def _lowest(like: relax.Expr) -> float:
    import ml_dtypes

    return float(ml_dtypes.finfo(numpy_dtype(str(like.ty.dtype))).min) / 2


CONVERTERS: dict[str, Callable[[Any, Any], relax.Expr]] = {
    "batch_norm.default": _batch_norm,
    "linear.default": _linear,
    "matmul.default": _matmul,
    "mm.default": _matmul,
    "bmm.default": _matmul,
    "addmm.default": _addmm,
    "conv1d.default": _convolution(1),
    "conv2d.default": _convolution(2),
    "conv3d.default": _convolution(3),
    "select.int": _select,
    "repeat_interleave.self_int": _repeat_interleave,
    "rms_norm.default": _rms_norm,
    "scaled_dot_product_attention.default": _attention,
}
