"""Vectorised elementary functions and NaN-keeping maximum and minimum, for everything TVM builds for LLVM.

Whoever builds kernels calls :func:`install` once a process, before the first build, in every worker::

    elementary.install(exact=target.exact_math)

Nothing else is needed: from then on ``tvm.tirx.build`` and ``tvm.compile`` (TE, TIR and Relax alike) expand the
functions in :data:`MAX_ERRORS` into arithmetic while they lower. TVM itself calls the C library once an element, which
costs 5 to 20 times the time of the rest of a GELU or softmax. Code generated with and without ``exact`` differs, so
``exact`` is part of ``Target.key``.

float16 goes through float32, float64 is always TVM's own. Whatever ``exact`` says, ``max`` and ``min`` of floats return
NaN when either operand is NaN, and ``!=`` is true of NaN, as NumPy and ONNX demand; TVM's own lowering returns the
second operand, and false.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from ..tvm_seam import tvm
from .temporaries import Keep, map_expressions

from tvm.s_tir import pipeline  # isort: skip
from tvm.tirx import compilation_pipeline  # isort: skip

tirx = tvm.tirx
Expr: TypeAlias = Any  # tvm.ir.Expr, whose operators carry no annotations


@dataclass(frozen=True)
class ErrorBound:
    """How far a float32 result may be from the exact value, over all float32 arguments.

    Every result is within ``ulp`` units in the last place of the exact value, or within ``absolute`` of it. Where
    ``absolute`` is 2^-125, this is the underflow threshold: smaller results may be flushed to zero. ``relative`` is
    the largest relative error of results that are not below that threshold.
    """

    ulp: float
    absolute: float
    relative: float


FLUSH = 2.0**-125
MAX_ERRORS: Mapping[str, ErrorBound] = MappingProxyType(
    {
        "exp": ErrorBound(ulp=2.0, absolute=FLUSH, relative=1.5e-7),
        "exp2": ErrorBound(ulp=2.0, absolute=FLUSH, relative=1.5e-7),
        "log": ErrorBound(ulp=2.0, absolute=0.0, relative=1.5e-7),
        "tanh": ErrorBound(ulp=6.0, absolute=FLUSH, relative=4e-7),
        "erf": ErrorBound(ulp=6.0, absolute=FLUSH, relative=4e-7),
        "sigmoid": ErrorBound(ulp=4.0, absolute=FLUSH, relative=3e-7),
    }
)


class _Float:
    """Constants and bit patterns of one float32 type, scalar or vector."""

    def __init__(self, lanes: int) -> None:
        suffix = f"x{lanes}" if lanes > 1 else ""
        self.float, self.int = f"float32{suffix}", f"int32{suffix}"

    def const(self, value: float) -> Expr:
        return tirx.const(value, self.float)

    def whole(self, value: int) -> Expr:
        return tirx.const(value, self.int)

    def bits(self, value: Expr) -> Expr:
        return tirx.reinterpret(self.int, value)

    def from_bits(self, value: Expr) -> Expr:
        return tirx.reinterpret(self.float, value)

    def clamp(self, x: Expr, low: float, high: float) -> Expr:
        """``x`` within [low, high]. A comparison with NaN is false, so that NaN stays."""
        x = tirx.Select(x < self.const(low), self.const(low), x)
        return tirx.Select(x > self.const(high), self.const(high), x)

    def bind(self, value: Expr, body: Callable[[Expr], Expr], name: str = "x") -> Expr:
        """``let name = value in body``: an expression that is used twice is computed and printed once."""
        var = tirx.Var(name, self.float)
        return tirx.Let(var, value, body(var))

    def horner(self, x: Expr, coefficients: tuple[float, ...]) -> Expr:
        """A polynomial in ``x``, highest power first."""
        result = self.const(coefficients[0])
        for coefficient in coefficients[1:]:
            result = result * x + self.const(coefficient)
        return result


# e^f on [-ln2/2, ln2/2]: Cephes `expf` (S. Moshier, 1987); e^f = 1 + f + f^2 * P(f)
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4
# Adding 1.5 * 2^23 rounds a float32 to a whole number, which then stands in the low bits of the sum.
_ROUND = 12582912.0


def _scaled_exp(t: _Float, f: Expr, rounded: Expr) -> Expr:
    """e^f * 2^n with n in the low bits of ``rounded``.

    Multiplied by 2^(n-1) and then by 2: n = 128 has no float32 power of two, though its result may be finite. At
    n = -126 the factor's bits are all zero, which flushes the result.
    """
    scale = t.from_bits((t.bits(rounded) + t.whole(126)) << t.whole(23))
    return t.bind(f, lambda f: ((t.horner(f, _EXP) * f * f + f + t.const(1.0)) * scale) * t.const(2.0), "f")


def _exp(t: _Float, x: Expr) -> Expr:
    def reduced(x: Expr) -> Expr:
        def body(rounded: Expr) -> Expr:
            n = rounded - t.const(_ROUND)
            return t.bind(n, lambda n: _scaled_exp(t, x - n * t.const(_LN2_HIGH) - n * t.const(_LN2_LOW), rounded), "n")

        return t.bind(x * t.const(math.log2(math.e)) + t.const(_ROUND), body, "rounded")

    return t.bind(x, lambda x: t.bind(t.clamp(x, -87.3, 89.0), reduced))


def _exp2(t: _Float, x: Expr) -> Expr:
    def reduced(x: Expr) -> Expr:
        return t.bind(
            x + t.const(_ROUND),
            lambda rounded: _scaled_exp(t, (x - (rounded - t.const(_ROUND))) * t.const(math.log(2.0)), rounded),
            "rounded",
        )

    return t.bind(x, lambda x: t.bind(t.clamp(x, -126.0, 128.4), reduced))


# ln(1+f) = f - f^2/2 + f^3 * P(f) on [sqrt(1/2)-1, sqrt(2)-1]: Cephes `logf` (S. Moshier, 1987)
_LOG = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
_SQRT_HALF_BITS = 0x3F3504F3


def _log(t: _Float, x: Expr) -> Expr:
    def polynomial(x: Expr, f: Expr, e: Expr) -> Expr:
        tail = t.horner(f, _LOG) * f * f * f + e * t.const(_LN2_LOW) - t.const(0.5) * f * f
        return f + tail + e * t.const(_LN2_HIGH)

    def body(x: Expr) -> Expr:
        tiny = x < t.const(2.0**-126)  # a denormal's exponent field is zero: scale it up first
        offset = t.bits(tirx.Select(tiny, x * t.const(2.0**23), x)) - t.whole(_SQRT_HALF_BITS)
        exponent = tirx.Cast(t.float, offset >> t.whole(23)) - tirx.Select(tiny, t.const(23.0), t.const(0.0))
        fraction = t.from_bits((offset & t.whole(0x7FFFFF)) + t.whole(_SQRT_HALF_BITS)) - t.const(1.0)
        value = t.bind(exponent, lambda e: t.bind(fraction, lambda f: polynomial(x, f, e), "f"), "e")
        value = tirx.Select(x < t.const(math.inf), value, x)  # inf and NaN
        value = tirx.Select(x < t.const(0.0), t.const(math.nan), value)
        return tirx.Select(tirx.EQ(x, t.const(0.0)), t.const(-math.inf), value)

    return t.bind(x, body)


# tanh(x) = x * P(x^2) / Q(x^2), saturated where tanh rounds to 1: the rational form of Eigen (B. Steiner, 2016),
# divided by Q(0), so that x * P(0) is no denormal where x is none
_TANH_0 = 4.89352518554385e-03
_TANH_P = tuple(
    coefficient / _TANH_0
    for coefficient in (
        -2.76076847742355e-16,
        2.00018790482477e-13,
        -8.60467152213735e-11,
        5.12229709037114e-08,
        1.48572235717979e-05,
        6.37261928875436e-04,
        4.89352455891786e-03,
    )
)
_TANH_Q = tuple(
    coefficient / _TANH_0 for coefficient in (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, _TANH_0)
)
_TANH_LIMIT = 7.99881172180175781
# erf(x) = x * P(x^2) / Q(x^2), saturated likewise: the rational form of Eigen and XLA (2022)
_ERF_P = (0.00022905065861350646, 0.0034082910107109506, 0.050955695062380861, 0.18520832239976145, 1.128379143519084)
_ERF_Q = (
    -1.1791602954361697e-7,
    0.000023547966471313185,
    0.0010179625278914885,
    0.014070470171167667,
    0.11098505178285362,
    0.49746925110067538,
    1.0,
)
_ERF_LIMIT = 3.832506856900711


def _odd_rational(t: _Float, x: Expr, limit: float, p: tuple[float, ...], q: tuple[float, ...]) -> Expr:
    def body(x: Expr) -> Expr:
        ratio = t.bind(x * x, lambda s: x * t.horner(s, p) / t.horner(s, q), "s")
        return t.bind(ratio, lambda y: t.clamp(y, -1.0, 1.0), "y")

    return t.bind(x, lambda x: t.bind(t.clamp(x, -limit, limit), body))


def _tanh(t: _Float, x: Expr) -> Expr:
    return _odd_rational(t, x, _TANH_LIMIT, _TANH_P, _TANH_Q)


def _erf(t: _Float, x: Expr) -> Expr:
    return _odd_rational(t, x, _ERF_LIMIT, _ERF_P, _ERF_Q)


def _sigmoid(t: _Float, x: Expr) -> Expr:
    return t.const(1.0) / (t.const(1.0) + _exp(t, t.const(0.0) - x))


_FUNCTIONS: dict[str, Callable[[_Float, Expr], Expr]] = {
    "exp": _exp,
    "exp2": _exp2,
    "log": _log,
    "tanh": _tanh,
    "erf": _erf,
    "sigmoid": _sigmoid,
}


def _dtype(expr: Expr) -> tvm.DataType:
    return tvm.DataType(str(expr.ty.dtype))


def _expand(call: Expr, keep: Keep) -> Expr:
    """``tirx.exp(x)`` and the like as arithmetic; other calls unchanged."""
    name = call.op.name.removeprefix("tirx.") if isinstance(call.op, tvm.ir.Op) else ""
    function = _FUNCTIONS.get(name)
    if function is None:
        return call
    dtype = _dtype(call)
    lanes, suffix = dtype.lanes, f"x{dtype.lanes}" if dtype.lanes > 1 else ""
    if str(dtype).removesuffix(suffix) == "float32":
        return function(_Float(lanes), keep(call.args[0]))
    if str(dtype).removesuffix(suffix) == "float16":
        return tirx.Cast(str(dtype), function(_Float(lanes), tirx.Cast(f"float32{suffix}", keep(call.args[0]))))
    return call


def _keep_nan(extremum: Expr, keep: Keep) -> Expr:
    """``max(a, b)`` or ``min(a, b)`` of floats as selections that return NaN if either is NaN."""
    dtype = str(_dtype(extremum))
    if not dtype.startswith(("float", "bfloat")):
        return extremum
    a, b = tirx.Var("a", dtype), tirx.Var("b", dtype)
    compare = tirx.GT if isinstance(extremum, tirx.Max) else tirx.LT
    # `a != a` would not do: see _unordered_ne
    chosen = tirx.Select(tirx.Not(tirx.EQ(a, a)), a, tirx.Select(compare(a, b), a, b))
    if _is_number(extremum.a) or _is_number(extremum.b):  # only the other one can be NaN: one selection is enough
        number, other = (b, a) if _is_number(extremum.b) else (a, b)
        chosen = tirx.Select(compare(number, other), number, other)
    return tirx.Let(a, keep(extremum.a), tirx.Let(b, keep(extremum.b), chosen))


def _unordered_ne(compare: Expr, _keep: Keep) -> Expr:
    """``a != b`` of floats as ``not (a == b)``: TVM's NE is an ordered comparison on LLVM, false of NaN."""
    is_float = str(_dtype(compare.a)).startswith(("float", "bfloat"))
    return tirx.Not(tirx.EQ(compare.a, compare.b)) if is_float else compare


