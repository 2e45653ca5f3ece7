"""A plan's groups and decisions as HTML tables, for notebooks: no script, and no style from outside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from .plan import Decision, Factors, FusionPlan, duration

FORMS = ("fused", "partial", "unfused")
LONGEST = 60  # characters of a boundary


def groups_table(plan: FusionPlan) -> str:
    """A row a group."""
    rows = [
        [row["id"], row["rule"], row["ops"].replace("+", " + "), row["predicted"], row["reason"].replace("+", " + ")]
        for row in plan.describe()
    ]
    return _table(("group", "rule", "operators", "predicted", "reason"), [[escape(cell) for cell in r] for r in rows])


def decisions_table(decisions: Iterable[Decision]) -> str:
    """A row a boundary: verdict, times with intervals, ratios, the reason; its factors fold out."""
    columns = ("boundary", "verdict", "predicted", "ratio", "measured", "ratio", "reason", "factors")
    return _table(columns, [_row(decision) for decision in decisions])


def _row(decision: Decision) -> list[str]:
    boundary = decision.boundary.replace("+", " + ")
    shown = boundary if len(boundary) <= LONGEST else boundary[: LONGEST - 1] + "…"
    verdict: str = decision.verdict
    if decision.category and decision.category != verdict:
        verdict += f": {decision.category}"
    return [
        _lines(shown, decision.rule or "edge"),
        escape(verdict),
        _times(decision.predicted_us, decision.predicted_range_us),
        _ratio(decision.predicted_us),
        _times(decision.measured_us or {}, decision.measured_range_us),
        _ratio(decision.measured_us or {}),
        escape(decision.reason.replace("+", " + ")),
        "" if decision.factors is None else _factors(decision.factors),
    ]


def _lines(*lines: str) -> str:
    return "<br>".join(map(escape, lines))


def _times(times: Mapping[str, float], ranges: Mapping[str, tuple[float, float]]) -> str:
    return _lines(*(f"{form} {_time(times[form], ranges.get(form))}" for form in FORMS if form in times))


def _time(us: float, bounds: tuple[float, float] | None) -> str:
    text = duration(us * 1e-6)
    return text if bounds is None else f"{text} [{duration(bounds[0] * 1e-6)}, {duration(bounds[1] * 1e-6)}]"


def _ratio(times: Mapping[str, float]) -> str:
    """The faster of partial and unfused over fused: above 1, fused is faster."""
    apart = [times[form] for form in FORMS[1:] if form in times]
    return f"{min(apart) / times['fused']:.2f}x" if apart and times.get("fused") else ""


def _factors(factors: Factors) -> str:
    again = f", {factors.recomputed_flops:.3g} FLOP again in all" if factors.recomputed_flops else ""
    rows = {
        "intensity": f"{factors.intensity_before:.3g} to {factors.intensity_after:.3g} FLOP/byte",
        "bound by": " to ".join(dict.fromkeys(filter(None, (factors.bound_before, factors.bound_after)))),
        "arguments fit in": factors.level,
        "recompute factor": f"{factors.recompute:.4g}{again}",
        "parallel iterations": str(factors.parallelism),
        "live vectors over registers": f"{factors.pressure:.3g}",
        "tensors in the signature": str(factors.arguments or ""),
        "seconds to compile": f"{factors.compile_s:.2g}" if factors.compile_s else "",
    }
    launches = f"{factors.launches_saved} launch{'' if factors.launches_saved == 1 else 'es'}"
    shown = [f"{name}: {value}" for name, value in rows.items() if value]
    return f"<details><summary>saves {factors.bytes_saved / 1e6:.3g} MB, {launches}</summary>{_lines(*shown)}</details>"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """``rows`` are HTML already."""
    cell = 'style="text-align:left;padding:2px 8px;vertical-align:top"'
    head = "".join(f"<th {cell}>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td {cell}>{text}</td>' for text in row)}</tr>" for row in rows)
    style = "border-collapse:collapse;font-size:90%"
    return f'<table style="{style}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
