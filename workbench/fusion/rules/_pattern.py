"""A declarative pattern as a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from ...graph import Graph, Node
from ..categories import ESCAPES
from ..matching import readers_outside
from ..patterns import Found, Pattern
from ..patterns._match import Matcher
from ._base import Candidate, Kind, Refusal, Rule

MATCHES = 8  # alternatives at one root that are looked at for one without an escaping value
Check = Callable[[Graph, Found], tuple[str, str] | None]
Reason = Callable[[Graph, Found], str]


class PatternRule(Rule):
    """Proposes what a pattern matches, one candidate a root, and says of near misses what stopped them.

    ``private``: inner values that are read outside the match are a refusal ("inner value escapes"); otherwise they
    become further outputs of the kernel. ``reason`` may be a function of graph and match. ``where``: a last look at a
    match in Python, which gives None, or (category, detail) to refuse it. ``near``: how many operators must
    have matched for a miss to be worth a word; more than 1 where the root is as common as an add.

    >>> from workbench.fusion.patterns import anything, op
    >>> from workbench.graph import from_text
    >>> add_relu = PatternRule("add_relu", op("nn.relu", inputs=[op("add")]), summary="a sum and the ReLU of it")
    >>> graph = from_text('''
    ... x: float32[8]
    ... a: float32[8] = add(x, 1.0)
    ... y: float32[8] = nn.relu(a)
    ... z: float32[8] = nn.relu(x)
    ... return y, z''')
    >>> for proposed in add_relu.propose(graph):
    ...     print(proposed.nodes, getattr(proposed, "detail", "is proposed"))
    ('a', 'y') is proposed
    ('z',) x, an input, where add is expected
    """

    def __init__(
        self,
        name: str,
        pattern: Pattern,
        summary: str = "",
        kind: Kind = "vertical",
        private: bool = True,
        reason: str | Reason = "",
        example: str = "",
        extendable: bool = True,
        where: Check | None = None,
        near: int = 1,
    ) -> None:
        self.pattern, self.private, self.where, self.near = pattern, private, where, near
        self.name = name  # type: ignore[misc]
        self.kind = kind  # type: ignore[misc]
        self.summary = summary or f"pattern {name}"  # type: ignore[misc]
        self.reason = reason or self.summary
        self.example = example  # type: ignore[misc]
        self.extendable = extendable  # type: ignore[misc]

    def propose(self, graph: Graph) -> Iterator[Candidate | Refusal]:
        """One candidate or one refusal for each node at which the pattern's root operator stands."""
        matcher = Matcher(graph)
        for node in graph.nodes:
            yield from self._at(graph, matcher, node)

    def _at(self, graph: Graph, matcher: Matcher, node: Node) -> Iterator[Candidate | Refusal]:
        refused: Refusal | None = None
        for output in node.outputs:
            for found in islice(matcher.at(self.pattern, output), MATCHES):
                if len(found.nodes) == 0:
                    continue
                why = self._refusal(graph, node, found)
                if why is None:
                    if refused is not None:
                        yield refused
                    yield self._candidate(graph, node, found)
                    return
                refused = refused or Refusal(self.name, graph.order(found.nodes), *why)
            miss = matcher.miss
            if refused is None and miss is not None and miss.matched >= self.near:
                refused = Refusal(self.name, graph.order(miss.nodes), miss.category, miss.detail)
        if refused is not None:
            yield refused

    def _refusal(self, graph: Graph, root: Node, found: Found) -> tuple[str, str] | None:
        if self.private:
            for name in graph.order(found.nodes):
                inner = graph.node(name)
                if inner is not root and (outside := readers_outside(graph, inner, found.nodes)):
                    return ESCAPES, outside
        return self.where(graph, found) if self.where is not None else None

    def _candidate(self, graph: Graph, root: Node, found: Found) -> Candidate:
        nodes = graph.order(found.nodes)
        private = tuple(node for node in nodes if node != root.id) if self.private else ()
        reason = self.reason(graph, found) if callable(self.reason) else self.reason
        return Candidate(self.name, self.kind, nodes, reason, private=private)
