"""TIR expressions over whole iteration domains.

A domain has one array axis a loop; a loop variable is an array that is long along its own axis and 1 elsewhere, so an
expression's value spans only the axes that it depends on. A load whose indices are affine in the loop variables
becomes a strided view of its buffer, any other load an indexed copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import special

from ..errors import KernelError
from .dtypes import Precision, evaluation_dtype, is_float, np_dtype, widen
from .ops.elementwise import rsqrt, truncated_divide


@dataclass(frozen=True)
class Affine:
    """constant + sum of coefficient * position along an axis."""

    constant: int
    coefficients: dict[int, int] = field(default_factory=dict)

    def plus(self, other: Affine, sign: int = 1) -> Affine:
        """The sum, or the difference where ``sign`` is -1."""
        coefficients = dict(self.coefficients)
        for axis, c in other.coefficients.items():
            coefficients[axis] = coefficients.get(axis, 0) + sign * c
        return Affine(self.constant + sign * other.constant, coefficients)

    def times(self, factor: int) -> Affine:
        """The product with a number."""
        return Affine(self.constant * factor, {a: c * factor for a, c in self.coefficients.items()})


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": truncated_divide,
    "Mod": np.fmod,
    "FloorDiv": np.floor_divide,
    "FloorMod": np.remainder,
    "Min": np.minimum,
    "Max": np.maximum,
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "And": np.logical_and,
    "Or": np.logical_or,
    "BitwiseAnd": np.bitwise_and,
    "BitwiseOr": np.bitwise_or,
    "BitwiseXor": np.bitwise_xor,
    "LShift": np.left_shift,
    "RShift": np.right_shift,
}
# Intrinsics by name without prefix; narrow floats are computed in float32 and rounded.
_INTRINSICS: dict[str, Callable[..., Any]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "bitwise_and": np.bitwise_and,
    "bitwise_not": np.invert,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "ceil": np.ceil,
    "copysign": np.copysign,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": special.erf,
    "exp": np.exp,
    "exp10": lambda x: np.power(x.dtype.type(10), x),
    "exp2": np.exp2,
    "fabs": np.abs,
    "floor": np.floor,
    "fma": lambda a, b, c: a * b + c,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "isfinite": np.isfinite,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "ldexp": np.ldexp,
    "likely": lambda x: x,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "nearbyint": np.rint,
    "nextafter": np.nextafter,
    "popcount": np.bitwise_count,
    "pow": np.power,
    "round": np.rint,
    "rsqrt": rsqrt,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
    "sigmoid": special.expit,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}
_C_FUNCTIONS = {"expf": "exp", "erff": "erf", "tanhf": "tanh", "powf": "pow", "sqrtf": "sqrt", "logf": "log"}


class Evaluator:
    """Evaluates expressions for one domain.

    ``env`` maps variables to values, ``affine`` those that are affine to their form over the domain's axes; ``shape``
    is the domain's. Raises KernelError for an expression that it does not know and for a read out of bounds that no
    condition guards.
    """

    def __init__(
        self,
        precision: Precision,
        env: dict[Any, Any],
        buffers: dict[Any, np.ndarray],
        affine: dict[Any, Affine] | None = None,
        shape: tuple[int, ...] = (),
    ) -> None:
        self.precision: Precision = precision
        self.env, self.buffers = env, buffers
        self.affine_env = affine or {}
        self.shape = shape
        self.guarded = False

    def dtype(self, expr: Any) -> np.dtype:
        """The dtype that an expression's value has in this precision."""
        return evaluation_dtype(str(expr.ty), self.precision)

    def __call__(self, expr: Any) -> Any:
        kind = type(expr).__name__
        if kind in _BINARY:
            a, b = self(expr.a), self(expr.b)
            if kind in ("Div", "Mod") and is_float(np.asarray(a).dtype):
                return self._rounded(_BINARY[kind], expr, a, b)
            return _BINARY[kind](a, b)
        handler = _HANDLERS.get(kind)
        if handler is None:
            raise KernelError(f"the reference cannot evaluate a TIR expression of kind {kind}: {expr}")
        return handler(self, expr)

    def _rounded(self, function: Callable[..., Any], expr: Any, *values: Any) -> Any:
        out = function(*(widen(np.asarray(v)) for v in values))
        return np.asarray(out).astype(self.dtype(expr), copy=False)

    def variable(self, var: Any) -> Any:
        try:
            return self.env[var]
        except KeyError:
            raise KernelError(f"the tensor program reads '{var}' outside of its scope") from None

    def integer(self, imm: Any) -> Any:
        return np_dtype(str(imm.ty)).type(int(imm.value))

    def floating(self, imm: Any) -> Any:
        return self.dtype(imm).type(float(imm.value))

    def negation(self, expr: Any) -> Any:
        return np.logical_not(self(expr.a))

    def bit_negation(self, expr: Any) -> Any:
        return np.invert(self(expr.a))

    def cast(self, expr: Any) -> Any:
        value = np.asarray(self(expr.value))
        wanted = self.dtype(expr)
        if wanted.kind == "b":
            return value != 0
        return value.astype(wanted, copy=False)

    def choice(self, condition: Any, then: Any, otherwise: Any) -> Any:
        chosen = self(condition)
        outer, self.guarded = self.guarded, True
        try:
            if np.ndim(chosen) == 0:
                return self(then) if chosen else self(otherwise)
            return np.where(chosen, self(then), self(otherwise))
        finally:
            self.guarded = outer

    def select(self, expr: Any) -> Any:
        return self.choice(expr.condition, expr.true_value, expr.false_value)

    def let(self, expr: Any) -> Any:
        self.env[expr.var] = self(expr.value)
        return self(expr.body)

    def call(self, expr: Any) -> Any:
        name = str(getattr(expr.op, "name", expr.op)).rpartition(".")[2]
        args = list(expr.args)
        if name == "if_then_else":
            return self.choice(*args)
        if name == "reinterpret":
            return self._reinterpret(expr)
        if name in ("call_pure_extern", "call_extern"):
            name, args = _C_FUNCTIONS.get(str(args[0].value), str(args[0].value)), args[1:]
        if name not in _INTRINSICS:
            raise KernelError(f"the reference cannot evaluate the TIR intrinsic '{name}': {expr}")
        return self._rounded(_INTRINSICS[name], expr, *(self(a) for a in args))

    def _reinterpret(self, expr: Any) -> Any:
        """Bits of the program's own dtype, whatever dtype they are evaluated in."""
        source = np_dtype(str(expr.args[0].ty))
        bits = np.ascontiguousarray(np.asarray(self(expr.args[0])).astype(source, copy=False))
        shape = bits.shape
        return bits.reshape(-1).view(np_dtype(str(expr.ty))).reshape(shape).astype(self.dtype(expr), copy=False)

    def form(self, expr: Any) -> Affine | None:
        """An index as an affine function of the domain's axes, or None."""
        kind = type(expr).__name__
        if kind == "Var":
            known = self.affine_env.get(expr)
            if known is None and expr in self.env and np.ndim(self.env[expr]) == 0:
                return Affine(int(self.env[expr]))
            return known
        if kind == "IntImm":
            return Affine(int(expr.value))
        if kind == "Cast":
            return self.form(expr.value) if np_dtype(str(expr.ty)).kind in "iu" else None
        if kind not in ("Add", "Sub", "Mul"):
            return None
        a, b = self.form(expr.a), self.form(expr.b)
        if a is None or b is None:
            return None
        if kind == "Mul":
            if not b.coefficients:
                return a.times(b.constant)
            return b.times(a.constant) if not a.coefficients else None
        return a.plus(b, 1 if kind == "Add" else -1)

    def load(self, expr: Any) -> Any:
        buffer = self.buffer(expr.source)
        forms = [self.form(i) for i in expr.indices]
        if all(f is not None for f in forms):
            view = strided(buffer, forms, self.shape)  # type: ignore[arg-type]
            if view is not None:
                return view
        return self._gather(buffer, expr)

    def _gather(self, buffer: np.ndarray, expr: Any) -> Any:
        index = []
        for i, n in zip(expr.indices, buffer.shape, strict=True):
            at = np.asarray(self(i)).astype(np.int64)
            if at.size and (at.min() < 0 or at.max() >= n):
                if not self.guarded:
                    raise KernelError(
                        f"the tensor program reads {expr} at {int(at.min())}..{int(at.max())} of {n} without a guard"
                    )
                at = np.clip(at, 0, max(n - 1, 0))
            index.append(at)
        return buffer[tuple(index)]

    def buffer(self, source: Any) -> np.ndarray:
        try:
            return self.buffers[source]
        except KeyError:
            raise KernelError(f"the tensor program uses buffer '{source}' before it is allocated") from None


