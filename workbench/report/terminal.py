"""Tables for a terminal of 80 columns: functions return what rich prints, and print nothing themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from . import format as fmt
from .assemble import task_part
from .comparison import REGRESSIONS
from .summary import caveat, sentence

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from ..fusion.plan import Decision, FusionPlan
    from ..store.summary import StoreSummary
    from ..tuning.task import TuneResult
    from .comparison import Comparison, ScheduleChange
    from .document import TaskPart
    from .run import Run


def run_tables(run: Run) -> list[RenderableType]:
    """The sentence, the variants, the tasks, and what the store saved."""
    parts: list[RenderableType] = [_text(sentence(run), "bold" if run.complete else "bold red"), variants_table(run)]
    parts += [_text(words, "yellow") for words in (caveat(run),) if words]
    parts += [
        _text(f"{one.name} is {one.status}: {one.message}", "red")
        for one in run.variants
        if one.status != "ok" and one.message
    ]
    if run.tasks:
        parts += ["", tasks_table(run.tasks)]
    trials = sum(task.trials for task in run.tasks)
    parts.append(
        f"{fmt.count(trials, 'trial')}; kernels: {run.cache.hits} from the cache, {run.cache.builds} built; "
        f"{fmt.seconds(sum(run.timings_s.values()))} in all"
    )
    parts += [_text(f"note: {note}", "yellow") for note in run.notes]
    return parts


def variants_table(run: Run) -> Table:
    """Median, interval and ratio of each variant; a wrong or failed one has no time."""
    table = _table()
    _columns(table, "variant", right=False)
    _columns(table, "median", "95 % interval", "against unfused", "launches")
    _columns(table, "result", right=False)
    for one in run.variants:
        right = one.status == "ok" and one.correct
        table.add_row(
            one.name,
            fmt.time(one.latency_us.median if one.latency_us else None),
            fmt.interval(one.latency_us),
            fmt.ratio(one.ratio_to_unfused),
            str(one.kernels),
            _text("correct" if right else one.status.upper(), "green" if right else "bold red"),
        )
    return table


def tasks_table(tasks: Sequence[TaskPart]) -> Table:
    """What the search found for each task."""
    table = _table()
    table.add_column("operators", overflow="fold", min_width=16, max_width=22)
    _columns(table, "trials", "failed", "best", "default", "GFLOP/s")
    table.add_column("schedule", overflow="fold", max_width=20)
    for task in tasks:
        table.add_row(
            _operators(task.ops, 20, f", {task.weight} calls" if task.weight > 1 else ""),
            "stored" if task.cached else str(task.trials),
            str(sum(task.failed.values()) or ""),
            fmt.time(task.best_us),
            fmt.time(task.default_us),
            fmt.number(task.gflops or None),  # what only moves data has no rate
            _text(f"{task.schedule_source}\n{task.note}" if task.note else task.schedule_source),
        )
    return table


def tune_table(result: TuneResult) -> Table:
    """The tasks of a tuning job; its title says how much was spent."""
    table = tasks_table([task_part(one) for one in result.results])
    state = "" if result.complete else f", INCOMPLETE: {result.incomplete_reason or 'cut short'}"
    table.title = (
        f"{fmt.count(len(result.results), 'task')}, {fmt.count(result.trials, 'trial')}, "
        f"{fmt.seconds(result.seconds)}{state}"
    )
    table.title_justify = "left"
    table.title_style = "bold" if result.complete else "bold red"
    return table


def plan_tables(plan: FusionPlan) -> list[RenderableType]:
    """The groups of a plan, and the decisions behind its boundaries."""
    fused = sum(len(group.nodes) > 1 for group in plan.groups)
    operators = sum(len(group.nodes) for group in plan.groups)
    table = _table()
    table.add_column("group", no_wrap=True)
    table.add_column("operators", overflow="fold", max_width=24)
    table.add_column("rule", overflow="fold", max_width=16)
    _columns(table, "predicted")
    table.add_column("reason", overflow="fold")
    for group in plan.groups:
        table.add_row(
            group.id, _operators(group.ops, 22), group.rule, fmt.time(group.predicted_us), _text(group.reason)
        )
    heading = (
        f"{plan.graph.name}: {fmt.count(operators, 'operator')} in {fmt.count(len(plan.groups), 'group')}, "
        f"{fused} of them fused"
    )
    parts: list[RenderableType] = [_text(heading, "bold"), table]
    decisions, inside = _worth_showing(plan)
    if decisions:
        parts += ["", _text(fmt.count(len(plan.decisions), "decision"), "bold"), decisions_table(decisions)]
    if inside:
        parts.append(_text(f"and {fmt.count(inside, 'candidate')} inside these groups; all are in --json", "dim"))
    return parts


def _worth_showing(plan: FusionPlan) -> tuple[list[Decision], int]:
    """Decisions with groups called by their ids and long boundaries cut; and how many lie inside a taken group."""
    names = fmt.group_names(plan.groups)
    shown = [one for one in plan.decisions if one.verdict == "split" or one.edge or one.boundary in names]
    return [
        replace(one, boundary=fmt.boundary(one.boundary, names), reason=fmt.named(one.reason, names)) for one in shown
    ], len(plan.decisions) - len(shown)


def decisions_table(decisions: Iterable[Decision]) -> Table:
    """Verdict, boundary, predicted times and reason."""
    table = _table()
    table.add_column("verdict", no_wrap=True)
    table.add_column("boundary", overflow="fold", max_width=18)
    table.add_column("rule", overflow="fold", max_width=16)
    _columns(table, "fused", "apart")
    table.add_column("reason", overflow="fold")
    for one in decisions:
        table.add_row(
            _text(one.verdict, {"fuse": "green", "split": "yellow"}.get(one.verdict, "")),
            _text(fmt.broken(one.boundary, 18)),
            one.rule,
            fmt.time(one.predicted_us.get("fused")),
            fmt.time(one.predicted_us.get("unfused")),
            _text(one.reason),
        )
    return table


def comparison_tables(comparison: Comparison) -> list[RenderableType]:
    """The verdict, a row a variant, then what else differs and what weakens the verdict."""
    style = "bold red" if comparison.regressed else "bold" if comparison.comparable else "bold yellow"
    parts: list[RenderableType] = [
        _text(comparison.summary(), style),
        _text(f"A: {comparison.a}\nB: {comparison.b}", "dim"),
    ]
    if comparison.differences:
        table = _table()
        for heading in ("differs", "A", "B"):
            table.add_column(heading, overflow="fold")
        for one in comparison.differences:
            table.add_row(one.what, _text(one.a), _text(one.b))
        parts.append(table)
    table = _table()
    _columns(table, "variant", right=False)
    _columns(table, "A", "B", "B over A")
    _columns(table, "verdict", right=False)
    for name, a, b, ratio, verdict in comparison.rows():
        colour = "red" if verdict in REGRESSIONS else "green" if verdict in ("faster", "now correct") else ""
        table.add_row(name, a, b, ratio, _text(verdict, colour))
    parts.append(table)
    parts += [_text(f"{one.variant}: {one.message}", "red") for one in comparison.variants if one.message]
    parts += [f"group only in {group.side}: {fmt.operators(group.ops)} ({group.rule})" for group in comparison.groups]
    if comparison.schedules:
        parts.append(_schedules_table(comparison.schedules))
    parts += [_text(f"warning: {warning}", "yellow") for warning in comparison.warnings]
    return parts


def _schedules_table(changes: Sequence[ScheduleChange]) -> Table:
    table = _table()
    table.add_column("other schedule for", overflow="fold", max_width=30)
    for side in ("A", "B"):
        table.add_column(side, overflow="fold", max_width=24)
    for one in changes:
        table.add_row(
            _text(fmt.broken(one.operators, 28)),
            _text(f"{fmt.time(one.a_us)} {one.source_a}"),
            _text(f"{fmt.time(one.b_us)} {one.source_b}"),
        )
    return table


def store_table(summary: StoreSummary) -> Table:
    """Records and kernels by target and TVM version."""
    table = _table()
    table.title = (
        f"{summary.path}: {summary.records} records, {summary.kernels} kernels ({fmt.size(summary.kernel_bytes)}), "
        f"{summary.runs} runs, {fmt.size(summary.bytes)} in all"
    )
    table.title_justify, table.title_style = "left", "bold"
    table.add_column("target", overflow="fold")
    _columns(table, "TVM", "workloads", "records", "failed", "kernels")
    for one in summary.targets:
        counts = (one.workloads, one.records, one.failed, one.kernels)
        table.add_row(_text(one.target), one.tvm, *(str(count) for count in counts))
    return table


def _table() -> Table:
    from rich.table import Table

    return Table(box=None, padding=(0, 1, 0, 0), header_style="bold", expand=False, show_edge=False)


def _columns(table: Table, *headings: str, right: bool = True) -> None:
    for heading in headings:
        table.add_column(heading, justify="right" if right else "left", no_wrap=True)


def _operators(ops: tuple[str, ...], width: int, more: str = "") -> Text:
    """Operators over as many lines as they need, broken after a ``+``."""
    return _text(fmt.broken(fmt.operators(ops) + more, width))


def _text(words: str, style: str = "") -> Text:
    """Text that rich takes literally: an interval in brackets is not markup."""
    from rich.text import Text

    return Text(words, style=style)
