"""Built-in models: made from Relax operators with seeded weights; no download, no other framework.

Listing them imports no TVM; building one does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.errors import InputError

from ..model import TensorSpec
from . import convolution, dense, elementwise, transformer

if TYPE_CHECKING:
    from ..model import Model

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Builtin:
    """A built-in model: what it is, the sizes that it is built with unless told otherwise, and how it is built."""

    name: str
    description: str
    sizes: Sizes
    shapes: Callable[[Sizes], dict[str, tuple[int, ...]]]
    body: Callable[..., Any]

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """The inputs at the standard sizes."""
        return tuple(TensorSpec(name, shape, "float32") for name, shape in self.shapes(self.sizes).items())

    def __str__(self) -> str:
        return f"{self.description}; {', '.join(map(str, self.inputs))}"


def _matrix(*names: str) -> Callable[[Sizes], dict[str, tuple[int, ...]]]:
    return lambda s: dict.fromkeys(names, (s["rows"], s["cols"] if "cols" in s else s["inner"]))


def _sequence(s: Sizes) -> dict[str, tuple[int, ...]]:
    return {"x": (1, s["seq"], s["dim"])}


def _image(s: Sizes) -> dict[str, tuple[int, ...]]:
    return {"x": (1, s.get("channels", 3), s["size"], s["size"])}


_ALL = (
    Builtin("gelu", "GELU, tanh form written out", {"rows": 2048, "cols": 2048}, _matrix("x"), elementwise.gelu),
    Builtin(
        "elementwise_chain",
        "sigmoid(x + y) * y",
        {"rows": 2048, "cols": 2048},
        _matrix("x", "y"),
        elementwise.elementwise_chain,
    ),
    Builtin(
        "bias_gelu",
        "Linear with bias, erf GELU",
        {"rows": 256, "inner": 1024, "outer": 1024},
        _matrix("x"),
        dense.bias_gelu,
    ),
    Builtin("swiglu", "silu(x W) * (x V)", {"rows": 128, "inner": 512, "outer": 1408}, _matrix("x"), dense.swiglu),
    Builtin(
        "residual_layernorm",
        "LayerNorm(x + y)",
        {"rows": 1024, "cols": 768},
        _matrix("x", "y"),
        elementwise.residual_layernorm,
    ),
    Builtin(
        "conv_bn_relu",
        "3x3 convolution, BatchNorm, ReLU",
        {"channels": 64, "size": 56},
        _image,
        convolution.conv_bn_relu,
    ),
    Builtin(
        "qkv",
        "three Linear layers with bias of one input",
        {"rows": 256, "dim": 512},
        lambda s: {"x": (s["rows"], s["dim"])},
        dense.qkv,
    ),
    Builtin(
        "attention",
        "softmax(q k^T / sqrt(d)) v",
        {"heads": 8, "seq": 512, "dim": 64},
        lambda s: dict.fromkeys("qkv", (1, s["heads"], s["seq"], s["dim"])),
        transformer.attention,
    ),
    Builtin(
        "mha",
        "multi-head self-attention with projections",
        {"seq": 256, "dim": 512, "heads": 8},
        _sequence,
        transformer.mha,
    ),
    Builtin(
        "encoder",
        "post-norm transformer encoder layer, erf GELU",
        {"seq": 256, "dim": 512, "heads": 8, "ffn": 2048},
        _sequence,
        transformer.encoder,
    ),
    Builtin(
        "pool_add",
        "adds, concat, max-pool and two outputs that share it",
        {"channels": 16, "size": 64},
        _image,
        elementwise.pool_add,
    ),
    Builtin(
        "llama_block",
        "RMSNorm, rotary grouped-query causal attention, SwiGLU",
        {"seq": 128, "dim": 1024, "heads": 16, "kv_heads": 4, "head_dim": 64, "ffn": 2816},
        _sequence,
        transformer.llama_block,
    ),
    Builtin(
        "mobilenet_v2",
        "MobileNetV2, width 1.0, ReLU6",
        {"size": 224, "classes": 1000, "width": 32},
        _image,
        convolution.mobilenet_v2,
    ),
    Builtin(
        "resnet18",
        "ResNet-18",
        {"size": 224, "classes": 1000, "width": 64},
        _image,
        convolution.resnet18,
    ),
)
BUILTINS: Mapping[str, Builtin] = {entry.name: entry for entry in _ALL}


def build(name: str, **sizes: int) -> Model:
    """The built-in model ``name``, float32; ``sizes`` replace standard sizes (``build("encoder", seq=16)``).

    Raises InputError for a name or a size that does not exist, or a size below 1.
    """
    entry = BUILTINS.get(name)
    if entry is None:
        raise InputError(f"no built-in model '{name}'; choose one of {', '.join(BUILTINS)}")
    wrong = [key for key, value in sizes.items() if key not in entry.sizes or value < 1]
    if wrong:
        raise InputError(
            f"{name}: size '{wrong[0]}' cannot be {sizes[wrong[0]]}; "
            f"sizes are positive and named {', '.join(entry.sizes)}"
        )
    from .._finish import finish
    from ._net import build_module

    chosen = {**entry.sizes, **sizes}
    module = build_module(entry.shapes(chosen), lambda net, *inputs: entry.body(net, chosen, *inputs))
    return finish(module, name=name, source=name)