def _is_number(expr: Expr) -> bool:
    if isinstance(expr, tirx.Broadcast):
        expr = expr.value
    return isinstance(expr, tirx.FloatImm) and not math.isnan(expr.value)


_exact: bool | None = None  # None: not installed


@tirx.transform.prim_func_pass(opt_level=0, name="workbench.ExpandElementary")
def _expand_pass(func: Any, _mod: object, _context: object) -> Any:
    if _exact:
        return func
    return func.with_body(map_expressions(func.body, [(tvm.ir.Call, _expand)]))


@tirx.transform.prim_func_pass(opt_level=0, name="workbench.KeepNaN")
def _keep_nan_pass(func: Any, _mod: object, _context: object) -> Any:
    return func.with_body(map_expressions(func.body, [((tirx.Max, tirx.Min), _keep_nan), (tirx.NE, _unordered_ne)]))


def _finalize_host() -> tvm.transform.Pass:
    """TVM's last passes over host code, with ours around ``LowerIntrin``.

    ``KeepNaN`` comes after everything that simplifies: TVM's simplifier may assume that ``a == a``.
    """
    passes = [tirx.transform.LowerTVMBuiltin(), _expand_pass, tirx.transform.LowerIntrin(), _keep_nan_pass]
    return tvm.transform.Sequential(passes)


def install(exact: bool = False) -> None:
    """Makes TVM in this process build LLVM code with the functions of this module.

    ``exact=True`` gives back TVM's own lowering (the C library); the two may be switched back and forth, each call
    counts for the builds that follow. ``max``, ``min`` and ``!=`` treat NaN as NumPy does in both modes.
    """
    global _exact
    if exact == _exact:
        return
    first = _exact is None
    _exact = exact
    # Without this mark TVM turns a vectorised loop over erf into a scalar one; with it, it would hand a vector to
    # the C library's erff.
    erf = tvm.ir.Op.get("tirx.erf")
    erf.reset_attr("TVectorizable")
    if not exact:
        erf.set_attr("TVectorizable", True)
    if first:
        compilation_pipeline.register_tir_pipeline("s_tir", _pipeline)


def _pipeline() -> tuple[Any, Callable[[], Any], Callable[[], Any]]:
    """TVM's default pipeline for scheduled programs, with our last passes over host code."""
    lower, _, finalize_device = pipeline.default_s_tir_pipeline()
    return lower, _finalize_host, finalize_device
