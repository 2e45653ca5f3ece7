"""Scaled dot-product attention (Vaswani et al. 2017)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ._table import Attrs, operator
from .contraction import product
from .nn import softmax


def visible(queries: int, keys: int, causal_mask: str | None, window: int | None) -> np.ndarray | None:
    """Which key a query sees [queries, keys]; None: all.

    ``TopLeft`` aligns the diagonal with the first key, ``BottomRight`` with the last.
    """
    if causal_mask is None and window is None:
        return None
    offset = keys - queries if causal_mask == "BottomRight" else 0
    distance = np.arange(queries)[:, None] + offset - np.arange(keys)[None, :]
    seen = distance >= 0 if causal_mask is not None else np.ones_like(distance, bool)
    return seen if window is None else seen & (distance < window)


@operator("nn.attention", "nn.attention_bias")
def _attention(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """q [b, s, h, d], k [b, t, h, d], v [b, t, h, e], bias broadcast to [b, h, s, t] -> [b, s, h, e].

    Fewer key/value heads than query heads are shared by neighbouring query heads.
    """
    q, k, v = (x.transpose(0, 2, 1, 3) for x in inputs[:3])
    share = q.shape[1] // k.shape[1]
    if share > 1:
        k, v = np.repeat(k, share, axis=1), np.repeat(v, share, axis=1)
    scale = attrs.get("scale")
    scores = product(q, k.swapaxes(2, 3), q.dtype)
    scores = scores * q.dtype.type(1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if len(inputs) > 3:
        scores = scores + inputs[3].reshape((1,) * (4 - inputs[3].ndim) + inputs[3].shape)
    seen = visible(q.shape[2], k.shape[2], attrs.get("causal_mask"), attrs.get("window_size"))
    if seen is not None:
        scores = np.where(seen, scores, q.dtype.type(-np.inf))
    return product(softmax(scores, -1), v, q.dtype).transpose(0, 2, 1, 3)
