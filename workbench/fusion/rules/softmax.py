"""Softmax with what scales and masks its input."""

from __future__ import annotations

from ...graph import Graph
from ..patterns import Found, op, producers
from ._pattern import PatternRule

PATTERN = op("nn.softmax", "nn.log_softmax", inputs=[producers(op(kind=("elementwise", "broadcast")), min=1)])


class Softmax(PatternRule):
    """``softmax(where(mask, x / 8, -inf))`` -> one kernel, a row at a time."""

    def __init__(self) -> None:
        super().__init__(
            name="softmax",
            pattern=PATTERN,
            summary="softmax with the scale, mask and casts in front of it",
            reason=_reason,
            example="""
                x: float32[8, 512, 512]
                mask: bool[1, 512, 512]
                scaled: float32[8, 512, 512] = divide(x, 8.0)
                least: float32 = -1e9
                masked: float32[8, 512, 512] = where(mask, scaled, least)
                y: float32[8, 512, 512] = nn.softmax(masked){axis=-1}
                return y""",
        )


def _reason(graph: Graph, found: Found) -> str:
    before = graph.order(found.nodes)[:-1]
    return f"{', '.join(graph.node(n).op for n in before)} applied to the row that the softmax has in cache"
