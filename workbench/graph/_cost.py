"""Floating-point operations and iteration space of an operator.

A multiply-add counts two, as in the roofline literature (Williams, Waterman, Patterson 2009). Elementary functions
count what a vectorised polynomial evaluation of them costs (range reduction and a polynomial of degree 5 to 8 as
multiply-adds), so that a roofline estimate of a GELU is not off by an order of magnitude; data movement counts zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from .graph import IterationSpace, Value


def _each(flops: float, names: str) -> dict[str, float]:
    return dict.fromkeys(names.split(), flops)


# Operations per output element.
ELEMENT_FLOPS: dict[str, float] = {
    **_each(
        1.0,
        "add subtract multiply maximum minimum negative abs sign equal not_equal less less_equal greater greater_equal "
        "logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not left_shift "
        "right_shift where floor ceil trunc round isnan isinf isfinite square nn.relu",
    ),
    **dict.fromkeys(["clip", "nn.leakyrelu", "nn.prelu", "ewise_fma", "nn.batch_norm", "dequantize"], 2.0),
    **dict.fromkeys(["divide", "floor_divide", "mod", "floor_mod", "sqrt", "rsqrt", "quantize"], 4.0),
    **dict.fromkeys(["exp", "log", "sin", "cos"], 16.0),
    **_each(24.0, "tan sinh cosh asin acos atan asinh acosh atanh nn.softplus nn.selu log_add_exp"),
    **dict.fromkeys(["tanh", "sigmoid", "erf"], 20.0),
    "nn.silu": 21.0,
    "nn.gelu": 24.0,
    "nn.gelu_tanh": 28.0,
    **dict.fromkeys(["power", "atan2"], 32.0),
}
# Operations per input element of row-wise operators and reductions.
ROW_FLOPS: dict[str, float] = {
    **_each(1.0, "sum mean max min prod argmax argmin collapse_sum_to collapse_sum_like"),
    **dict.fromkeys(["variance", "std"], 4.0),
    **dict.fromkeys(["nn.softmax", "nn.log_softmax", "nn.cross_entropy_with_logits"], 20.0),
    **dict.fromkeys(["nn.layer_norm", "nn.group_norm", "nn.instance_norm"], 8.0),
    "nn.rms_norm": 4.0,
}

Cost = tuple[float, IterationSpace]
Attrs = Mapping[str, object]


def ints(value: object) -> tuple[int, ...]:
    """An attribute that is one integer, several, or absent, as a tuple."""
    if value is None:
        return ()
    return (int(value),) if isinstance(value, int) else tuple(int(v) for v in value)  # type: ignore[attr-defined]


def cost_of(op: str, inputs: Sequence[Value], outputs: Sequence[Value], attrs: Attrs) -> Cost:
    """Floating-point operations, and the loops of the main computation."""
    if not outputs:
        return 0.0, IterationSpace(())
    if op in _SPECIAL and inputs:
        return _SPECIAL[op](inputs, outputs, attrs)
    if op in ROW_FLOPS and inputs:
        return _row_wise(op, inputs, outputs, attrs)
    out = outputs[0]
    if op.startswith("call_tir"):  # TVM counted the program's own arithmetic
        return float(attrs.get("flops", 0.0)), IterationSpace(out.shape)  # type: ignore[arg-type]
    if op == "split":
        return 0.0, IterationSpace(inputs[0].shape)
    return ELEMENT_FLOPS.get(op, 0.0) * out.size, IterationSpace(out.shape)


def _row_wise(op: str, inputs: Sequence[Value], outputs: Sequence[Value], attrs: Attrs) -> Cost:
    x = inputs[0]
    rank = len(x.shape)
    axes = attrs.get("axes", attrs.get("axis"))
    if op == "nn.instance_norm" and axes is None:
        axes = tuple(range(2, rank))
    reduced = {a % rank for a in ints(axes)} if rank else set()
    if op == "nn.group_norm":
        return _group_norm(x, attrs, reduced)
    if axes is None and not op.startswith("collapse"):
        reduced = set(range(rank))
    if op.startswith("collapse"):
        return float(x.size), IterationSpace(outputs[0].shape, (max(1, x.size // max(1, outputs[0].size)),))
    space = IterationSpace(
        tuple(n for i, n in enumerate(x.shape) if i not in reduced),
        tuple(n for i, n in enumerate(x.shape) if i in reduced),
    )
    return ROW_FLOPS[op] * x.size, space


def _group_norm(x: Value, attrs: Attrs, reduced: set[int]) -> Cost:
    channel = int(attrs.get("channel_axis", 1)) % len(x.shape)  # type: ignore[call-overload]
    groups = int(attrs.get("num_groups", 1))  # type: ignore[call-overload]
    spatial = tuple(n for i, n in enumerate(x.shape) if i not in reduced and i != channel)
    inner = tuple(n for i, n in enumerate(x.shape) if i in reduced)
    return ROW_FLOPS["nn.group_norm"] * x.size, IterationSpace(
        (*spatial, groups), (max(1, x.shape[channel] // groups), *inner)
    )


def _matmul(inputs: Sequence[Value], outputs: Sequence[Value], attrs: Attrs) -> Cost:
    depth = inputs[0].shape[-1]
    return 2.0 * outputs[0].size * depth, IterationSpace(outputs[0].shape, (depth,))


def _conv(inputs: Sequence[Value], outputs: Sequence[Value], attrs: Attrs) -> Cost:
    """2 * outputs * (input channels a group) * kernel points; the kernel's layout says which axis is which."""
    layout = str(attrs.get("kernel_layout", "OIHW"))
    kernel = inputs[1].shape
    if len(layout) != len(kernel) or not layout.isalpha():
        depth: tuple[int, ...] = (max(1, inputs[1].size // max(1, kernel[0])),)
    else:
        depth = (kernel[layout.index("I")], *(kernel[i] for i, letter in enumerate(layout) if letter not in "OI"))
    return 2.0 * outputs[0].size * math.prod(depth), IterationSpace(outputs[0].shape, depth)


def _conv_transpose(inputs: Sequence[Value], outputs: Sequence[Value], attrs: Attrs) -> Cost:
    """Each input element meets every output channel of its group and every kernel point once (kernel IO..)."""
    x, w, out = inputs[0], inputs[1], outputs[0]
    work = 2.0 * x.size * math.prod(w.shape[1:])
    return work, IterationSpace(out.shape, (w.shape[0], *w.shape[2:]))


def _pool(inputs: Sequence[Value], outputs: Sequence[Value], attrs: Attrs) -> Cost:
    window = ints(attrs.get("pool_size"))
    if not window:  # adaptive: the window is what the ratio of the sizes makes it
        window = (max(1, round(inputs[0].size / max(1, outputs[0].size))),)
    return float(outputs[0].size * math.prod(window)), IterationSpace(outputs[0].shape, window)


def _attention(inputs: Sequence[Value], outputs: Sequence[Value], attrs: Attrs) -> Cost:
    """q [b, s, h, d], k [b, t, h, d], v [b, t, h, e]: two contractions and a softmax over t."""
    b, s, h, d = inputs[0].shape
    t, e = inputs[1].shape[1], inputs[2].shape[3]
    flops = 2.0 * b * h * s * t * (d + e) + ROW_FLOPS["nn.softmax"] * b * h * s * t
    return flops, IterationSpace((b, s, h, e), (t, d))


def _einsum(inputs: Sequence[Value], outputs: Sequence[Value], attrs: Attrs) -> Cost:
    terms = str(attrs.get("subscripts", "")).replace(" ", "").partition("->")[0].split(",")
    extent: dict[str, int] = {}
    for term, value in zip(terms, inputs, strict=False):
        if "." in term or len(term) != len(value.shape):
            return 2.0 * outputs[0].size, IterationSpace(outputs[0].shape)
        extent.update(zip(term, value.shape, strict=True))
    kept = str(attrs.get("subscripts", "")).replace(" ", "").partition("->")[2]
    summed = tuple(n for letter, n in extent.items() if letter not in kept)
    return float(len(terms)) * math.prod(extent.values()), IterationSpace(outputs[0].shape, summed)


_SPECIAL: dict[str, Callable[[Sequence[Value], Sequence[Value], Attrs], Cost]] = {
    "matmul": _matmul,
    "outer": lambda inputs, outputs, attrs: (float(outputs[0].size), IterationSpace(outputs[0].shape)),
    "einsum": _einsum,
    **dict.fromkeys(["nn.conv1d", "nn.conv2d", "nn.conv3d"], _conv),
    **dict.fromkeys(["nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose"], _conv_transpose),
    **dict.fromkeys([f"nn.{kind}_pool{n}d" for kind in ("max", "avg", "adaptive_avg") for n in (1, 2, 3)], _pool),
    **dict.fromkeys(["nn.attention", "nn.attention_bias"], _attention),
}
