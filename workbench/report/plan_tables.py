"""Plans for a terminal of 80 columns: groups and decisions, a node or an edge explained, two plans compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from . import decisions as words
from . import format as fmt
from .tables import columns, new_table, operators, text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from ..fusion.compare import GroupChange, PlanComparison
    from ..fusion.explain import EdgeOutcome, Explanation, Proposal, RuleWord
    from ..fusion.plan import Decision, FusionPlan

MOST_SETS = 5  # proposals of one rule that are shown in full
COLOURS = {"fuse": "green", "split": "yellow", "fused": "green", "tie": "cyan"}


def plan_tables(plan: FusionPlan) -> list[RenderableType]:
    """The groups of a plan, and the decisions behind its boundaries."""
    fused = sum(len(group.nodes) > 1 for group in plan.groups)
    count = sum(len(group.nodes) for group in plan.groups)
    table = new_table()
    table.add_column("group", no_wrap=True)
    table.add_column("operators", overflow="fold", max_width=24)
    table.add_column("rule", overflow="fold", max_width=17)
    columns(table, "predicted")
    table.add_column("reason", overflow="fold")
    for group in plan.groups:
        table.add_row(group.id, operators(group.ops, 22), group.rule, fmt.time(group.predicted_us), text(group.reason))
    heading = (
        f"{plan.graph.name}: {fmt.count(count, 'operator')} in {fmt.count(len(plan.groups), 'group')}, "
        f"{fused} of them fused"
    )
    parts: list[RenderableType] = [text(heading, "bold"), table]
    decisions, inside = _worth_showing(plan)
    if decisions:
        parts += ["", text(fmt.count(len(plan.decisions), "decision"), "bold"), decisions_table(decisions)]
    if inside:
        parts.append(text(f"and {fmt.count(inside, 'candidate')} inside these groups; all are in --json", "dim"))
    return parts


def _worth_showing(plan: FusionPlan) -> tuple[list[Decision], int]:
    """Decisions with groups called by their ids and long boundaries cut; and how many lie inside a taken group."""
    names = fmt.group_names(plan.groups)
    shown = [one for one in plan.decisions if one.verdict == "split" or one.edge or one.boundary in names]
    return [
        replace(one, boundary=fmt.boundary(one.boundary, names), reason=fmt.named(one.reason, names)) for one in shown
    ], len(plan.decisions) - len(shown)


def decisions_table(decisions: Iterable[Decision]) -> Table:
    """Verdict and category, boundary and rule, times (measured ones where there are), ratio and reason."""
    table = new_table()
    table.add_column("verdict", overflow="fold", max_width=16)
    table.add_column("boundary", overflow="fold", max_width=18)
    columns(table, "times", right=False)
    columns(table, "ratio")
    table.add_column("reason", overflow="fold")
    for one in decisions:
        times = one.measured_us or one.predicted_us
        table.add_row(
            text(_stacked(one.verdict, one.category), COLOURS.get(one.verdict, "")),
            text(_stacked(fmt.broken(one.boundary, 18), one.rule)),
            "\n".join([*(["measured:"] if one.measured_us else []), *words.times(times), *_place(one)]) or fmt.NONE,
            words.ratio_text(times),
            text(one.reason),
        )
    return table


def _place(decision: Decision) -> list[str]:
    place = words.PLACES.get(decision.measured_in)
    return [f"({place})"] if decision.measured_us and place else []


def _stacked(*lines: str) -> str:
    return "\n".join(dict.fromkeys(line for line in lines if line))


def explanation_tables(explanation: Explanation) -> list[RenderableType]:
    """Where a node or an edge is, what every rule says of it, and the factors of each set that was proposed."""
    names = fmt.group_names(explanation.groups)
    parts: list[RenderableType] = [text(_headline(explanation), "bold")]
    for group in explanation.groups:
        parts.append(_indented(f"{group.id}: {fmt.operators(group.ops).replace('+', ' + ')}: {group.reason}", 2))
    parts += ["", text("What the rules say", "bold")]
    for word in explanation.rules:
        parts += _rule_parts(word, names)
    if explanation.others:
        parts += ["", text("What else was considered", "bold")]
        parts += _proposals(explanation.others, names)
    parts += ["", text("Edges", "bold"), _edges_table(explanation, names)]
    if len(explanation.edges) == 1:
        parts += _joined(explanation.edges[0])
    return parts


def _joined(edge: EdgeOutcome) -> list[RenderableType]:
    """What both groups of an edge would be as one kernel."""
    rows = [] if edge.decision is None else _time_rows(edge.decision)
    rows += [] if edge.factors is None else words.factor_rows(edge.factors)
    return [text("  both groups as one kernel:"), _pairs(rows)] if rows else []


def _indented(content: str, by: int) -> RenderableType:
    from rich.padding import Padding

    return Padding(text(content), (0, 0, 0, by), expand=False)


def _headline(explanation: Explanation) -> str:
    groups = [f"{one.id} ({one.rule})" for one in explanation.groups]
    if len(groups) == 1:
        return f"{explanation.subject} is in {groups[0]}"
    category = explanation.edges[0].category
    return f"{explanation.subject} is between {' and '.join(groups)}: {category}"


def _rule_parts(word: RuleWord, names: Mapping[str, str]) -> list[RenderableType]:
    style = {"proposed": "green", "refused": "yellow"}.get(word.word, "dim")
    parts: list[RenderableType] = [text(f"  {word.rule}: {word.word}", style)]
    parts += _proposals(word.proposals, names)
    for refusal in word.refusals[:MOST_SETS]:
        found = fmt.boundary("+".join(refusal.nodes), names)
        parts.append(_indented(f"{found}: {refusal.category}: {refusal.detail}", 4))
    return [*parts, *_more(len(word.refusals))]


def _proposals(proposals: Sequence[Proposal], names: Mapping[str, str]) -> list[RenderableType]:
    """The sets that were taken first, then the largest."""
    ranked = sorted(proposals, key=lambda one: (one.category not in ("fused", "pinned"), -len(one.nodes)))
    parts: list[RenderableType] = []
    for one in ranked[:MOST_SETS]:
        parts += _proposal_parts(one, names)
    return [*parts, *_more(len(ranked))]


def _more(count: int) -> list[RenderableType]:
    return [text(f"    and {count - MOST_SETS} more; all are in --json", "dim")] if count > MOST_SETS else []


def _proposal_parts(one: Proposal, names: Mapping[str, str]) -> list[RenderableType]:
    found = fmt.boundary("+".join(one.nodes), names)
    parts: list[RenderableType] = [
        text(f"    {found}: {one.category}", COLOURS.get(one.category, "")),
        _indented(fmt.named(one.reason, names), 6),
    ]
    rows = [] if one.decision is None else _time_rows(one.decision)
    rows += [] if one.factors is None else words.factor_rows(one.factors)
    if rows:
        parts.append(_pairs(rows))
    return parts


def _time_rows(decision: Decision) -> list[tuple[str, str]]:
    rows = []
    for name, times, ranges in (
        ("predicted", decision.predicted_us, decision.predicted_range_us),
        ("measured", decision.measured_us, decision.measured_range_us),
    ):
        lines = words.times(times, ranges)
        if lines:
            gain = words.ratio(times)
            where = _place(decision) if name == "measured" else []
            rows.append((name, "\n".join([*lines, *where, *([] if gain is None else [f"ratio {gain:.2f}x"])])))
    if decision.expected:
        rows.append(("expected", f"{decision.expected}; decided: {decision.verdict}"))
    return rows


def _pairs(rows: Sequence[tuple[str, str]]) -> Table:
    table = new_table()
    table.show_header = False
    table.add_column("", no_wrap=True, min_width=18)
    table.add_column("", overflow="fold")
    for name, value in rows:
        table.add_row(text(f"      {name}", "dim"), text(value))
    return table


def _edges_table(explanation: Explanation, names: Mapping[str, str]) -> Table:
    table = new_table()
    table.add_column("edge", overflow="fold", max_width=24)
    table.add_column("outcome", overflow="fold", max_width=22)
    table.add_column("reason", overflow="fold")
    for one in explanation.edges:
        outcome = f"inside {one.group}" if one.group else one.category
        table.add_row(
            text(fmt.broken(one.edge, 22, ">")),
            text(outcome, "green" if one.group else "yellow"),
            text(fmt.named(one.reason, names)),
        )
    return table


def plan_comparison_tables(comparison: PlanComparison) -> list[RenderableType]:
    """What changed from plan A to plan B."""
    parts: list[RenderableType] = [
        text(comparison.summary(), "bold"),
        text(f"A: {comparison.a}\nB: {comparison.b}", "dim"),
        text(
            f"predicted in all: {fmt.time(comparison.predicted_a_us)} in A, {fmt.time(comparison.predicted_b_us)} in B"
        ),
    ]
    if comparison.settings:
        parts += ["", _three("differs", [(one.what, one.a, one.b) for one in comparison.settings])]
    changes = (*comparison.only_a, *comparison.only_b, *comparison.changed)
    if changes:
        parts += ["", _groups_table(comparison)]
    if comparison.rules:
        counts = [
            (one.rule, _count(one.matched_a, one.groups_a), _count(one.matched_b, one.groups_b))
            for one in comparison.rules
        ]
        parts += ["", _three("rule", counts)]
    if comparison.boundaries:
        rows = [
            (
                fmt.broken(fmt.boundary(one.boundary, {}), 20),
                f"{one.verdict_a}, {one.category_a or 'no category'}\n{one.reason_a}",
                f"{one.verdict_b}, {one.category_b or 'no category'}\n{one.reason_b}",
            )
            for one in comparison.boundaries
        ]
        parts += ["", _three("boundary", rows)]
    return parts


def _count(matched: int, groups: int) -> str:
    return f"matched {fmt.count(matched, 'time')}, {fmt.count(groups, 'group')}"


def _three(heading: str, rows: Iterable[tuple[str, str, str]]) -> Table:
    table = new_table()
    table.add_column(heading, overflow="fold", max_width=20)
    for side in ("A", "B"):
        table.add_column(side, overflow="fold", ratio=None)
    for row in rows:
        table.add_row(*map(text, row))
    return table


def _groups_table(comparison: PlanComparison) -> Table:
    table = new_table()
    columns(table, "group", right=False)
    table.add_column("nodes", overflow="fold", min_width=20, max_width=20)
    table.add_column("operators", overflow="fold", min_width=20, max_width=20)
    table.add_column("rule", overflow="fold", max_width=17)
    columns(table, "predicted")
    for where, groups in (("only A", comparison.only_a), ("only B", comparison.only_b), ("both", comparison.changed)):
        for one in groups:
            table.add_row(
                text(where, {"only A": "red", "only B": "green"}.get(where, "")),
                text(fmt.broken(fmt.boundary("+".join(one.nodes), {}), 20)),
                operators(one.ops, 20),
                text(_rule_change(one)),
                fmt.time(one.b_us if one.a_us is None else one.a_us),
            )
    return table


def _rule_change(one: GroupChange) -> str:
    if one.rule_a and one.rule_b:
        return f"{one.rule_a} -> {one.rule_b}"
    return one.rule_a or one.rule_b or ""
