"""Built-in models around matrix products: bias and activation epilogues, gates and sibling products."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._net import Net

Sizes = Mapping[str, int]


def bias_gelu(net: Net, sizes: Sizes, x: Any) -> Any:
    """``gelu(x W + b)`` with the erf form of GELU."""
    return net("nn.gelu", net.linear(x, sizes["inner"], sizes["outer"]))


def swiglu(net: Net, sizes: Sizes, x: Any) -> Any:
    """``silu(x W) * (x V)`` (Shazeer, 2020)."""
    gate = net("nn.silu", net.linear(x, sizes["inner"], sizes["outer"], bias=False))
    return net("multiply", gate, net.linear(x, sizes["inner"], sizes["outer"], bias=False))


def qkv(net: Net, sizes: Sizes, x: Any) -> Any:
    """Three projections with bias of one input."""
    dim = sizes["dim"]
    return tuple(net.linear(x, dim, dim) for _ in range(3))
