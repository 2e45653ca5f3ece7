"""Matching a pattern against a graph, from the root towards the inputs, with what came closest where it fails.

Backtracking over the alternatives in the order in which they are written; the first match wins. Of failed attempts
the one that had matched most operators is kept: that is the near miss worth telling (Ford 2004 reports errors of
parsing expression grammars so).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ...graph import Graph, Node
from ..categories import ATTRIBUTE, DTYPE, ESCAPES, NOT_CONSTANT, OPERATOR, RANK, SHAPE
from ..matching import Match, close, made_by, readers_outside, scalar
from ._pattern import COMMUTATIVE, Anything, Bind, Constant, Finder, OneOf, Op, Pattern, Producers, Region, Repeat

LIMIT = 20_000  # operand tests at one root; a pattern that needs more is given up there


@dataclass(frozen=True)
class Found:
    """A match: its nodes in program order of discovery, and the values under the pattern's names."""

    nodes: frozenset[str]
    bound: Mapping[str, str]

    def with_node(self, node: str) -> Found:
        return Found(self.nodes | {node}, self.bound)

    def binding(self, name: str, value: str) -> Found:
        return Found(self.nodes, {**self.bound, name: value})


@dataclass(frozen=True)
class Miss:
    """Where a match failed: what had matched, with the node ``at`` that did not, and why.

    ``matched`` counts the operators that did.
    """

    nodes: frozenset[str]
    at: str | None
    category: str
    detail: str
    matched: int


Key = tuple[int, int, str, tuple[tuple[str, str], ...]]


