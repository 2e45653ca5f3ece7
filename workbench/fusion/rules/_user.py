"""Rules that a user writes in a file of their own."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from ...errors import RuleError
from ...graph import Graph
from ._base import Candidate, Kind, Refusal, Rule

Proposal = Candidate | Refusal | Iterable[str]
Function = Callable[[Graph], Iterable[Proposal]]


class FunctionRule(Rule):
    """A function on the graph as a rule; what :func:`rule` makes. Attributes are the instance's own."""

    def __init__(self, function: Function, name: str, kind: Kind, summary: str) -> None:
        self.function = function
        self.name = name  # type: ignore[misc]
        self.kind = kind  # type: ignore[misc]
        self.summary = summary  # type: ignore[misc]

    def propose(self, graph: Graph) -> Iterable[Candidate | Refusal]:
        """The function's candidates and refusals; a plain set of node ids becomes a candidate of this rule."""
        for proposed in self.function(graph):
            yield proposed if isinstance(proposed, Candidate | Refusal) else self._candidate(graph, proposed)

    def _candidate(self, graph: Graph, nodes: Iterable[str]) -> Candidate:
        known = {node.id for node in graph.nodes}
        members = list(dict.fromkeys(nodes))
        ordered = graph.order(frozenset(members)) if known.issuperset(members) else tuple(members)
        return Candidate(self.name, self.kind, ordered, self.summary)

    def __call__(self, graph: Graph) -> Iterable[Proposal]:
        return self.function(graph)


def rule(name: str | None = None, kind: Kind = "vertical", summary: str = "") -> Callable[[Function], FunctionRule]:
    """Make a rule of a function that takes a graph and yields candidates, or sets of node ids.

    >>> @rule(name="add_relu", kind="vertical")
    ... def add_relu(graph):
    ...     for node in graph.nodes:
    ...         for user in graph.successors(node.id):
    ...             if node.op == "add" and user.op == "nn.relu":
    ...                 yield {node.id, user.id}
    >>> add_relu.name
    'add_relu'
    """
    if kind not in ("vertical", "horizontal"):
        raise RuleError(f"rule kind '{kind}' is not known; give 'vertical' or 'horizontal'")

    def decorate(function: Function) -> FunctionRule:
        title = name or function.__name__
        doc = (function.__doc__ or "").strip().partition("\n")[0]
        return FunctionRule(function, title, kind, summary or doc or f"rule {title}")

    return decorate


def load_rules(path: str | Path) -> tuple[Rule, ...]:
    """The rules of a Python file, in the order they are defined.

    Taken are Rule subclasses that the file defines (made without arguments), Rule instances, and functions under
    ``@rule``. Raises :class:`RuleError` when the file is missing, cannot be imported, or holds no rule.
    """
    file = Path(path)
    if not file.is_file():
        raise RuleError(f"rule file {file} does not exist; give a Python file with Rule classes or @rule functions")
    module = _import(file)
    found: dict[int, Rule] = {}
    for value in vars(module).values():
        made = _rule_of(value, module, file)
        if made is not None:
            found.setdefault(id(value), made)
    if not found:
        raise RuleError(f"rule file {file} defines no rule; subclass workbench.Rule or use @workbench.fusion.rule")
    rules = tuple(found.values())
    names = [made.name for made in rules]
    double = sorted({name for name in names if names.count(name) > 1})
    if double:
        raise RuleError(f"rule file {file} defines two rules named {', '.join(double)}; rename one")
    return rules


def _import(file: Path) -> ModuleType:
    name = f"workbench_rules_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise RuleError(f"rule file {file} is no Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickles in the file look their module up
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever a user's file raises becomes one line that names it
        del sys.modules[name]
        raise RuleError(f"rule file {file} cannot be imported: {_line(error)}") from error
    return module


def _rule_of(value: Any, module: ModuleType, file: Path) -> Rule | None:
    if isinstance(value, Rule):
        return value
    if not (isinstance(value, type) and issubclass(value, Rule) and value.__module__ == module.__name__):
        return None
    missing = [field for field in ("name", "kind", "summary") if not isinstance(getattr(value, field, None), str)]
    if missing:
        raise RuleError(f"rule {value.__name__} in {file} lacks {', '.join(missing)}; set them as class attributes")
    try:
        return value()
    except TypeError as error:
        raise RuleError(f"rule {value.__name__} in {file} cannot be made without arguments: {_line(error)}") from error


def propose(proposer: Rule, graph: Graph) -> tuple[tuple[Candidate, ...], tuple[Refusal, ...]]:
    """What a rule proposes, and what it refuses; RuleError when it raises or gives something that is neither."""
    try:
        given = tuple(proposer.propose(graph))
    except RuleError:  # names the rule already
        raise
    except (Exception, SystemExit) as error:  # a user's code: name the rule, keep the cause for --debug
        raise RuleError(
            f"rule '{proposer.name}' failed on {graph.name}: {_line(error)}; fix it or leave it out"
        ) from error
    for one in given:
        if not isinstance(one, Candidate | Refusal):
            kind = type(cast(object, one)).__name__
            raise RuleError(f"rule '{proposer.name}' proposed a {kind}; give workbench.Candidate objects")
    candidates = tuple(one for one in given if isinstance(one, Candidate))
    return candidates, tuple(one for one in given if isinstance(one, Refusal))


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
