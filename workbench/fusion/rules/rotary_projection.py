"""Rotary position embedding as the epilogue of the projection that it turns (Su et al., 2021)."""

from __future__ import annotations

from ..patterns import HERE, anything, bind, constant, one_of, op, optional, repeat
from ._pattern import PatternRule

_x = anything("x")
_layout = op("reshape", "permute_dims", "expand_dims", "squeeze", "flatten", inputs=[HERE])
_biased = optional(op("add", inputs=[HERE, constant("bias")]), op("matmul", name="product"))
_projection = bind("x", repeat(_layout, _biased, max=4))
_half = one_of(op("strided_slice", inputs=[_x]), op("split", inputs=[_x]))
_negated = one_of(op("negative", inputs=[_half]), op("multiply", inputs=[_half, constant(value=-1.0)]))
_turned = op("concat", inputs=[_negated, _half])
PATTERN = op(
    "add",
    inputs=[op("multiply", inputs=[_projection, anything("cos")]), op("multiply", inputs=[_turned, anything("sin")])],
)


class RotaryProjection(PatternRule):
    """``rotate(heads(x @ W))`` -> one kernel; the projection is turned before it reaches memory."""

    def __init__(self) -> None:
        super().__init__(
            name="rotary_projection",
            pattern=PATTERN,
            summary="rotary embedding (halves swapped, cos and sin) in the query or key projection",
            reason="the projected rows are rotated while they are in cache",
            near=3,
            example="""
                x: float32[1, 128, 512]
                W: float32[512, 512] = const
                cos: float32[1, 1, 128, 64] = const
                sin: float32[1, 1, 128, 64] = const
                product: float32[1, 128, 512] = matmul(x, W)
                heads: float32[1, 128, 8, 64] = reshape(product){shape=(1, 128, 8, 64)}
                q: float32[1, 8, 128, 64] = permute_dims(heads){axes=(0, 2, 1, 3)}
                low: float32[1, 8, 128, 32] = strided_slice(q){axes=(3,), begin=(0,), end=(32,), strides=(1,)}
                high: float32[1, 8, 128, 32] = strided_slice(q){axes=(3,), begin=(32,), end=(64,), strides=(1,)}
                minus: float32[1, 8, 128, 32] = negative(high)
                turned: float32[1, 8, 128, 64] = concat(minus, low){axis=-1}
                straight: float32[1, 8, 128, 64] = multiply(q, cos)
                across: float32[1, 8, 128, 64] = multiply(turned, sin)
                y: float32[1, 8, 128, 64] = add(straight, across)
                return y""",
        )
