"""Residual add and the LayerNorm or RMSNorm that reads it."""

from __future__ import annotations

from ...graph import Graph
from ..categories import SHAPE
from ..matching import RENAMING
from ..patterns import HERE, Found, op, repeat
from ._pattern import PatternRule

VIEWS = sorted(RENAMING - {"broadcast_to"})
PATTERN = op(
    "nn.layer_norm",
    "nn.rms_norm",
    inputs=[repeat(op(*VIEWS, inputs=[HERE]), op("add", name="sum"), max=4), ...],
    name="norm",
)


class ResidualNorm(PatternRule):
    """``layer_norm(x + y)`` -> one kernel; the sum becomes a second output where others read it."""

    def __init__(self) -> None:
        super().__init__(
            name="residual_norm",
            pattern=PATTERN,
            summary="residual add + layer_norm or rms_norm; a sum that is read elsewhere becomes a second output",
            private=False,
            reason=_reason,
            where=_keeps_shape,
            example="""
                x: float32[1024, 768]
                y: float32[1024, 768]
                gamma: float32[768] = const
                beta: float32[768] = const
                sum: float32[1024, 768] = add(x, y)
                norm: float32[1024, 768] = nn.layer_norm(sum, gamma, beta){axes=(-1,), epsilon=1e-05}
                next: float32[1024, 768] = nn.relu(sum)
                return norm, next""",
        )


def _reason(graph: Graph, found: Found) -> str:
    extra = "; the sum is written too" if len(graph.group_outputs(found.nodes)) > 1 else ""
    return f"the row of the sum is normalised while it is in cache{extra}"


def _keeps_shape(graph: Graph, found: Found) -> tuple[str, str] | None:
    """A sum that is larger than both operands is no residual."""
    add = graph.node(found.bound["sum"])
    shapes = [graph.values[name].shape for name in add.inputs]
    if graph.values[add.outputs[0]].shape in shapes:
        return None
    return SHAPE, f"add ({add.id}) broadcasts both operands, {list(shapes[0])} and {list(shapes[1])}"
