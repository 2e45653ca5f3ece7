"""More inputs for a kernel that has won: zeros, odd values, another draw. A kernel that is right on one may not be."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import KernelError
from .dtypes import is_float
from .kernel import KernelReference, evaluate_inputs, kernel_reference, uneven

_log = logging.getLogger(__name__)
# Signed zeros, a number below the normal ones of float32, small, usual and large ones; but none so large that the sums
# and products of usual models overflow, since then right kernels differ.
ODD = (0.0, -0.0, 1e-40, -1e-40, 1e-3, -1e-3, 0.5, 1.0, -1.0, 3.0, -8.0, 16.0)


def probe_references(program: Any, seed: int = 1) -> list[KernelReference]:
    """References on zeros, on odd values and on another draw of :func:`kernel_reference`'s kind.

    Only floats that are no weights change; integers, bools and weights stay as drawn. A probe is left out where its
    outputs are not finite or its rounding errors too uneven to judge by. Raises nothing: a program that cannot be
    evaluated has no probes.
    """
    try:
        drawn = kernel_reference(program, seed)
    except KernelError as error:
        _log.debug("no probes: %s", error)
        return []
    random = np.random.default_rng(seed)
    makers: list[Callable[[np.ndarray], np.ndarray]] = [
        np.zeros_like,
        lambda array: random.choice(np.array(ODD), array.shape).astype(array.dtype),
    ]
    weights = set(getattr(program, "layout_free", ()))
    made = [
        _reference(program, [_changed(x, i in weights, make) for i, x in enumerate(drawn.inputs)]) for make in makers
    ]
    return [drawn, *(one for one in made if one is not None)]


def _changed(array: np.ndarray, weight: bool, make: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    return array if weight or not is_float(array.dtype) else make(array)


def _reference(program: Any, inputs: Sequence[np.ndarray]) -> KernelReference | None:
    """The outputs of these inputs; None where they are no measure of a kernel."""
    try:
        with np.errstate(all="ignore"):
            reference64, native = (evaluate_inputs(program, inputs, dtype) for dtype in ("float64", "native"))
    except KernelError as error:
        _log.debug("a probe is left out: %s", error)
        return None
    floats = [out for out in (*reference64, *native) if is_float(out.dtype)]
    if not all(bool(np.isfinite(out.astype(np.float64)).all()) for out in floats) or uneven(reference64, native):
        return None
    return KernelReference(tuple(inputs), reference64, native)