@dataclass
class Matcher:
    """Tries a pattern at one root after the other, and remembers where repetitions lead nowhere.

    ``miss`` is the closest failure at this root; None when not even the root's operator fits.
    """

    graph: Graph
    miss: Miss | None = None
    _tests: int = 0
    _reached: int = 0
    _barren: dict[Key, list[tuple[int, int, Miss | None]]] = field(default_factory=dict)

    def at(self, pattern: Pattern, value: str) -> Iterator[Found]:
        """Every way in which a value matches."""
        self.miss, self._tests, self._reached = None, 0, 0
        return self.match(pattern, value, Found(frozenset(), {}))

    def match(self, pattern: Pattern, value: str, found: Found) -> Iterator[Found]:
        """Every way in which the value matches, given what has matched so far."""
        self._tests += 1
        if self._tests > LIMIT:
            self._fail(found, None, OPERATOR, f"given up after {LIMIT} tests; make the pattern more specific")
            return
        if isinstance(pattern, Op):
            yield from self._op(pattern, value, found)
        elif isinstance(pattern, Anything):
            yield from self._bind(pattern.name, value, found)
        elif isinstance(pattern, Constant):
            yield from self._constant(pattern, value, found)
        elif isinstance(pattern, OneOf):
            for choice in pattern.choices:
                yield from self.match(choice, value, found)
        elif isinstance(pattern, Repeat):
            yield from self._repeat(pattern, value, found)
        elif isinstance(pattern, Bind):
            for named in self._bind(pattern.name, value, found):
                yield from self.match(pattern.inner, value, named)
        elif isinstance(pattern, Producers):
            yield from self._producers(pattern, value, found)
        elif isinstance(pattern, Region):
            yield from self._region(pattern, value, found)

    def _bind(self, name: str | None, value: str, found: Found) -> Iterator[Found]:
        known = found.bound.get(name, value) if name is not None else value
        if known != value:
            self._fail(found, value, OPERATOR, f"{value} where {known} is expected again")
        elif name is None or name in found.bound:
            yield found
        else:
            yield found.binding(name, value)

    def _constant(self, pattern: Constant, value: str, found: Found) -> Iterator[Found]:
        given = self.graph.values[value]
        number = scalar(self.graph, value)
        if given.data is None:
            self._fail(found, value, NOT_CONSTANT, f"{value} is computed or given, not a constant")
        elif pattern.value is not None and number is None:
            self._fail(found, value, SHAPE, f"{value} has shape {list(given.shape)}; {pattern.value:g} is expected")
        elif pattern.value is not None and not close(number, pattern.value):
            self._fail(found, value, ATTRIBUTE, f"constant {number:g} where {pattern.value:g} is expected")
        elif pattern.shape is not None and not pattern.shape(given.shape):
            self._fail(found, value, SHAPE, f"constant {value} has shape {list(given.shape)}")
        else:
            yield from self._bind(pattern.name, value, found)

    def _op(self, pattern: Op, value: str, found: Found) -> Iterator[Found]:
        node = self.graph.producer(value)
        refused = refusal(self.graph, pattern, value, node)
        if refused is not None:
            category, detail, is_operator = refused
            here = found if node is None or not is_operator else found.with_node(node.id)
            self._fail(here, value, category, detail)
            return
        assert node is not None
        for named in self._bind(pattern.name, value, found.with_node(node.id)):
            if pattern.inputs is not None:
                yield from self._operands(pattern, pattern.inputs, node, named)
            elif pattern.through is not None:
                for operand in dict.fromkeys(node.inputs):
                    yield from self.match(pattern.through, operand, named)
            else:
                yield named

    def _operands(self, pattern: Op, patterns: tuple[Pattern, ...], node: Node, found: Found) -> Iterator[Found]:
        given = node.inputs[: len(patterns)] if pattern.rest else node.inputs
        if len(given) != len(patterns):
            detail = f"{node.op} ({node.id}) has {len(node.inputs)} operands, {len(patterns)} are expected"
            self._fail(found, None, OPERATOR, detail)
            return
        yield from self._each(patterns, given, found)
        if node.op in COMMUTATIVE and len(given) == 2 and given[0] != given[1]:
            yield from self._each(patterns, given[::-1], found)

    def _each(self, patterns: tuple[Pattern, ...], values: tuple[str, ...], found: Found) -> Iterator[Found]:
        if not patterns:
            yield found
            return
        for first in self.match(patterns[0], values[0], found):
            yield from self._each(patterns[1:], values[1:], first)

    def _repeat(self, pattern: Repeat, value: str, found: Found) -> Iterator[Found]:
        key = (id(pattern.step), id(pattern.inner), value, _ordered(found.bound))
        for least, most, miss in self._barren.get(key, ()):
            if least <= pattern.least and pattern.most <= most:  # no number of steps in a wider range led anywhere
                self._fail_again(found, miss)
                return
        before, self._reached, self.miss = (self._reached, self.miss), len(found.nodes) - 1, None
        matched = False
        for longer in self.match(pattern.step.leading_to(pattern.rest()), value, found):
            matched = True
            yield longer
        if pattern.least == 0:
            if self._reached == len(found.nodes):  # of two equal misses, that of the inner pattern says more
                self._reached -= 1
            for shorter in self.match(pattern.inner, value, found):
                matched = True
                yield shorter
        if not matched and self._tests <= LIMIT:
            self._barren.setdefault(key, []).append((pattern.least, pattern.most, self.miss))
        if before[0] >= self._reached:
            self._reached, self.miss = before

    def _producers(self, pattern: Producers, value: str, found: Found) -> Iterator[Found]:
        nodes, frontier = found.nodes, [value]
        shape = self.graph.values[value].shape
        while frontier and len(nodes) - len(found.nodes) < pattern.most:
            name = frontier.pop(0)
            node = self.graph.producer(name)
            refused = refusal(self.graph, pattern.step, name, node)
            if node is None or refused is not None or node.id in nodes:
                self._fail(Found(nodes, found.bound), name, *(refused or (OPERATOR, f"{name} is matched", True))[:2])
            elif self.graph.values[name].shape != shape:
                self._fail(Found(nodes, found.bound), name, SHAPE, f"{name} is broadcast to {list(shape)}")
            elif escaping := readers_outside(self.graph, node, nodes):
                self._fail(Found(nodes, found.bound), name, ESCAPES, escaping)
            else:
                nodes |= {node.id}
                frontier += node.inputs
        if len(nodes) - len(found.nodes) >= pattern.least:
            yield Found(nodes, found.bound)

    def _region(self, pattern: Region, value: str, found: Found) -> Iterator[Found]:
        matches = _regions(self.graph, pattern.finder).get(value, ())
        if not matches:
            title = pattern.finder.__name__.strip("_").replace("_", " ")
            self._fail(found, value, OPERATOR, f"{made_by(self.graph, value)} where one of the {title} is expected")
        for match in matches:
            yield from self.match(pattern.inner, match.source, Found(found.nodes.union(match.nodes), found.bound))

    def _fail(self, found: Found, value: str | None, category: str, detail: str) -> None:
        if len(found.nodes) <= self._reached:
            return
        # The operator that does not fit is part of what was looked at.
        producer = None if value is None else self.graph.values[value].producer
        nodes = found.nodes if producer is None else found.nodes | {producer}
        self._reached = len(found.nodes)
        self.miss = Miss(nodes, producer, category, detail, self._reached)

    def _fail_again(self, found: Found, miss: Miss | None) -> None:
        """The path to the old failure is another root's: what is told here is where it ended."""
        if miss is not None and len(found.nodes) + 1 > self._reached:
            nodes = found.nodes if miss.at is None else found.nodes | {miss.at}
            self._reached = len(found.nodes) + 1
            self.miss = Miss(nodes, miss.at, miss.category, miss.detail, self._reached)


