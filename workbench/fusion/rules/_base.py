"""The one interface of all rules, built-in and user's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

from ...graph import Graph

Kind = Literal["vertical", "horizontal"]


@dataclass(frozen=True)
class Candidate:
    """A set of nodes that a rule would make one kernel.

    ``nodes`` are node ids in graph order. ``rewrite`` names a rewrite of ``workbench.kernels.rewrites`` that is
    applied to the group before it is lowered (for example ``fold_batchnorm``), or is None. ``private`` are members
    whose results the pattern assumes nobody else reads: a candidate with such a result escaping is illegal.
    """

    rule: str
    kind: Kind
    nodes: tuple[str, ...]
    reason: str
    rewrite: str | None = None
    private: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refusal:
    """A set of nodes that a rule looked at and does not propose, with the category that stopped it.

    ``category`` is one of ``workbench.fusion.categories``; ``detail`` names what was found, such as ``lv3 is read by
    lv7 too``. It is what ``workbench plan --explain`` shows for the rule.
    """

    rule: str
    nodes: tuple[str, ...]
    category: str
    detail: str


class Rule(ABC):
    """Looks at a graph and proposes candidates. Must not change or keep the graph.

    A candidate that is illegal is dropped by the planner whatever a rule says (see ``legality``), so a rule checks
    what makes the pattern *meant*, not what makes it legal.
    """

    name: ClassVar[str]
    kind: ClassVar[Kind]
    summary: ClassVar[str]  # one line for `workbench rules` and the report
    example: ClassVar[str] = ""  # a small graph as text (see ``graph.text``) that the rule proposes to fuse
    extendable: ClassVar[bool] = True  # False: the group's schedule serves this very pattern, so nothing is absorbed

    @abstractmethod
    def propose(self, graph: Graph) -> Iterable[Candidate | Refusal]:
        """Candidates, and what was looked at in vain, in a deterministic order."""
