"""What kind of loop nest an operator is, by its name."""

from __future__ import annotations

from collections.abc import Sequence

from .graph import Value


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


UNARY = _names(
    "abs acos acosh asin asinh atan atanh bitwise_not ceil cos cosh erf exp floor isfinite isinf isnan log logical_not "
    "negative round rsqrt sigmoid sign sin sinh sqrt square tan tanh trunc astype clip full_like zeros_like ones_like "
    "nn.relu nn.leakyrelu nn.gelu nn.gelu_tanh nn.silu nn.selu nn.softplus nn.dropout"
)
BINARY = _names(
    "add subtract multiply divide floor_divide mod floor_mod power maximum minimum atan2 log_add_exp equal not_equal "
    "less less_equal greater greater_equal logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor "
    "left_shift right_shift where ewise_fma"
)
# Element by element, but with an operand that belongs to one axis only.
PER_AXIS = frozenset(["nn.batch_norm", "nn.prelu", "quantize", "dequantize", "broadcast_to"])
INJECTIVE = _names(
    "reshape permute_dims concat split strided_slice expand_dims squeeze repeat tile take gather_elements gather_nd "
    "flatten layout_transform nn.pad nn.pixel_shuffle nn.batch_flatten flip stack triu tril one_hot full zeros ones "
    "arange eye eye_like meshgrid hamming_window image.resize2d slice_scatter"
)
REDUCTION = _names(
    "sum mean max min prod variance std argmax argmin nn.softmax nn.log_softmax nn.layer_norm nn.rms_norm "
    "nn.group_norm nn.instance_norm nn.max_pool1d nn.max_pool2d nn.max_pool3d nn.avg_pool1d nn.avg_pool2d "
    "nn.avg_pool3d nn.adaptive_avg_pool1d nn.adaptive_avg_pool2d nn.adaptive_avg_pool3d "
    "nn.cross_entropy_with_logits nn.nll_loss collapse_sum_to collapse_sum_like"
)
CONTRACTION = _names(
    "matmul einsum outer nn.conv1d nn.conv2d nn.conv3d nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose "
    "nn.attention nn.attention_bias"
)


def kind_of(op: str, inputs: Sequence[Value], outputs: Sequence[Value]) -> str:
    """The kind of an operator; ``opaque`` for one that is not in the tables (sort, scan, scatter, a user's program).

    A binary operator is ``elementwise`` when every operand that is not a scalar has the output's shape, otherwise
    ``broadcast``.
    """
    if op in UNARY:
        return "elementwise"
    if op in BINARY:
        shape = outputs[0].shape if outputs else ()
        return "elementwise" if all(v.size == 1 or v.shape == shape for v in inputs) else "broadcast"
    for kind, names in (
        ("broadcast", PER_AXIS),
        ("injective", INJECTIVE),
        ("reduction", REDUCTION),
        ("contraction", CONTRACTION),
    ):
        if op in names:
            return kind
    return "opaque"
