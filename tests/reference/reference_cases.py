"""Small programs of one operator each, with what PyTorch makes of the same arrays where it has the operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from workbench.graph import Graph, from_model
from workbench.tvm_seam import relax, tvm

R = relax.op


@dataclass(frozen=True)
class Case:
    """``inputs`` are shapes (float64) or arrays; ``build`` makes the Relax expression of the variables."""

    name: str
    inputs: Sequence[Any]
    build: Callable[..., Any]
    torch: Callable[..., Any] | None = None
    positive: bool = False
    legalizes: bool = True  # False: LegalizeOps has no rule, or calls a packed function
    legal_dtype: str = "float64"  # TOPI's normalisations take float32 and float16 only

    def arrays(self, dtype: str = "float64") -> list[np.ndarray]:
        rng = np.random.default_rng(7)
        made = []
        for given in self.inputs:
            if isinstance(given, np.ndarray):
                made.append(given)
                continue
            x = rng.standard_normal(given)
            made.append((np.abs(x) + 0.5 if self.positive else x).astype(dtype))
        return made


def module_of(build: Callable[..., Any], arrays: Sequence[np.ndarray]) -> tvm.IRModule:
    """A module whose ``main`` is one dataflow block that returns what ``build`` makes of its parameters."""
    params = [
        relax.Var(f"x{i}", relax.TensorType(a.shape, str(a.dtype)))  # type: ignore[call-arg]
        for i, a in enumerate(arrays)
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(builder.emit(build(*params)))
        builder.emit_func_output(out)
    return builder.get()


def graph_of(module: tvm.IRModule) -> Graph:
    return from_model(SimpleNamespace(module=module, name="case", source="case", fingerprint=""))


def _ints(*shape: int, high: int = 4, dtype: str = "int64", low: int = 0) -> np.ndarray:
    return np.random.default_rng(3).integers(low, high, shape).astype(dtype)


def _bools(*shape: int, seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, shape).astype(bool)


def _c(value: float, dtype: str = "float64") -> Any:
    return relax.const(value, dtype)


_UNARY: dict[str, Any] = {
    "abs": torch.abs, "acos": None, "asin": None, "atan": torch.atan, "ceil": torch.ceil, "cos": torch.cos,
    "cosh": torch.cosh, "erf": torch.erf, "exp": torch.exp, "floor": torch.floor, "negative": torch.neg,
    "round": torch.round, "sigmoid": torch.sigmoid, "sign": torch.sign, "sin": torch.sin, "sinh": torch.sinh,
    "square": torch.square, "tan": torch.tan, "tanh": torch.tanh, "trunc": torch.trunc, "asinh": torch.asinh,
}  # fmt: skip
_UNARY_POSITIVE: dict[str, Any] = {"log": torch.log, "rsqrt": torch.rsqrt, "sqrt": torch.sqrt}
_NN_UNARY: dict[str, Any] = {
    "relu": F.relu, "gelu": F.gelu, "silu": F.silu, "selu": F.selu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}  # fmt: skip
_BINARY: dict[str, Any] = {
    "add": torch.add, "subtract": torch.sub, "multiply": torch.mul, "divide": torch.div, "maximum": torch.maximum,
    "minimum": torch.minimum, "less": torch.lt, "less_equal": torch.le, "greater": torch.gt,
    "greater_equal": torch.ge, "equal": torch.eq, "not_equal": torch.ne, "floor_divide": torch.floor_divide,
    "floor_mod": torch.remainder, "mod": torch.fmod,
}  # fmt: skip
_SIGNED = np.array([-7, -7, 7, 7, -8, 8, 6, -6], "int32")
_DIVISOR = np.array([2, -2, 2, -2, 4, 4, 3, 3], "int32")

CASES: list[Case] = [
    *(Case(n, [(3, 5)], getattr(R, n), t) for n, t in _UNARY.items() if t is not None),
    Case("asin", [np.linspace(-0.9, 0.9, 7)], R.asin, torch.asin),
    Case("acos", [np.linspace(-0.9, 0.9, 7)], R.acos, torch.acos),
    Case("atanh", [np.linspace(-0.9, 0.9, 7)], R.atanh, torch.atanh),
    Case("acosh", [np.linspace(1.1, 9.0, 7)], R.acosh, torch.acosh),
    *(Case(n, [(3, 5)], getattr(R, n), t, positive=True) for n, t in _UNARY_POSITIVE.items()),
    *(Case("nn." + n, [(3, 5)], getattr(R.nn, n), t) for n, t in _NN_UNARY.items()),
    *(Case(n, [(3, 1, 5), (4, 1)], getattr(R, n), t) for n, t in _BINARY.items()),
    Case("power", [(3, 5), (5,)], R.power, torch.pow, positive=True),
    Case("atan2", [(3, 5), (5,)], R.atan2, torch.atan2),
    Case("log_add_exp", [(3, 5), (5,)], R.log_add_exp, torch.logaddexp),
    *(
        Case(f"integer {n}", [_SIGNED, _DIVISOR], getattr(R, n), t)
        for n, t in {
            "divide": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
            "floor_divide": torch.floor_divide,
            "floor_mod": torch.remainder,
            "mod": torch.fmod,
        }.items()
    ),
    *(
        Case(f"{n}", [_ints(4, high=99, dtype="int32"), _ints(4, high=7, dtype="int32")], getattr(R, n), t)
        for n, t in {
            "bitwise_and": torch.bitwise_and,
            "bitwise_or": torch.bitwise_or,
            "bitwise_xor": torch.bitwise_xor,
            "left_shift": torch.bitwise_left_shift,
            "right_shift": torch.bitwise_right_shift,
        }.items()
    ),
    *(
        Case(n, [_bools(9), _bools(9, seed=6)], getattr(R, n), t)
        for n, t in {
            "logical_and": torch.logical_and,
            "logical_or": torch.logical_or,
            "logical_xor": torch.logical_xor,
        }.items()
    ),
    Case("logical_not", [_bools(9)], R.logical_not, torch.logical_not),
    Case("bitwise_not", [_ints(6, dtype="int32")], R.bitwise_not, torch.bitwise_not),
    Case("isnan", [np.array([1.0, np.nan, np.inf])], R.isnan, torch.isnan),
    Case("isinf", [np.array([1.0, np.nan, -np.inf])], R.isinf, torch.isinf),
    Case("isfinite", [np.array([1.0, np.nan, np.inf])], R.isfinite, torch.isfinite),
    Case("clip", [(3, 5)], lambda x: R.clip(x, -0.5, 0.25), lambda x: torch.clamp(x, -0.5, 0.25)),
    Case("leakyrelu", [(3, 5)], lambda x: R.nn.leakyrelu(x, 0.3), lambda x: F.leaky_relu(x, 0.3)),
    Case("prelu", [(2, 3, 4), (3,)], lambda x, a: R.nn.prelu(x, a, 1), F.prelu),
    Case("softplus", [(3, 5)], lambda x: R.nn.softplus(x, 2.0, 1.0), lambda x: F.softplus(x, 2.0, 1.0)),
    Case("where", [_bools(3, 5), (3, 5), (5,)], R.where, torch.where),
    Case("astype", [(3, 5)], lambda x: R.astype(R.multiply(x, _c(4.0)), "int32"), lambda x: (x * 4).to(torch.int32)),
    Case("sum axis", [(3, 4, 5)], lambda x: R.sum(x, [0, 2], True), lambda x: x.sum((0, 2), keepdim=True)),
    Case("sum all", [(3, 4, 5)], lambda x: R.sum(x), torch.sum),
    Case("mean", [(3, 4, 5)], lambda x: R.mean(x, -1), lambda x: x.mean(-1)),
    Case("max", [(3, 4, 5)], lambda x: R.max(x, [1], True), lambda x: x.amax(1, keepdim=True)),
    Case("min", [(3, 4, 5)], lambda x: R.min(x, [0, -1]), lambda x: x.amin((0, -1))),
    Case("prod", [(3, 4)], lambda x: R.prod(x, 1), lambda x: x.prod(1)),
    Case("variance", [(3, 4, 5)], lambda x: R.variance(x, [1, 2]), lambda x: x.var((1, 2), correction=0)),
    Case("std", [(3, 4, 5)], lambda x: R.std(x, 1, True), lambda x: x.std(1, correction=0, keepdim=True)),
    Case("argmax", [(3, 4, 5)], lambda x: R.argmax(x, 1, True), lambda x: x.argmax(1, keepdim=True)),
    Case("argmin", [(3, 4)], lambda x: R.argmin(x, None), torch.argmin, legalizes=False),
    Case("cumsum", [(3, 5)], lambda x: R.cumsum(x, 1), lambda x: x.cumsum(1), legalizes=False),
    Case("cumprod", [(3, 5)], lambda x: R.cumprod(x, 0), lambda x: x.cumprod(0), legalizes=False),
    Case("sort", [(3, 5)], lambda x: R.sort(x, 1, True), lambda x: x.sort(1, True)[0], legalizes=False),
    Case("argsort", [(3, 5)], lambda x: R.argsort(x, 0, False, "int64"), lambda x: x.argsort(0), legalizes=False),
    Case("topk", [(3, 5)], lambda x: R.topk(x, 2, 1, "both", False, "int64"),
         lambda x: tuple(x.topk(2, 1, largest=False)), legalizes=False),
    Case("matmul", [(3, 4), (4, 5)], R.matmul, torch.matmul),
    Case("matmul batched", [(2, 1, 3, 4), (5, 4, 6)], R.matmul, torch.matmul),
    Case("matmul vector", [(2, 3, 4), (4,)], R.matmul, torch.matmul),
    Case("matmul int8", [_ints(3, 40, low=-128, high=99, dtype="int8"), _ints(40, 5, low=-99, high=99, dtype="int8")],
         lambda a, b: R.matmul(a, b, "int32"), lambda a, b: a.to(torch.int32) @ b.to(torch.int32)),
    Case("einsum", [(2, 3, 4), (4, 5)], lambda a, b: R.einsum([a, b], "bij,jk->bki"),
         lambda a, b: torch.einsum("bij,jk->bki", a, b)),
    Case("outer", [(3,), (4,)], R.outer, torch.outer),
    Case("conv1d", [(2, 4, 9), (6, 2, 3)], lambda x, w: R.nn.conv1d(x, w, 2, 1, 2, 2),
         lambda x, w: F.conv1d(x, w, None, 2, 1, 2, 2)),
    Case("conv2d", [(2, 4, 9, 8), (6, 2, 3, 2)],
         lambda x, w: R.nn.conv2d(x, w, (2, 1), (1, 2), (1, 2), 2),
         lambda x, w: F.conv2d(x, w, None, (2, 1), (1, 2), (1, 2), 2)),
    Case("conv2d depthwise", [(1, 4, 7, 7), (4, 1, 3, 3)], lambda x, w: R.nn.conv2d(x, w, padding=1, groups=4),
         lambda x, w: F.conv2d(x, w, None, 1, 1, 1, 4)),
    Case("conv2d uneven padding", [(1, 2, 6, 6), (3, 2, 3, 3)], lambda x, w: R.nn.conv2d(x, w, padding=(0, 1, 2, 3)),
         lambda x, w: F.conv2d(F.pad(x, (1, 3, 0, 2)), w)),
    Case("conv2d NHWC", [(1, 6, 6, 2), (3, 3, 2, 4)],
         lambda x, w: R.nn.conv2d(x, w, padding=1, data_layout="NHWC", kernel_layout="HWIO"),
         lambda x, w: F.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), None, 1, 1).permute(0, 2, 3, 1)),
    Case("conv3d", [(1, 2, 4, 5, 6), (3, 2, 2, 3, 1)], lambda x, w: R.nn.conv3d(x, w, (1, 2, 1), (1, 0, 2)),
         lambda x, w: F.conv3d(x, w, None, (1, 2, 1), (1, 0, 2))),
    Case("conv2d_transpose", [(2, 4, 5, 6), (4, 3, 3, 2)],
         lambda x, w: R.nn.conv2d_transpose(x, w, (2, 3), (1, 0), (1, 1), (1, 2), 1),
         lambda x, w: F.conv_transpose2d(x, w, None, (2, 3), (1, 0), (1, 1), 1, (1, 2)), legalizes=False),
    Case("conv2d_transpose groups", [(1, 4, 5, 5), (4, 3, 3, 3)],
         lambda x, w: R.nn.conv2d_transpose(x, w, 2, 1, 1, groups=2),
         lambda x, w: F.conv_transpose2d(x, w, None, 2, 1, 1, 2)),
    Case("conv1d_transpose", [(2, 3, 7), (3, 4, 3)], lambda x, w: R.nn.conv1d_transpose(x, w, 2, 1, 1),
         lambda x, w: F.conv_transpose1d(x, w, None, 2, 1, 1)),
    Case("softmax", [(3, 4, 5)], lambda x: R.nn.softmax(x, 1), lambda x: F.softmax(x, 1)),
    Case("log_softmax", [(3, 5)], lambda x: R.nn.log_softmax(x, -1), lambda x: F.log_softmax(x, -1)),
    Case("layer_norm", [(2, 3, 4), (3, 4), (3, 4)], lambda x, g, b: R.nn.layer_norm(x, g, b, [-2, -1], 1e-3),
         lambda x, g, b: F.layer_norm(x, (3, 4), g, b, 1e-3), legal_dtype="float32"),
    Case("rms_norm", [(2, 3, 4), (4,)], lambda x, g: R.nn.rms_norm(x, g, [-1], 1e-3),
         lambda x, g: F.rms_norm(x, (4,), g, 1e-3)),
    Case("group_norm", [(2, 6, 3, 4), (6,), (6,)],
         lambda x, g, b: R.nn.group_norm(x, g, b, 3, 1, [2, 3], 1e-3),
         lambda x, g, b: F.group_norm(x, 3, g, b, 1e-3), legal_dtype="float32"),
    Case("instance_norm", [(2, 6, 3, 4), (6,), (6,)], lambda x, g, b: R.nn.instance_norm(x, g, b, 1, [2, 3], 1e-3),
         lambda x, g, b: F.instance_norm(x, weight=g, bias=b, eps=1e-3), legal_dtype="float32"),
    Case("batch_norm", [(2, 3, 4, 5), (3,), (3,), (3,), (3,)],
         lambda x, g, b, m, v: R.nn.batch_norm(x, g, b, m, v, 1, 1e-3, training=False)[0],
         lambda x, g, b, m, v: F.batch_norm(x, m, v, g, b, False, 0.1, 1e-3), positive=True),
    Case("batch_norm training", [(2, 3, 4, 5), (3,), (3,), (3,), (3,)],
         lambda x, g, b, m, v: R.nn.batch_norm(x, g, b, m, v, 1, 1e-3, training=True)[0],
         lambda x, g, b, m, v: F.batch_norm(x, m, v, g, b, True, 0.1, 1e-3), positive=True),
    Case("max_pool2d", [(2, 3, 9, 8)], lambda x: R.nn.max_pool2d(x, (3, 2), (2, 2), (1, 0), (1, 2), True),
         lambda x: F.max_pool2d(x, (3, 2), (2, 2), (1, 0), (1, 2), True)),
    Case("max_pool2d NHWC", [(1, 6, 6, 2)], lambda x: R.nn.max_pool2d(x, 2, 2, layout="NHWC"),
         lambda x: F.max_pool2d(x.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)),
    Case("max_pool1d", [(2, 3, 9)], lambda x: R.nn.max_pool1d(x, 3, 2, 1), lambda x: F.max_pool1d(x, 3, 2, 1)),
    Case("avg_pool2d", [(2, 3, 9, 8)],
         lambda x: R.nn.avg_pool2d(x, (3, 2), (2, 2), (1, 1), count_include_pad=True),
         lambda x: F.avg_pool2d(x, (3, 2), (2, 2), (1, 1), count_include_pad=True)),
    Case("avg_pool2d without padding", [(2, 3, 9, 8)],
         lambda x: R.nn.avg_pool2d(x, (3, 2), (2, 2), (1, 1), ceil_mode=True, count_include_pad=False),
         lambda x: F.avg_pool2d(x, (3, 2), (2, 2), (1, 1), True, False)),
    Case("avg_pool2d ceil with padding", [(2, 3, 6, 6)],
         lambda x: R.nn.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=True),
         lambda x: F.avg_pool2d(x, 3, 2, 1, True, True)),
    Case("max_pool2d ceil drops a window", [(1, 2, 6, 9)],
         lambda x: R.nn.max_pool2d(x, 2, 2, (1, 1), ceil_mode=True), lambda x: F.max_pool2d(x, 2, 2, 1, 1, True)),
    Case("avg_pool3d", [(1, 2, 4, 5, 6)], lambda x: R.nn.avg_pool3d(x, 2, 2), lambda x: F.avg_pool3d(x, 2, 2)),
    Case("adaptive_avg_pool2d", [(2, 3, 7, 5)], lambda x: R.nn.adaptive_avg_pool2d(x, (3, 2)),
         lambda x: F.adaptive_avg_pool2d(x, (3, 2))),
    Case("adaptive_avg_pool1d", [(2, 3, 7)], lambda x: R.nn.adaptive_avg_pool1d(x, 4),
         lambda x: F.adaptive_avg_pool1d(x, 4)),
    Case("attention", [(2, 5, 3, 4), (2, 7, 3, 4), (2, 7, 3, 6)], R.nn.attention,
         lambda q, k, v: _attention(q, k, v)),
    Case("attention causal", [(2, 6, 3, 4), (2, 6, 3, 4), (2, 6, 3, 4)],
         lambda q, k, v: R.nn.attention(q, k, v, causal_mask="TopLeft", scale=0.3),
         lambda q, k, v: _attention(q, k, v, is_causal=True, scale=0.3)),
    Case("attention bottom right", [(1, 3, 2, 4), (1, 6, 2, 4), (1, 6, 2, 4)],
         lambda q, k, v: R.nn.attention(q, k, v, causal_mask="BottomRight"),
         lambda q, k, v: _attention(q, k, v, attn_mask=torch.ones(3, 6, dtype=torch.bool).tril(3))),
    Case("attention bias", [(2, 5, 3, 4), (2, 7, 3, 4), (2, 7, 3, 4), (2, 3, 5, 7)],
         lambda q, k, v, b: R.nn.attention(q, k, v, b), lambda q, k, v, b: _attention(q, k, v, attn_mask=b)),
    Case("pixel_shuffle", [(2, 8, 3, 4)], lambda x: R.nn.pixel_shuffle(x, 2), lambda x: F.pixel_shuffle(x, 2),
         legalizes=False),
    Case("nll_loss", [(4, 5), _ints(4, high=5), (5,)], lambda x, t, w: R.nn.nll_loss(x, t, w, "mean", 1),
         lambda x, t, w: F.nll_loss(x, t, w, ignore_index=1), positive=True),
    Case("reshape", [(3, 4)], lambda x: R.reshape(x, (2, 6)), lambda x: x.reshape(2, 6)),
    Case("flatten", [(3, 4)], R.flatten, torch.flatten),
    Case("permute_dims", [(2, 3, 4)], lambda x: R.permute_dims(x, [2, 0, 1]), lambda x: x.permute(2, 0, 1)),
    Case("permute_dims reversed", [(2, 3, 4)], R.permute_dims, lambda x: x.permute(2, 1, 0)),
    Case("concat", [(2, 3), (2, 4)], lambda a, b: R.concat([a, b], 1), lambda a, b: torch.cat([a, b], 1)),
    Case("stack", [(2, 3), (2, 3)], lambda a, b: R.stack([a, b], 1), lambda a, b: torch.stack([a, b], 1)),
    Case("split sections", [(6, 3)], lambda x: R.split(x, 3, 0), lambda x: x.chunk(3)),
    Case("split indices", [(6, 3)], lambda x: R.split(x, [1, 4], 0), lambda x: torch.tensor_split(x, [1, 4])),
    Case("expand_dims", [(2, 3)], lambda x: R.expand_dims(x, [0, 3]), lambda x: x[None, :, :, None]),
    Case("squeeze", [(2, 1, 3, 1)], lambda x: R.squeeze(x, [1]), lambda x: x.squeeze(1)),
    Case("broadcast_to", [(3, 1)], lambda x: R.broadcast_to(x, (2, 3, 4)), lambda x: x.expand(2, 3, 4)),
    Case("repeat", [(2, 3)], lambda x: R.repeat(x, 2, 1), lambda x: x.repeat_interleave(2, 1)),
    Case("tile", [(2, 3)], lambda x: R.tile(x, [2, 1, 2]), lambda x: x.tile(2, 1, 2)),
    Case("flip", [(2, 3)], lambda x: R.flip(x, 1), lambda x: x.flip(1)),
    Case("strided_slice", [(6, 7)], lambda x: R.strided_slice(x, [0, 1], [1, -5], [6, 100], [2, 3]),
         lambda x: x[1:6:2, -5:100:3]),
    Case("strided_slice backwards", [(6, 7)], lambda x: R.strided_slice(x, [1], [5], [0], [-2]),
         lambda x: x[:, [5, 3, 1]]),
    Case("pad", [(2, 3)], lambda x: R.nn.pad(x, [1, 2, 0, 3], "constant", 1.5),
         lambda x: F.pad(x, (0, 3, 1, 2), value=1.5)),
    Case("pad reflect", [(4, 5)], lambda x: R.nn.pad(x, [1, 2, 0, 3], "reflect"),
         lambda x: F.pad(x[None, None], (0, 3, 1, 2), mode="reflect")[0, 0]),
    Case("pad replicate", [(4, 5)], lambda x: R.nn.pad(x, [1, 2, 0, 3], "replicate"),
         lambda x: F.pad(x[None, None], (0, 3, 1, 2), mode="replicate")[0, 0]),
    Case("layout_transform", [(4, 6)], lambda x: R.layout_transform(x, lambda i, j: (j // 2, i, j % 2)),
         lambda x: x.reshape(4, 3, 2).permute(1, 0, 2)),
    Case("take", [(5, 3), _ints(2, 4, high=5)], lambda x, i: R.take(x, i, 0), lambda x, i: x[i]),
    Case("take middle axis", [(2, 5, 3), _ints(4, high=5)], lambda x, i: R.take(x, i, 1), lambda x, i: x[:, i]),
    Case("take clip", [(5, 3), np.array([-3, 2, 9])], lambda x, i: R.take(x, i, 0, "clip"),
         lambda x, i: x[i.clamp(0, 4)]),
    Case("gather_elements", [(3, 4), _ints(2, 4, high=3)], lambda x, i: R.gather_elements(x, i, 0),
         lambda x, i: x.gather(0, i)),
    Case("gather_nd", [(3, 4, 2), _ints(5, 2, high=3)], lambda x, i: R.gather_nd(x, i),
         lambda x, i: x[i[:, 0], i[:, 1]]),
    Case("scatter_elements", [(3, 4), np.array([[0, 2, 1, 0]]), (1, 4)],
         lambda x, i, u: R.scatter_elements(x, i, u, 0, "add"), lambda x, i, u: x.scatter_add(0, i, u)),
    Case("scatter_nd", [(5, 3), np.array([[4], [1]]), (2, 3)],
         lambda x, i, u: R.scatter_nd(x, i, u, "update"), lambda x, i, u: x.index_copy(0, i[:, 0], u)),
    Case("index_tensor", [(4, 5), _ints(3, high=4), _ints(3, high=4)], lambda x, i, j: R.index_tensor(x, [i, j]),
         lambda x, i, j: x[i, j]),
    Case("one_hot", [_ints(2, 3)],
         lambda i: R.one_hot(i, relax.prim_value(tvm.tirx.IntImm("int64", 1)),
                             relax.prim_value(tvm.tirx.IntImm("int64", 0)), 4, -1),
         lambda i: F.one_hot(i, 4)),
    Case("triu", [(3, 4)], lambda x: R.triu(x, 1), lambda x: x.triu(1)),
    Case("tril", [(3, 4)], lambda x: R.tril(x, -1), lambda x: x.tril(-1)),
    Case("zeros_like", [(3, 4)], lambda x: R.zeros_like(x), torch.zeros_like),
    Case("ones_like", [(3, 4)], lambda x: R.ones_like(x), torch.ones_like),
    Case("full_like", [(3, 4)], lambda x: R.full_like(x, _c(2.5)), lambda x: torch.full_like(x, 2.5)),
    Case("arange", [(1,)], lambda x: R.add(x, R.arange(1, 11, 3, "float64")), lambda x: x + torch.arange(1.0, 11, 3)),
    Case("full", [(1,)], lambda x: R.add(x, R.full((2, 3), _c(2.5), "float64")), lambda x: x + torch.full((2, 3), 2.5)),
    Case("eye", [(1,)], lambda x: R.add(x, R.eye(3, 4, 1, "float64")),
         lambda x: x + torch.diag(torch.ones(3, dtype=torch.float64), 1)[:3, :4]),
]  # fmt: skip


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any) -> torch.Tensor:
    heads_first = (x.permute(0, 2, 1, 3) for x in (q, k, v))
    return F.scaled_dot_product_attention(*heads_first, **options).permute(0, 2, 1, 3)
