"""Tables for a terminal of 80 columns: functions return what rich prints, and print nothing themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import format as fmt
from .assemble import task_part
from .comparison import REGRESSIONS
from .gap import Gap, gaps
from .predictions import prediction_words
from .summary import caveat, sentence
from .sweep import HEADINGS
from .tables import columns, new_table, operators, text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from ..store.summary import StoreSummary
    from ..tuning.task import TuneResult
    from .comparison import Comparison, ScheduleChange
    from .document import TaskPart
    from .run import Run
    from .sweep import Sweep


def run_tables(run: Run) -> list[RenderableType]:
    """The sentence, the variants, the tasks, and what the store saved."""
    parts: list[RenderableType] = [text(sentence(run), "bold" if run.complete else "bold red"), variants_table(run)]
    parts += [text(words, "yellow") for words in (caveat(run),) if words]
    parts += [
        text(f"{one.name} is {one.status}: {one.message}", "red")
        for one in run.variants
        if one.status != "ok" and one.message
    ]
    if run.tasks:
        parts += ["", tasks_table(run.tasks)]
    shown = [gap for gap in gaps(run) if gap.alone_us is not None]
    if shown:
        parts += ["", gaps_table(shown)]
    words = prediction_words(run.plan.predictions)
    if words:
        parts += ["", text(words)]
    if run.plan.predictions is not None and run.plan.predictions.warning:
        parts.append(text(f"warning: {run.plan.predictions.warning}", "yellow"))
    trials = sum(task.trials for task in run.tasks)
    parts.append(
        f"{fmt.count(trials, 'trial')}; kernels: {run.cache.hits} from the cache, {run.cache.builds} built; "
        f"{fmt.seconds(sum(run.timings_s.values()))} in all"
    )
    parts += [text(f"note: {note}", "yellow") for note in run.notes]
    return parts


def variants_table(run: Run) -> Table:
    """Median, interval and ratio of each variant; a wrong or failed one has no time."""
    table = new_table()
    columns(table, "variant", right=False)
    columns(table, "median", "95 % interval", "against unfused", "launches")
    columns(table, "result", right=False)
    for one in run.variants:
        right = one.status == "ok" and one.correct
        table.add_row(
            one.name,
            fmt.time(one.latency_us.median if one.latency_us else None),
            fmt.interval(one.latency_us),
            fmt.ratio(one.ratio_to_unfused),
            str(one.kernels),
            text("correct" if right else one.status.upper(), "green" if right else "bold red"),
        )
    return table


def gaps_table(found: Sequence[Gap]) -> Table:
    """Each variant as a whole against the sums of its kernels."""
    table = new_table()
    columns(table, "variant", right=False)
    columns(table, "whole", "kernels inside", "kernels alone")
    columns(table, "the whole takes", right=False)
    for gap in found:
        table.add_row(gap.variant, fmt.time(gap.whole_us), fmt.time(gap.inside_us), fmt.time(gap.alone_us), gap.words)
    return table


def tasks_table(tasks: Sequence[TaskPart]) -> Table:
    """What the search found for each task."""
    table = new_table()
    table.add_column("operators", overflow="fold", min_width=16, max_width=22)
    columns(table, "trials", "failed", "best", "default", "GFLOP/s")
    table.add_column("schedule", overflow="fold", max_width=20)
    for task in tasks:
        table.add_row(
            operators(task.ops, 20, f", {task.weight} calls" if task.weight > 1 else ""),
            "stored" if task.cached else str(task.trials),
            str(sum(task.failed.values()) or ""),
            fmt.time(task.best_us),
            fmt.time(task.default_us),
            fmt.number(task.gflops or None),  # what only moves data has no rate
            text(f"{task.schedule_source}\n{task.note}" if task.note else task.schedule_source),
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


def comparison_tables(comparison: Comparison) -> list[RenderableType]:
    """The verdict, a row a variant, then what else differs and what weakens the verdict."""
    style = "bold red" if comparison.regressed else "bold" if comparison.comparable else "bold yellow"
    parts: list[RenderableType] = [
        text(comparison.summary(), style),
        text(f"A: {comparison.a}\nB: {comparison.b}", "dim"),
    ]
    if comparison.differences:
        table = new_table()
        for heading in ("differs", "A", "B"):
            table.add_column(heading, overflow="fold")
        for one in comparison.differences:
            table.add_row(one.what, text(one.a), text(one.b))
        parts.append(table)
    table = new_table()
    columns(table, "variant", right=False)
    columns(table, "A", "B", "B over A")
    columns(table, "verdict", right=False)
    for name, a, b, ratio, verdict in comparison.rows():
        colour = "red" if verdict in REGRESSIONS else "green" if verdict in ("faster", "now correct") else ""
        table.add_row(name, a, b, ratio, text(verdict, colour))
    parts.append(table)
    parts += [text(f"{one.variant}: {one.message}", "red") for one in comparison.variants if one.message]
    parts += [f"group only in {group.side}: {fmt.operators(group.ops)} ({group.rule})" for group in comparison.groups]
    if comparison.schedules:
        parts.append(_schedules_table(comparison.schedules))
    parts += [text(f"warning: {warning}", "yellow") for warning in comparison.warnings]
    return parts


def sweep_tables(sweep: Sweep) -> list[RenderableType]:
    """The sentence, then a row a limit, and what went wrong."""
    table = new_table()
    columns(table, *HEADINGS)
    for row in sweep.rows():
        table.add_row(*map(text, row))
    failed = [text(f"limit {one.name}: {one.message}", "red") for one in sweep.points if one.status != "ok"]
    return [text(sweep.sentence(), "bold"), table, *failed]


def _schedules_table(changes: Sequence[ScheduleChange]) -> Table:
    table = new_table()
    table.add_column("other schedule for", overflow="fold", max_width=30)
    for side in ("A", "B"):
        table.add_column(side, overflow="fold", max_width=24)
    for one in changes:
        table.add_row(
            text(fmt.broken(one.operators, 28)),
            text(f"{fmt.time(one.a_us)} {one.source_a}"),
            text(f"{fmt.time(one.b_us)} {one.source_b}"),
        )
    return table


def store_table(summary: StoreSummary) -> Table:
    """Records and kernels by target and TVM version."""
    table = new_table()
    table.title = (
        f"{summary.path}: {summary.records} records, {summary.kernels} kernels ({fmt.size(summary.kernel_bytes)}), "
        f"{summary.runs} runs, {fmt.size(summary.bytes)} in all"
    )
    table.title_justify, table.title_style = "left", "bold"
    table.add_column("target", overflow="fold")
    columns(table, "TVM", "workloads", "records", "failed", "kernels")
    for one in summary.targets:
        counts = (one.workloads, one.records, one.failed, one.kernels)
        table.add_row(text(one.target), one.tvm, *(str(count) for count in counts))
    return table
