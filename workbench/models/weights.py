"""A check of the weights before anything is computed with them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from workbench.errors import ModelError
from workbench.tvm_seam import tvm

from ._relax import bindings_of, constants


def require_finite(weights: Iterable[tuple[str, np.ndarray]], source: str) -> None:
    """Raises ModelError naming the first weight that holds NaN or an infinity.

    Two uses of infinities are meant: a single number (a limit, a fill value), and an additive attention mask, which
    holds minus infinity and zeros alone.
    """
    for name, array in weights:
        if array.dtype.kind not in "fcV" and "float" not in array.dtype.name:
            continue
        finite = np.isfinite(array)
        if finite.all() or _is_intended(array, finite):
            continue
        kind = "NaN" if np.isnan(array).any() else "infinite values"
        raise ModelError(
            f"{source}: weight '{name}' {list(array.shape)} holds {kind} "
            f"({int((~finite).sum())} of {array.size} entries); export the model with finite weights"
        )


def _is_intended(array: np.ndarray, finite: np.ndarray) -> bool:
    if np.isnan(array).any():
        return False
    return array.size == 1 or bool((array[~finite] < 0).all() and (array[finite] == 0).all())


def named_constants(module: tvm.IRModule) -> Iterable[tuple[str, np.ndarray]]:
    """The constants of ``main``, named after the node that reads them."""
    for binding in bindings_of(module["main"]):
        for index, const in enumerate(constants(binding.value)):
            yield f"constant {index} of node {binding.var.name}", const.value.numpy()
