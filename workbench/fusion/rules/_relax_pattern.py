"""A pattern of TVM's own pattern language as a rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import RuleError
from ...graph import Graph
from ..categories import ESCAPES
from ._base import Candidate, Kind, Refusal, Rule


class RelaxPatternRule(Rule):
    """Proposes what a ``tvm.relax.dpl`` pattern matches in the module that a graph was read from.

    Taken are the operators that the pattern names; what its wildcards and constants match stays outside. With
    ``private`` a match whose inner value is read elsewhere is refused ("inner value escapes"), else that value becomes
    a further output. RuleError for something that is no pattern.

    A structural pattern knows nothing of near misses; ``PatternRule`` does.
    """

    def __init__(
        self,
        name: str,
        pattern: Any,
        summary: str = "",
        kind: Kind = "vertical",
        private: bool = True,
        reason: str = "",
        extendable: bool = True,
    ) -> None:
        if not hasattr(pattern, "extract_matched_expr"):
            kind_of = type(pattern).__name__
            raise RuleError(f"rule '{name}': a {kind_of} is no Relax pattern; give one of tvm.relax.dpl, such as is_op")
        self.pattern, self.private = pattern, private
        self.name = name  # type: ignore[misc]
        self.kind = kind  # type: ignore[misc]
        self.summary = summary or f"Relax pattern {name}"  # type: ignore[misc]
        self.reason = reason or self.summary
        self.extendable = extendable  # type: ignore[misc]

    def propose(self, graph: Graph) -> Iterator[Candidate | Refusal]:
        """One candidate or refusal for each binding of ``main`` that the pattern matches, each set of nodes once.

        Raises RuleError for a graph that was not read from a model.
        """
        from ...tvm_seam import relax

        if graph.module is None:
            raise RuleError(
                f"rule '{self.name}' matches Relax, and graph '{graph.name}' was not read from a model; "
                "give graph.from_model(model), or write the rule as a PatternRule"
            )
        function = graph.module["main"]  # type: ignore[index]
        defined = relax.analysis.get_var2val(function)
        owner = _owners(graph, function, relax)
        seen: set[tuple[str, ...]] = set()
        for value in [binding.value for block in function.body.blocks for binding in block.bindings]:
            matched = self.pattern.extract_matched_expr(value, defined)
            nodes = () if matched is None else self._nodes(graph, matched, owner, defined)
            if nodes and nodes not in seen:
                seen.add(nodes)
                yield self._proposal(graph, nodes)

    def _nodes(self, graph: Graph, matched: Any, owner: Mapping[Any, str], defined: Any) -> tuple[str, ...]:
        from ...tvm_seam import relax

        operators = (relax.dpl.CallPattern, relax.dpl.TupleGetItemPattern)
        found = set()
        for part, expr in matched.items():
            if not isinstance(part, operators):
                continue
            value = defined[expr] if isinstance(expr, relax.Var) and expr in defined else expr
            if value in owner:
                found.add(owner[value])
        return graph.order(found)

    def _proposal(self, graph: Graph, nodes: tuple[str, ...]) -> Candidate | Refusal:
        if self.private:
            for name in graph.group_outputs(nodes):
                producer = graph.producer(name)
                if producer is not None and producer.id != nodes[-1]:
                    others = [user.id for user in graph.users(name) if user.id not in nodes]
                    read = f"read by {', '.join(others[:3])} too" if others else "an output of the model"
                    return Refusal(self.name, nodes, ESCAPES, f"{name} of {producer.op} is {read}")
        return Candidate(self.name, self.kind, nodes, self.reason, private=nodes[:-1] if self.private else ())


def _owners(graph: Graph, function: Any, relax: Any) -> dict[Any, str]:
    """Which node each call of ``main`` is: a graph's nodes are its calls, in their order."""
    bindings = [binding for block in function.body.blocks for binding in block.bindings]
    calls = [b.value for b in bindings if not isinstance(b, relax.MatchCast) and isinstance(b.value, relax.Call)]
    if len(calls) != len(graph.nodes):
        raise RuleError(f"graph '{graph.name}' is not the one of its module; give graph.from_model(model)")
    return {call: node.id for call, node in zip(calls, graph.nodes, strict=True)}
