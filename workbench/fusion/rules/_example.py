"""A rule's example before and after, by really asking the rule."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from ...graph import Graph, from_text
from ...graph.text import node_text, to_text, typed
from ..legality import check_candidate, check_partition
from ._base import Candidate, Rule
from ._user import propose


@dataclass(frozen=True)
class After:
    """What one candidate makes of an example: the graph with one line in the place of its nodes."""

    nodes: tuple[str, ...]
    reason: str
    text: str


@dataclass(frozen=True)
class Example:
    """A rule's example as text, and what each of its candidates makes of it. Empty for a rule without example."""

    before: str
    after: tuple[After, ...]

    def __str__(self) -> str:
        parts = [f"before\n{textwrap.indent(self.before, '    ')}"]
        for one in self.after:
            parts.append(f"after: {one.reason}\n{textwrap.indent(one.text, '    ')}")
        return "\n".join(parts) if self.before else "no example\n"


def example_of(rule: Rule) -> Example:
    """The example of a rule, and what the rule makes of it.

    Raises PlanError for a text that is no graph, RuleError for a rule that fails on it, IllegalGroup for a candidate
    that could not be a kernel.
    """
    if not rule.example.strip():
        return Example("", ())
    graph = from_text(rule.example, rule.name)
    afters = []
    for candidate in propose(rule, graph)[0]:
        check_candidate(graph, candidate)
        afters.append(After(candidate.nodes, candidate.reason, fused_text(graph, candidate)))
    return Example(to_text(graph), tuple(afters))


def fused_text(graph: Graph, candidate: Candidate) -> str:
    """The graph as text, with the candidate as one operator that has the rule's name."""
    nodes = frozenset(candidate.nodes)
    groups = [candidate.nodes, *((node.id,) for node in graph.nodes if node.id not in nodes)]
    lines = []
    for index in check_partition(graph, groups):
        lines.append(_kernel(graph, candidate) if index == 0 else node_text(graph, graph.node(groups[index][0])))
    read = {name for node in graph.nodes for name in node.inputs}
    tensors = [name for name in graph.values if name in read and graph.values[name].producer is None]
    given = [typed(graph.values[name]) for name in tensors if graph.values[name].shape]
    return "\n".join([*given, *lines, f"return {', '.join(graph.outputs)}"]) + "\n"


def _kernel(graph: Graph, candidate: Candidate) -> str:
    results = ", ".join(typed(graph.values[name]) for name in graph.group_outputs(candidate.nodes))
    several = len(graph.group_outputs(candidate.nodes)) > 1
    read = [name for name in graph.group_inputs(candidate.nodes) if graph.values[name].shape]
    ops = " + ".join(graph.node(node).op.removeprefix("nn.") for node in candidate.nodes)
    rewrite = f", {candidate.rewrite}" if candidate.rewrite else ""
    made = f"({results})" if several else results
    return f"# {ops}{rewrite}\n{made} = {candidate.rule}({', '.join(read)})"
