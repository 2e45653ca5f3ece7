"""A plan as a picture: an inline SVG of the graph with its groups as coloured frames, and tables beside it.

Layers are the longest paths over contracted groups (Sugiyama, Tagawa, Toda 1981), ordered by barycentres; a group's
nodes are stacked inside its frame, so frames never overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from .plan import Decision, FusionPlan, Group

FULL_DETAIL = 160  # nodes up to which each is drawn; beyond, a group is one box
MAX_GROUPS = 400  # groups up to which anything is drawn
NODE_W, NODE_H, GAP, PAD, HEAD, LAYER_GAP, SIDE_GAP = 118, 22, 5, 8, 16, 34, 18
PALETTE = ("#4477aa", "#228833", "#aa3377", "#ee6677", "#66ccee", "#ccbb44", "#997700", "#117733", "#882255")
SINGLE_COLOUR = "#8a8f98"


@dataclass(frozen=True)
class Box:
    """A group's frame: its left upper corner and size, in pixels."""

    x: float
    y: float
    width: float
    height: float


def draw_svg(plan: FusionPlan) -> str:
    """The plan's graph as one ``<svg>`` element, self-contained. Large graphs show groups only."""
    if not plan.groups:
        return _svg(220, 40, '<text x="10" y="24" class="op">an empty graph</text>')
    if len(plan.groups) > MAX_GROUPS:
        text = f"{len(plan.graph.nodes)} operators in {len(plan.groups)} groups: too many to draw; see the table"
        return _svg(620, 40, f'<text x="10" y="24" class="op">{text}</text>')
    detailed = len(plan.graph.nodes) <= FULL_DETAIL
    boxes, width, height = _place(plan, detailed)
    body = [_edges(plan, boxes, detailed), *(_frame(plan, group, boxes[group.id], detailed) for group in plan.groups)]
    return _svg(width, height, "\n".join(body))


def _svg(width: float, height: float, body: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" style="max-width:100%;height:auto;background:#fff" role="img" '
        'aria-label="fusion plan">\n<style>.op{font:11px system-ui,sans-serif;fill:#1c2330}'
        ".head{font:bold 10px system-ui,sans-serif}.edge{fill:none;stroke:#9aa3b2;stroke-width:1.1}</style>\n"
        '<defs><marker id="wb-arrow" viewBox="0 0 6 6" refX="5.5" refY="3" markerWidth="6" markerHeight="6" '
        'orient="auto"><path d="M0 0L6 3L0 6z" fill="#9aa3b2"/></marker></defs>\n'
        f"{body}\n</svg>"
    )


def _place(plan: FusionPlan, detailed: bool) -> tuple[dict[str, Box], float, float]:
    before = _group_edges(plan)
    layer: dict[str, int] = {}
    for group in plan.groups:  # in execution order, so that producers are placed first
        layer[group.id] = max((layer[p] + 1 for p in before[group.id]), default=0)
    rows: list[list[Group]] = [[] for _ in range(max(layer.values()) + 1)]
    for group in plan.groups:
        rows[layer[group.id]].append(group)
    centre: dict[str, float] = {}
    sizes = {group.id: _size(group, detailed) for group in plan.groups}
    total = max(sum(sizes[g.id][0] + SIDE_GAP for g in row) for row in rows) + SIDE_GAP
    boxes: dict[str, Box] = {}
    y = float(LAYER_GAP) / 2
    for row in rows:
        row.sort(key=lambda g: _barycentre(before[g.id], centre, total / 2))
        x = (total - sum(sizes[g.id][0] + SIDE_GAP for g in row) + SIDE_GAP) / 2
        for group in row:
            width, height = sizes[group.id]
            boxes[group.id] = Box(x, y, width, height)
            centre[group.id] = x + width / 2
            x += width + SIDE_GAP
        y += max(sizes[g.id][1] for g in row) + LAYER_GAP
    return boxes, total, y - LAYER_GAP / 2


def _barycentre(producers: Sequence[str], centre: Mapping[str, float], default: float) -> float:
    return sum(centre[p] for p in producers) / len(producers) if producers else default


def _group_edges(plan: FusionPlan) -> dict[str, tuple[str, ...]]:
    """Groups whose results each group reads."""
    return {
        group.id: tuple(
            dict.fromkeys(
                owner.id
                for node in group.nodes
                for p in plan.graph.predecessors(node)
                if (owner := plan.group_of(p.id)) is not group
            )
        )
        for group in plan.groups
    }


def _size(group: Group, detailed: bool) -> tuple[float, float]:
    rows = len(group.nodes) if detailed else 1
    return NODE_W + 2 * PAD, HEAD + rows * (NODE_H + GAP) + PAD


def _colour(group: Group) -> str:
    return SINGLE_COLOUR if len(group.nodes) == 1 else PALETTE[int(group.id.lstrip("g") or 0) % len(PALETTE)]