def find(graph: Graph, pattern: Pattern, value: str) -> Found | None:
    """The first match of a pattern at a value; None when there is none."""
    return next(Matcher(graph).at(pattern, value), None)


def refusal(graph: Graph, pattern: Op, value: str, node: Node | None) -> tuple[str, str, bool] | None:
    """Why a value is not the result of such an operator, operands left aside: category, detail, right operator."""
    kind_fits = node is not None and (not pattern.kinds or node.kind in pattern.kinds)
    if node is None or (pattern.names and node.op not in pattern.names) or not kind_fits:
        wanted = " or ".join(pattern.names or pattern.kinds or ("an operator",))
        return OPERATOR, f"{made_by(graph, value)} where {wanted} is expected", False
    where, result = f"{node.op} ({node.id})", graph.values[value]
    for name, expected in pattern.attrs.items():
        if not _attribute_fits(name, node.attrs.get(name), expected, graph, node):
            shown = "" if callable(expected) else f", {expected!r} is expected"
            return ATTRIBUTE, f"{name} of {where} is {node.attrs.get(name)!r}{shown}", True
    if pattern.item is not None and _item(node, value) != pattern.item:
        return ATTRIBUTE, f"{value} is item {_item(node, value)} of {where}, item {pattern.item} is expected", True
    if pattern.dtypes and result.dtype not in pattern.dtypes:
        return DTYPE, f"{where} is {result.dtype}, {' or '.join(pattern.dtypes)} is expected", True
    if pattern.ranks and len(result.shape) not in pattern.ranks:
        return RANK, f"{where} has rank {len(result.shape)}, {' or '.join(map(str, pattern.ranks))} is expected", True
    if pattern.shape is not None and not pattern.shape(result.shape):
        return SHAPE, f"{where} has shape {list(result.shape)}", True
    return None


def _ordered(bound: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(bound.items())) if bound else ()


def _item(node: Node, value: str) -> int:
    items = node.attrs.get("tuple_items")
    index = node.outputs.index(value)
    return int(items[index]) if isinstance(items, tuple) else index


def _attribute_fits(name: str, given: object, expected: object, graph: Graph, node: Node) -> bool:
    if callable(expected):
        return bool(expected(given))
    if name in ("axis", "axes") and node.inputs:
        rank = len(graph.values[node.inputs[0]].shape)
        return _from_front(given, rank) == _from_front(expected, rank)
    return given == expected


def _from_front(axes: object, rank: int) -> object:
    if isinstance(axes, int):
        return (axes % rank if rank else axes,)
    if isinstance(axes, list | tuple):
        return tuple(a % rank if isinstance(a, int) and rank else a for a in axes)
    return axes


_known: weakref.WeakKeyDictionary[Graph, dict[Finder, dict[str, list[Match]]]] = weakref.WeakKeyDictionary()


def _regions(graph: Graph, finder: Finder) -> dict[str, list[Match]]:
    """What a finder sees in a graph, by its output; looked for once."""
    by_finder = _known.setdefault(graph, {})
    if finder not in by_finder:
        found: dict[str, list[Match]] = {}
        for match in finder(graph):
            found.setdefault(match.output, []).append(match)
        by_finder[finder] = found
    return by_finder[finder]
