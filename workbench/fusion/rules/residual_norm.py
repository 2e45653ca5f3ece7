"""Residual add and the LayerNorm or RMSNorm that reads it."""

from __future__ import annotations

from collections.abc import Iterator

from ...graph import Graph
from ..matching import LAYOUT, is_renaming, produced_by
from ._base import Candidate, Rule


class ResidualNorm(Rule):
    """``layer_norm(x + y)`` -> one kernel; the sum becomes a second output where others read it."""

    name = "residual_norm"
    kind = "vertical"
    summary = "residual add + layer_norm or rms_norm; a sum that is read elsewhere becomes a second output"

    def propose(self, graph: Graph) -> Iterator[Candidate]:
        for norm in graph.nodes:
            if norm.op not in ("nn.layer_norm", "nn.rms_norm"):
                continue
            name, between = norm.inputs[0], []
            while (layout := produced_by(graph, name, *LAYOUT)) is not None and is_renaming(graph, layout):
                between.append(layout.id)
                name = layout.inputs[0]
            add = produced_by(graph, name, "add")
            if add is None or graph.values[name].shape != graph.values[add.inputs[0]].shape:
                continue
            nodes = graph.order(frozenset((add.id, *between, norm.id)))
            outputs = graph.group_outputs(nodes)
            extra = "; the sum is written too" if len(outputs) > 1 else ""
            reason = f"the row of the sum is normalised while it is in cache{extra}"
            yield Candidate(self.name, self.kind, nodes, reason)
