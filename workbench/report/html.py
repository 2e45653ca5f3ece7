"""The page of a run, and the fragments that notebooks show. Nothing is loaded from anywhere: all is inline."""

from __future__ import annotations

import base64
import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import decisions
from . import format as fmt
from .document import GroupMeasured, GroupPart, TaskPart, TensorPart
from .frames import measured_groups, task_of, throughput
from .gap import gaps
from .predictions import prediction_words
from .run import Run
from .summary import caveat, reference_name, sentence
from .write import svg

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.figure import Figure

    from .comparison import Comparison

# Plots are images, which a page's style does not reach: they bring their own colours for light and dark.
_PLOT_STYLE = (
    "<style>svg{--ink:#1f2329;--grid:#c9cdd2;--alert:#b3220f}"
    "@media screen and (prefers-color-scheme:dark){svg{--ink:#e6e8eb;--grid:#3a4048;--alert:#ff9a87}}</style>"
)


@dataclass(frozen=True)
class Plot:
    """A plot as two data URIs, for wide and narrow screens, with the text for those who cannot see it."""

    wide: str
    narrow: str
    alt: str


def report_page(run: Run, drawn: Mapping[str, Figure] | None = None) -> str:
    """The whole report as one HTML page. ``drawn``: the run's plots, where somebody has drawn them already."""
    planned = run.variant("planned")
    kernels = throughput(run, "planned")
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            run=run,
            css=_stylesheet(),
            headline=sentence(run),
            caveat=caveat(run),
            fmt=fmt,
            reference=reference_name(run.reference),
            plots=_plots(run, drawn),
            plan_image=data_uri(run.plan_svg) if run.plan_svg else None,
            rates={one.name: throughput(run, one.name) if one.latency_us else None for one in run.variants},
            with_greedy=any(one.ratio_to_greedy is not None for one in run.variants),
            operator_count=sum(len(group.nodes) for group in run.plan.groups),
            groups=_groups(run),
            kernel_sum_us=kernels.kernels_us if kernels else None,
            planned_us=planned.latency_us.median if planned and planned.latency_us else None,
            launches=planned.kernels if planned else None,
            verdicts=_verdicts(run),
            trial_count=sum(task.trials for task in run.tasks),
            environment=_environment_facts(run),
            budget=_budget_facts(run),
            with_measured=any(one.measured_us for one in run.plan.decisions),
            words=decisions,
            predictions=prediction_words(run.plan.predictions),
            gaps={gap.variant: gap for gap in gaps(run)},
            names=fmt.group_names(run.plan.groups),
            breakable=_breakable,
            spread=_spread,
            tensors=_tensors,
        )
    )


def run_fragment(run: Run) -> str:
    """A run in a notebook's cell: the sentence and a small table."""
    return _environment().get_template("run_fragment.html.j2").render(run=run, headline=sentence(run), fmt=fmt)


def comparison_fragment(comparison: Comparison) -> str:
    """A comparison in a notebook's cell."""
    return _environment().get_template("comparison_fragment.html.j2").render(comparison=comparison, fmt=fmt)


@functools.cache
def _environment() -> Environment:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.PackageLoader("workbench.report", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def _stylesheet() -> Any:
    import markupsafe

    environment = _environment()
    assert environment.loader is not None
    return markupsafe.Markup(environment.loader.get_source(environment, "report.css")[0])


def data_uri(image: str) -> str:
    """An SVG document as a ``data:`` address."""
    return "data:image/svg+xml;base64," + base64.b64encode(image.encode()).decode()


def _plots(run: Run, drawn: Mapping[str, Figure] | None) -> dict[str, Plot]:
    from .plots import draw_plots

    wide, narrow = drawn or draw_plots(run), draw_plots(run, narrow=True)
    texts = {
        "latency": _latency_alt(run),
        "groups": "Time in each kernel, stacked, a row a variant; the plan's kernels are listed below.",
        "search": "Best time so far of each task by trial and by second; the table below has the ends.",
        "roofline": "Kernels by arithmetic intensity and GFLOP/s under the compute and memory roofs.",
    }
    return {
        name: Plot(data_uri(_recoloured(wide[name])), data_uri(_recoloured(narrow[name])), alt)
        for name, alt in texts.items()
    }


def _latency_alt(run: Run) -> str:
    parts = [
        f"{one.name} {fmt.time(one.latency_us.median)} {fmt.interval(one.latency_us)}"
        for one in run.variants
        if one.latency_us
    ]
    return f"Bars of the median latency: {', '.join(parts) or 'none, nothing could be timed'}."


def _recoloured(plot: Figure) -> str:
    """The plot as SVG whose text, lines and warnings follow the reader's light or dark setting."""
    from .plots._style import ALERT, GRID, INK

    text = svg(plot)
    for colour, name in ((INK, "ink"), (GRID, "grid"), (ALERT, "alert")):
        text = text.replace(colour, f"var(--{name})")
    head, opening, rest = text.partition("<defs>")
    return head + _PLOT_STYLE + opening + rest


def _groups(run: Run) -> list[tuple[GroupPart, GroupMeasured | None, TaskPart | None]]:
    measured = {group.id: group for group in measured_groups(run, "planned")}
    return [(group, measured.get(group.id), task_of(run, group.workload)) for group in run.plan.groups]


def _verdicts(run: Run) -> str:
    names = {"fuse": "fused", "split": "left apart", "tie": "tied"}
    counts = Counter(names.get(one.verdict, one.verdict) for one in run.plan.decisions)
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _breakable(words: str) -> str:
    """Lets a line break after each ``+`` and before each arrow."""
    return words.replace("+", "+\u200b").replace("->", "\u200b→")


def _spread(task: TaskPart) -> str:
    size, _ = fmt.unit_of(task.best_us or 0.0)
    return f"[{fmt.significant((task.low_us or 0.0) / size)}, {fmt.significant((task.high_us or 0.0) / size)}]"


def _tensors(tensors: tuple[TensorPart, ...]) -> str:
    return ", ".join(f"{one.name} {'×'.join(map(str, one.shape)) or 'scalar'} {one.dtype}" for one in tensors)


def _environment_facts(run: Run) -> list[tuple[str, str]]:
    """Target and environment as name and text; what is empty is left out."""
    target = run.target
    facts = [
        ("device", target.device),
        ("target", f"{target.kind} {target.mcpu}".strip()),
        ("cores, threads", f"{target.cores}, {target.threads}"),
        ("vector extensions", ", ".join(target.features)),
        ("elementary functions", "the C library's" if target.exact_math else "vectorised"),
        ("LLVM", target.llvm or ""),
        ("CUDA", target.cuda or ""),
    ]
    names = {
        "tvm": "TVM",
        "tvm_ffi": "TVM FFI",
        "numpy": "NumPy",
        "xgboost": "XGBoost",
        "os": "operating system",
        "python": "Python",
    }
    for name, value in run.environment.model_dump().items():
        text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else "" if value is None else str(value)
        facts.append((names.get(name, name.replace("_", " ")), text))
    return [(name, text) for name, text in facts if text]


def _budget_facts(run: Run) -> list[tuple[str, str]]:
    budget = run.budget
    facts = [
        ("trials", "no limit" if budget.trials is None else str(budget.trials)),
        ("trials a task", "no limit" if budget.trials_per_task is None else str(budget.trials_per_task)),
        ("minutes", "no limit" if budget.minutes is None else f"{budget.minutes:g}"),
        *([] if budget.until is None else [("until a minute is worth", f"{budget.until:g} %")]),
        ("seed", str(budget.seed)),
    ]
    return [*facts, ("strategy", budget.strategy)] if budget.strategy else facts
