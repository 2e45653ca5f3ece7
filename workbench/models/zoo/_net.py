"""What every built-in model is written with: operators by name, and layers with seeded weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from workbench.tvm_seam import relax, tvm

Shape = tuple[int, ...]


class Net:
    """Emits Relax operators into one function; weights come from ``numpy.random.default_rng(0)``, float32.

    ``net("nn.softmax", x, axis=-1)`` emits ``relax.op.nn.softmax``; numbers among the arguments become 0-d float32
    constants. Layers are spelled as the importers spell them: Linear is ``matmul(x, W[K, N])`` and ``add(mm, bias)``.
    """

    def __init__(self, builder: relax.BlockBuilder) -> None:
        self._builder = builder
        self._rng = np.random.default_rng(0)

    def __call__(self, op: str, *args: Any, **attrs: Any) -> Any:
        function = reduce(getattr, op.split("."), relax.op)
        tensors = [relax.const(a, "float32") if isinstance(a, float) else a for a in args]
        return self._builder.emit(function(*tensors, **attrs))

    def item(self, value: Any, index: int) -> Any:
        """One item of a tuple result."""
        return self._builder.emit(relax.TupleGetItem(value, index))

    def constant(self, array: np.ndarray) -> Any:
        """A float32 constant."""
        return relax.const(np.ascontiguousarray(array, dtype=np.float32), "float32")

    def weight(self, *shape: int, scale: float = 1.0, mean: float = 0.0) -> Any:
        """A normally distributed weight."""
        return self.constant(mean + scale * self._rng.standard_normal(shape, dtype=np.float32))

    def linear(self, x: Any, inner: int, outer: int, bias: bool = True) -> Any:
        """x[..., inner] -> [..., outer]; variance is kept."""
        y = self("matmul", x, self.weight(inner, outer, scale=1.0 / math.sqrt(inner)))
        return self("add", y, self.weight(outer, scale=0.1)) if bias else y

    def layer_norm(self, x: Any, dim: int) -> Any:
        """Layer normalisation over the last axis, epsilon 1e-5."""
        gamma, beta = self.weight(dim, scale=0.1, mean=1.0), self.weight(dim, scale=0.1)
        return self("nn.layer_norm", x, gamma, beta, axes=[-1], epsilon=1e-5)

    def rms_norm(self, x: Any, dim: int) -> Any:
        """Root-mean-square normalisation over the last axis (Zhang and Sennrich, 2019), epsilon 1e-6."""
        return self("nn.rms_norm", x, self.weight(dim, scale=0.1, mean=1.0), axes=[-1], epsilon=1e-6)

    def conv(self, x: Any, inner: int, outer: int, kernel: int, stride: int = 1, groups: int = 1) -> Any:
        """x[N, inner, H, W] -> [N, outer, H', W'], 'same' padding, no bias, scaled for a ReLU behind it (He, 2015)."""
        fan_in = inner // groups * kernel * kernel
        weight = self.weight(outer, inner // groups, kernel, kernel, scale=math.sqrt(2.0 / fan_in))
        pad = kernel // 2
        return self("nn.conv2d", x, weight, strides=[stride, stride], padding=[pad] * 4, groups=groups)

    def batch_norm(self, x: Any, channels: int, gain: float = 1.0) -> Any:
        """BatchNorm of the channels in its inference form: item 0 of ``nn.batch_norm(training=False)``."""
        gamma = self.weight(channels, scale=0.1 * gain, mean=gain)
        beta, mean = self.weight(channels, scale=0.1), self.weight(channels, scale=0.1)
        variance = self.constant(self._rng.uniform(0.8, 1.25, channels))
        norm = self("nn.batch_norm", x, gamma, beta, mean, variance, axis=1, epsilon=1e-5, training=False)
        return self.item(norm, 0)


def build_module(inputs: Mapping[str, Shape], body: Callable[..., Any]) -> tvm.IRModule:
    """An IRModule whose ``main`` takes float32 ``inputs`` and returns what ``body(net, *inputs)`` returns."""
    builder = relax.BlockBuilder()
    params = [relax.Var(name, relax.TensorType(shape, "float32")) for name, shape in inputs.items()]
    with builder.function("main", params):
        with builder.dataflow():
            result = body(Net(builder), *params)
            output = builder.emit_output(relax.Tuple(result) if isinstance(result, Sequence) else result)
        builder.emit_func_output(output)
    return builder.get()
