"""NumPy dtypes of TVM's dtype names, and the two precisions of a reference."""

from __future__ import annotations

from typing import Literal

import ml_dtypes
import numpy as np

Precision = Literal["float64", "native"]

_EXTRA = {
    name: np.dtype(getattr(ml_dtypes, name))
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3", "float8_e3m4", "int4", "uint4")
    if hasattr(ml_dtypes, name)
}


def np_dtype(name: str) -> np.dtype:
    """The NumPy dtype of a TVM dtype name; ``bfloat16`` and 8-bit floats come from ml_dtypes."""
    return _EXTRA[name] if name in _EXTRA else np.dtype(name)


def is_float(dtype: np.dtype) -> bool:
    """Whether a dtype is a floating one, the types of ml_dtypes included (their NumPy kind is 'V')."""
    return dtype.kind == "f" or dtype.name.startswith(("bfloat", "float"))


def is_narrow_float(dtype: np.dtype) -> bool:
    """Floats of fewer than 32 bits: SciPy and BLAS have no kernels for them."""
    return is_float(dtype) and dtype.itemsize < 4


def evaluation_dtype(name: str, precision: Precision) -> np.dtype:
    """The dtype that a value of this TVM dtype has while it is evaluated."""
    dtype = np_dtype(name)
    return np.dtype(np.float64) if precision == "float64" and is_float(dtype) else dtype


def widen(x: np.ndarray) -> np.ndarray:
    """Narrow floats as float32, anything else as it is."""
    return x.astype(np.float32) if is_narrow_float(x.dtype) else x


def accumulator(out_dtype: object, x: np.ndarray) -> np.dtype:
    """The dtype in which products of ``x`` are summed: an operator's ``out_dtype``, else that of ``x``.

    A floating ``out_dtype`` does not narrow a float64 evaluation.
    """
    if not out_dtype or out_dtype == "void":
        return x.dtype
    wanted = np_dtype(str(out_dtype))
    return x.dtype if x.dtype == np.float64 and is_float(wanted) else wanted
