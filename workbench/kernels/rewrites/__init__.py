"""Rewrites of a group's operations before it is outlined, by the name that a rule's candidate gives."""

from __future__ import annotations

from ...errors import PlanError
from ._base import Rewrite
from .decompose_batchnorm import decompose_batchnorm
from .fold_batchnorm import fold_batchnorm

__all__ = ["REWRITES", "Rewrite", "get"]

REWRITES: dict[str, Rewrite] = {
    "decompose_batchnorm": decompose_batchnorm,
    "fold_batchnorm": fold_batchnorm,
}


def get(name: str) -> Rewrite:
    """The rewrite of a name. Raises PlanError when there is none."""
    if name not in REWRITES:
        raise PlanError(f"unknown rewrite '{name}'; known are {', '.join(REWRITES)}")
    return REWRITES[name]
