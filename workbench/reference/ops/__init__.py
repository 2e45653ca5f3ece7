"""The operator table, one family a file. Importing this package fills it."""

from . import attention, contraction, elementwise, gather, layout, nn, pooling, reductions, resize, shape
from ._table import TABLE, Attrs, operator

__all__ = [
    "TABLE",
    "Attrs",
    "attention",
    "contraction",
    "elementwise",
    "gather",
    "layout",
    "nn",
    "operator",
    "pooling",
    "reductions",
    "resize",
    "shape",
]
