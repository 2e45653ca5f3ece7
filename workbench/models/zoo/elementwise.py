"""Built-in models without a contraction: what fusion saves here is memory traffic and launches alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._net import Net

Sizes = Mapping[str, int]


def gelu(net: Net, sizes: Sizes, x: Any) -> Any:
    """``0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))`` (Hendrycks and Gimpel, 2016), written out."""
    half = net("multiply", x, 0.5)
    cubed = net("multiply", net("multiply", net("multiply", x, 0.044715), x), x)
    scaled = net("multiply", net("add", x, cubed), math.sqrt(2.0 / math.pi))
    return net("multiply", half, net("add", net("tanh", scaled), 1.0))


def elementwise_chain(net: Net, sizes: Sizes, x: Any, y: Any) -> Any:
    """``sigmoid(x + y) * y``."""
    return net("multiply", net("sigmoid", net("add", x, y)), y)


def residual_layernorm(net: Net, sizes: Sizes, x: Any, y: Any) -> Any:
    """``LayerNorm(x + y)``."""
    return net.layer_norm(net("add", x, y), sizes["cols"])


def pool_add(net: Net, sizes: Sizes, x: Any) -> Any:
    """Nine adds of scalars, concatenated, pooled, and two adds behind: two outputs that share a producer."""
    joined = net("concat", _tuple([net("add", x, float(i)) for i in range(9)]), axis=1)
    pooled = net("nn.max_pool2d", joined, pool_size=[2, 2], strides=[2, 2])
    return net("add", pooled, 1.0), net("add", pooled, 2.0)


def _tuple(values: list[Any]) -> Any:
    from workbench.tvm_seam import relax

    return relax.Tuple(values)