def _frame(plan: FusionPlan, group: Group, box: Box, detailed: bool) -> str:
    colour = _colour(group)
    title = escape(f"{group.id} {group.rule}: {' + '.join(group.ops)}. {group.reason}. {group.predicted_us:.1f} us")
    parts = [
        f"<g><title>{title}</title>",
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="6" '
        f'fill="{colour}" fill-opacity="0.13" stroke="{colour}" stroke-width="1.4"/>',
        f'<text x="{box.x + PAD:.1f}" y="{box.y + 12:.1f}" class="head" fill="{colour}">'
        f"{escape(_cut(f'{group.id} {group.rule}', 22))}</text>",
    ]
    labels = [plan.graph.node(node).op.removeprefix("nn.") for node in group.nodes] if detailed else [_summary(group)]
    for row, label in enumerate(labels):
        y = box.y + HEAD + row * (NODE_H + GAP)
        parts.append(
            f'<rect x="{box.x + PAD:.1f}" y="{y:.1f}" width="{NODE_W}" height="{NODE_H}" rx="3" fill="#fff" '
            f'stroke="{colour}" stroke-width="0.8"/><text x="{box.x + PAD + NODE_W / 2:.1f}" y="{y + 15:.1f}" '
            f'text-anchor="middle" class="op">{escape(_cut(label, 20))}</text>'
        )
    return "".join([*parts, "</g>"])


def _summary(group: Group) -> str:
    first = group.ops[0].removeprefix("nn.")
    return first if len(group.ops) == 1 else f"{first} + {len(group.ops) - 1}"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _edges(plan: FusionPlan, boxes: Mapping[str, Box], detailed: bool) -> str:
    """Curves from frame to frame; with detail they end at the node that reads."""
    drawn: dict[tuple[str, str], str] = {}
    for group in plan.groups:
        for row, node in enumerate(group.nodes):
            for user in plan.graph.successors(node):
                reader = plan.group_of(user.id)
                if reader is group:
                    continue
                place = reader.nodes.index(user.id) if detailed else 0
                key = (node if detailed else group.id, user.id if detailed else reader.id)
                drawn.setdefault(key, _curve(boxes[group.id], row if detailed else 0, boxes[reader.id], place))
    return "".join(drawn.values())


def _curve(source: Box, row: int, sink: Box, place: int) -> str:
    x1, y1 = source.x + source.width / 2, source.y + source.height
    if row < int((source.height - HEAD - PAD) / (NODE_H + GAP) + 0.5) - 1:  # not the last: leave at the side
        x1, y1 = source.x + PAD + NODE_W, source.y + HEAD + row * (NODE_H + GAP) + NODE_H / 2
    x2, y2 = sink.x + sink.width / 2, sink.y
    if place > 0:
        x2, y2 = sink.x + PAD, sink.y + HEAD + place * (NODE_H + GAP) + NODE_H / 2
    bend = max(18.0, abs(y2 - y1) / 2)
    return (
        f'<path class="edge" marker-end="url(#wb-arrow)" d="M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + bend:.1f} '
        f'{x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}"/>'
    )


def plan_html(plan: FusionPlan) -> str:
    """The drawn graph and the tables of groups and decisions, as HTML without any script."""
    apart = len(plan.graph.nodes)
    head = (
        f"<p><b>{escape(plan.graph.name)}</b>: {apart} operators in {len(plan.groups)} kernels "
        f"({escape(plan.planner)} planner), predicted {plan.predicted_us:.0f} us</p>"
    )
    rows = [[row[name] for name in ("id", "rule", "ops", "predicted", "reason")] for row in plan.describe()]
    groups = _table(("group", "rule", "operators", "predicted", "reason"), rows)
    decisions = _table(
        ("boundary", "rule", "verdict", "predicted fused / partial / unfused", "measured", "recompute", "reason"),
        [_decision_row(decision) for decision in plan.decisions],
    )
    return (
        f'<div class="workbench-plan">{head}<div style="overflow:auto;max-height:640px">{draw_svg(plan)}</div>'
        f"{groups}<details><summary>{len(plan.decisions)} decisions</summary>{decisions}</details></div>"
    )


def _decision_row(decision: Decision) -> list[str]:
    recompute = "" if decision.factors is None else f"{decision.factors.recompute:.4g}"
    return [
        _cut(decision.boundary, 60), decision.rule, decision.verdict, _times(decision.predicted_us),
        _times(decision.measured_us or {}), recompute, decision.reason,
    ]  # fmt: skip


def _times(times: Mapping[str, float]) -> str:
    return " / ".join(f"{times[name]:.4g}" for name in ("fused", "partial", "unfused") if name in times)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cell = "text-align:left;padding:2px 8px;vertical-align:top"
    head = "".join(f'<th style="{cell}">{escape(name)}</th>' for name in columns)
    body = "".join(
        f"<tr>{''.join(f'<td style={chr(34)}{cell}{chr(34)}>{escape(text)}</td>' for text in row)}</tr>" for row in rows
    )
    style = "border-collapse:collapse;font-size:90%"
    return f'<table style="{style}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
