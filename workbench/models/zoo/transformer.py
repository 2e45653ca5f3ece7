"""Built-in attention models (Vaswani et al., 2017) and a Llama block (Touvron et al., 2023)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ._net import Net

Sizes = Mapping[str, int]

MASKED = -1e9  # far below any score, and finite, so that a row minus its maximum stays a number


def attention(net: Net, sizes: Sizes, q: Any, k: Any, v: Any) -> Any:
    """``softmax(q k^T / sqrt(d)) v`` of q, k, v[1, heads, seq, dim]."""
    return _attend(net, q, k, v, sizes["dim"])


def mha(net: Net, sizes: Sizes, x: Any) -> Any:
    """Multi-head self-attention with query, key, value and output projections."""
    return _self_attention(net, sizes, x)


def encoder(net: Net, sizes: Sizes, x: Any) -> Any:
    """Post-norm encoder layer: attention, residual LayerNorm, GELU feed-forward, residual LayerNorm."""
    dim, ffn = sizes["dim"], sizes["ffn"]
    x = net.layer_norm(net("add", x, _self_attention(net, sizes, x)), dim)
    hidden = net("nn.gelu", net.linear(x, dim, ffn))
    return net.layer_norm(net("add", x, net.linear(hidden, ffn, dim)), dim)


def llama_block(net: Net, sizes: Sizes, x: Any) -> Any:
    """Decoder block: RMSNorm, rotary grouped-query causal attention, residual, RMSNorm, SwiGLU, residual."""
    dim, ffn = sizes["dim"], sizes["ffn"]
    x = net("add", x, _causal_attention(net, sizes, net.rms_norm(x, dim)))
    h = net.rms_norm(x, dim)
    gate = net("nn.silu", net.linear(h, dim, ffn, bias=False))
    gated = net("multiply", gate, net.linear(h, dim, ffn, bias=False))
    return net("add", x, net.linear(gated, ffn, dim, bias=False))


def _attend(net: Net, q: Any, k: Any, v: Any, head_dim: int, mask: Any = None) -> Any:
    scores = net("matmul", q, net("permute_dims", k, axes=[0, 1, 3, 2]))
    scores = net("multiply", scores, 1.0 / math.sqrt(head_dim))
    if mask is not None:
        scores = net("add", scores, mask)
    return net("matmul", net("nn.softmax", scores, axis=-1), v)


def _split_heads(net: Net, x: Any, seq: int, heads: int, head_dim: int) -> Any:
    return net("permute_dims", net("reshape", x, shape=(1, seq, heads, head_dim)), axes=[0, 2, 1, 3])


def _join_heads(net: Net, x: Any, seq: int, dim: int) -> Any:
    return net("reshape", net("permute_dims", x, axes=[0, 2, 1, 3]), shape=(1, seq, dim))


def _self_attention(net: Net, sizes: Sizes, x: Any) -> Any:
    seq, dim, heads = sizes["seq"], sizes["dim"], sizes["heads"]
    head_dim = dim // heads
    q, k, v = (_split_heads(net, net.linear(x, dim, dim), seq, heads, head_dim) for _ in range(3))
    return net.linear(_join_heads(net, _attend(net, q, k, v, head_dim), seq, dim), dim, dim)


def _causal_attention(net: Net, sizes: Sizes, x: Any) -> Any:
    seq, dim, heads, kv_heads, head_dim = (sizes[k] for k in ("seq", "dim", "heads", "kv_heads", "head_dim"))
    counts = (heads, kv_heads, kv_heads)
    q, k, v = (_split_heads(net, net.linear(x, dim, n * head_dim, bias=False), seq, n, head_dim) for n in counts)
    cos, sin = (net.constant(table) for table in rotary_tables(seq, head_dim))
    q, k = (_rotate(net, t, head_dim, cos, sin) for t in (q, k))
    k, v = (net("repeat", t, heads // kv_heads, axis=1) for t in (k, v))
    mask = net.constant(np.triu(np.full((seq, seq), MASKED), k=1).reshape(1, 1, seq, seq))
    joined = _join_heads(net, _attend(net, q, k, v, head_dim, mask), seq, heads * head_dim)
    return net.linear(joined, heads * head_dim, dim, bias=False)


def rotary_tables(seq: int, head_dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines [1, 1, seq, head_dim] of the rotary embedding, base 10000 (Su et al., 2021)."""
    frequency = 10000.0 ** (-np.arange(0, head_dim, 2) / head_dim)
    half = np.outer(np.arange(seq), frequency)
    angle = np.concatenate([half, half], axis=-1).reshape(1, 1, seq, head_dim)
    return np.cos(angle), np.sin(angle)


def _rotate(net: Net, x: Any, head_dim: int, cos: Any, sin: Any) -> Any:
    from workbench.tvm_seam import relax

    half = head_dim // 2
    low = net("strided_slice", x, axes=[3], begin=[0], end=[half], strides=[1])
    high = net("strided_slice", x, axes=[3], begin=[half], end=[head_dim], strides=[1])
    turned = net("concat", relax.Tuple([net("negative", high), low]), axis=-1)
    return net("add", net("multiply", x, cos), net("multiply", turned, sin))