def strided(buffer: np.ndarray, forms: Sequence[Affine], shape: tuple[int, ...]) -> np.ndarray | None:
    """The view of a buffer that affine indices make over a domain (1 along axes they do not use).

    None where the domain would leave the buffer.
    """
    strides, offset = [0] * len(shape), 0
    used: set[int] = set()
    for form, n, stride in zip(forms, buffer.shape, buffer.strides, strict=True):
        low = high = form.constant
        for axis, c in form.coefficients.items():
            reach = c * (shape[axis] - 1)
            low, high = low + min(0, reach), high + max(0, reach)
            strides[axis] += c * stride
            if c:
                used.add(axis)
        if low < 0 or high >= n:
            return None
        offset += form.constant * stride
    extents = [n if a in used else 1 for a, n in enumerate(shape)]
    return np.ndarray(extents, buffer.dtype, buffer, offset, strides)


_HANDLERS: dict[str, Callable[[Evaluator, Any], Any]] = {
    "Var": Evaluator.variable,
    "IntImm": Evaluator.integer,
    "FloatImm": Evaluator.floating,
    "Not": Evaluator.negation,
    "BitwiseNot": Evaluator.bit_negation,
    "Cast": Evaluator.cast,
    "Select": Evaluator.select,
    "Let": Evaluator.let,
    "Call": Evaluator.call,
    "TensorLoad": Evaluator.load,
    "BufferLoad": Evaluator.load,
}
