"""Element-by-element operators.

Narrow floats (float16, bfloat16) are computed in float32 and rounded once, which is what a correctly rounded
implementation gives. ``round`` rounds halves to even, as NumPy, ONNX (operator Round) and PyTorch do. Integer
``divide`` and ``mod`` truncate towards zero, ``floor_divide`` and ``floor_mod`` round down (Relax, and C and Python
in turn).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy import special

from ..dtypes import is_float, widen
from ._table import TABLE, Attrs, operator

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805  # Klambauer et al. 2017


def rsqrt(x: np.ndarray) -> np.ndarray:
    """1 / sqrt(x)."""
    return 1 / np.sqrt(x)


def silu(x: np.ndarray) -> np.ndarray:
    """x * sigmoid(x)."""
    return x * special.expit(x)


def gelu(x: np.ndarray) -> np.ndarray:
    """Gaussian error linear unit, exact form (Hendrycks and Gimpel 2016)."""
    return x * x.dtype.type(0.5) * (1 + special.erf(x * x.dtype.type(np.sqrt(0.5))))


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    """Gaussian error linear unit, tanh form (Hendrycks and Gimpel 2016)."""
    inner = x.dtype.type(np.sqrt(2 / np.pi)) * (x + x.dtype.type(0.044715) * x * x * x)
    return x.dtype.type(0.5) * x * (1 + np.tanh(inner))


def selu(x: np.ndarray) -> np.ndarray:
    """Scaled exponential linear unit (Klambauer et al. 2017)."""
    scale, alpha = x.dtype.type(_SELU_SCALE), x.dtype.type(_SELU_ALPHA)
    return scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _sign(x: np.ndarray) -> np.ndarray:
    return np.sign(x)


def _unary(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[Sequence[np.ndarray], Attrs], np.ndarray]:
    def entry(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
        return function(widen(inputs[0]))

    return entry


def _binary(
    function: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Callable[[Sequence[np.ndarray], Attrs], np.ndarray]:
    def entry(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
        return function(widen(inputs[0]), widen(inputs[1]))

    return entry


def truncated_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Division; of integers, towards zero."""
    if is_float(a.dtype):
        return a / b
    quotient = np.floor_divide(a, b)
    return quotient + ((np.remainder(a, b) != 0) & ((a < 0) != (b < 0))).astype(quotient.dtype)


_UNARY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "bitwise_not": np.invert,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": special.erf,
    "exp": np.exp,
    "floor": np.floor,
    "isfinite": np.isfinite,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "log": np.log,
    "logical_not": np.logical_not,
    "negative": np.negative,
    "nn.gelu": gelu,
    "nn.gelu_tanh": gelu_tanh,
    "nn.selu": selu,
    "nn.silu": silu,
    "round": np.rint,
    "rsqrt": rsqrt,
    "sigmoid": special.expit,
    "sign": _sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "square": np.square,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}
_BINARY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": np.add,
    "atan2": np.arctan2,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "divide": truncated_divide,
    "equal": np.equal,
    "floor_divide": np.floor_divide,
    "floor_mod": np.remainder,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "left_shift": np.left_shift,
    "less": np.less,
    "less_equal": np.less_equal,
    "log_add_exp": np.logaddexp,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "mod": np.fmod,
    "multiply": np.multiply,
    "not_equal": np.not_equal,
    "power": np.power,
    "right_shift": np.right_shift,
    "subtract": np.subtract,
}
TABLE.update({name: _unary(function) for name, function in _UNARY.items()})
TABLE.update({name: _binary(function) for name, function in _BINARY.items()})


@operator("nn.relu")
def _relu(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return np.maximum(inputs[0], inputs[0].dtype.type(0))


@operator("clip")
def _clip(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """NaN stays NaN, as in NumPy and ONNX."""
    x = widen(inputs[0])
    low, high = attrs["min"], attrs["max"]
    if not is_float(x.dtype):
        info = np.iinfo(x.dtype)
        low, high = max(low, info.min), min(high, info.max)
    return np.minimum(np.maximum(x, x.dtype.type(low)), x.dtype.type(high))


@operator("nn.leakyrelu")
def _leakyrelu(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    x = widen(inputs[0])
    return np.where(x > 0, x, x * x.dtype.type(attrs["alpha"]))


@operator("nn.prelu")
def _prelu(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    x, slope = widen(inputs[0]), widen(inputs[1])
    if slope.ndim == 1 and x.ndim > 1:
        shape = [1] * x.ndim
        shape[int(attrs.get("axis", 1)) % x.ndim] = slope.size
        slope = slope.reshape(shape)
    return np.where(x > 0, x, x * slope)


@operator("nn.softplus")
def _softplus(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    x = widen(inputs[0])
    beta = x.dtype.type(attrs.get("beta", 1.0))
    scaled = beta * x
    soft = np.log1p(np.exp(np.minimum(scaled, x.dtype.type(attrs.get("threshold", 20.0))))) / beta
    return np.where(scaled > attrs.get("threshold", 20.0), x, soft)


@operator("nn.dropout")
def _dropout(inputs: Sequence[np.ndarray], attrs: Attrs) -> list[np.ndarray]:
    """Inference: the identity, and a mask of ones."""
    return [inputs[0], np.ones_like(inputs[0])]


@operator("astype")
def _astype(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return inputs[0]  # the evaluator casts to the dtype of the output


@operator("where")
def _where(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    return np.where(inputs[0].astype(bool), inputs[1], inputs[2])


@operator("ewise_fma")
def _fma(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    a, b, c = (widen(x) for x in inputs)
    return a * b + c


def _per_axis(vector: np.ndarray, x: np.ndarray, attrs: Attrs) -> np.ndarray:
    if vector.ndim == 0 or vector.size == 1:
        return vector.reshape(())
    shape = [1] * x.ndim
    shape[int(attrs["axis"]) % x.ndim] = vector.size
    return vector.reshape(shape)


@operator("quantize")
def _quantize(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    """clip(round(x / scale) + zero point), halves to even."""
    x = widen(inputs[0])
    scale, zero = (_per_axis(widen(v), x, attrs) for v in inputs[1:3])
    info = np.iinfo(np.dtype(str(attrs["out_dtype"])))
    return np.clip(np.rint(x / scale) + zero, info.min, info.max)


@operator("dequantize")
def _dequantize(inputs: Sequence[np.ndarray], attrs: Attrs) -> np.ndarray:
    x = inputs[0]
    scale, zero = (_per_axis(widen(v), x, attrs) for v in inputs[1:3])
    wide = np.float64 if scale.dtype == np.float64 else np.float32
    return (x.astype(wide) - zero.astype(wide)) * scale
