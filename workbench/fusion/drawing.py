"""A plan as a picture: an inline SVG of the graph with its groups as coloured frames, and tables beside it.

Layers are the longest paths over contracted groups (Sugiyama, Tagawa, Toda 1981) and run from left to right, in
lines like text; groups of a layer are ordered by the barycentre of what they read. A group's nodes are stacked inside
its frame, so frames never overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from .html_tables import decisions_table, groups_table
from .plan import FusionPlan, Group

FULL_DETAIL = 160  # nodes up to which each is drawn; beyond, a group is one box
MAX_GROUPS = 400  # groups up to which anything is drawn
LINE_W = 1200  # pixels after which the next layer starts a new line
NODE_W, NODE_H, GAP, PAD, HEAD, LAYER_GAP, SIDE_GAP, LINE_GAP = 118, 22, 5, 8, 16, 36, 16, 34
PALETTE = ("#4477aa", "#228833", "#aa3377", "#ee6677", "#66ccee", "#ccbb44", "#997700", "#117733", "#882255")
SINGLE_COLOUR = "#8a8f98"


@dataclass(frozen=True)
class Box:
    """A group's frame: its left upper corner and size, in pixels; and the line that it is in."""

    x: float
    y: float
    width: float
    height: float
    line: int
    below: float  # y of the gap under its line


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
    sizes = {group.id: _size(group, detailed) for group in plan.groups}
    centre: dict[str, float] = {}
    boxes: dict[str, Box] = {}
    top = float(LINE_GAP)
    for number, line in enumerate(_lines(_layers(plan, before))):
        tall = max(_height(layer, sizes) for layer in line)
        x = float(SIDE_GAP)
        for layer in line:
            layer.sort(key=lambda g: _barycentre(before[g.id], centre, top + tall / 2))
            y = top + (tall - _height(layer, sizes)) / 2
            for group in layer:
                width, height = sizes[group.id]
                boxes[group.id] = Box(x, y, width, height, number, top + tall + LINE_GAP / 2)
                centre[group.id] = y + height / 2
                y += height + SIDE_GAP
            x += NODE_W + 2 * PAD + LAYER_GAP
        top += tall + LINE_GAP
    right = max(box.x + box.width for box in boxes.values())
    return boxes, right + LAYER_GAP, top


def _layers(plan: FusionPlan, before: Mapping[str, Sequence[str]]) -> list[list[Group]]:
    depth: dict[str, int] = {}
    for group in plan.groups:  # in execution order, so that producers are placed first
        depth[group.id] = max((depth[p] + 1 for p in before[group.id]), default=0)
    layers: list[list[Group]] = [[] for _ in range(max(depth.values()) + 1)]
    for group in plan.groups:
        layers[depth[group.id]].append(group)
    return layers


def _lines(layers: list[list[Group]]) -> list[list[list[Group]]]:
    count = max(1, int(LINE_W // (NODE_W + 2 * PAD + LAYER_GAP)))
    return [layers[i : i + count] for i in range(0, len(layers), count)]


def _height(layer: Sequence[Group], sizes: Mapping[str, tuple[float, float]]) -> float:
    return sum(sizes[group.id][1] + SIDE_GAP for group in layer) - SIDE_GAP


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
        f'fill="{_tint(colour)}" stroke="{colour}" stroke-width="1.4"/>',
        f'<text x="{box.x + PAD:.1f}" y="{box.y + 12:.1f}" class="head" fill="{colour}">'
        f"{escape(_cut(f'{group.id} {group.rule}', 22))}</text>",
    ]
    labels = [(_op(plan, node), _result(plan, node)) for node in group.nodes] if detailed else [(_summary(group), "")]
    for row, (label, hint) in enumerate(labels):
        y = box.y + HEAD + row * (NODE_H + GAP)
        parts.append(
            f'<rect x="{box.x + PAD:.1f}" y="{y:.1f}" width="{NODE_W}" height="{NODE_H}" rx="3" fill="#fff" '
            f'stroke="{colour}" stroke-width="0.8"><title>{escape(hint)}</title></rect>'
            f'<text x="{box.x + PAD + NODE_W / 2:.1f}" y="{y + 15:.1f}" text-anchor="middle" class="op" '
            f'pointer-events="none">{escape(_cut(label, 20))}</text>'
        )
    return "".join([*parts, "</g>"])


def _op(plan: FusionPlan, node: str) -> str:
    return plan.graph.node(node).op.removeprefix("nn.")


def _result(plan: FusionPlan, node: str) -> str:
    """Name, shape and type of what a node makes: the text under the pointer."""
    values = [plan.graph.values[out] for out in plan.graph.node(node).outputs]
    return "; ".join(f"{v.name}: {v.dtype}[{', '.join(map(str, v.shape))}]" for v in values)


def _tint(colour: str) -> str:
    """The colour at 13 % on white, opaque: edges pass behind frames."""
    channels = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{round(255 - 0.13 * (255 - channel)):02x}" for channel in channels)


def _summary(group: Group) -> str:
    first = group.ops[0].removeprefix("nn.")
    return first if len(group.ops) == 1 else f"{first} + {len(group.ops) - 1}"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def _edges(plan: FusionPlan, boxes: Mapping[str, Box], detailed: bool) -> str:
    """Curves from the node that writes to the node that reads; from frame to frame without detail."""
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
    """From the right side of row ``row`` to the left side of row ``place``; to another line through the gap below."""
    x1, y1 = source.x + source.width, source.y + HEAD + row * (NODE_H + GAP) + NODE_H / 2
    x2, y2 = sink.x, sink.y + HEAD + place * (NODE_H + GAP) + NODE_H / 2
    if source.line == sink.line:
        bend = max(14.0, (x2 - x1) / 2)
        path = f"M{x1:.1f} {y1:.1f}C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
    else:
        path = f"M{x1:.1f} {y1:.1f}h{LAYER_GAP / 3:.1f}V{source.below:.1f}H{x2 - 10:.1f}V{y2:.1f}H{x2:.1f}"
    return f'<path class="edge" marker-end="url(#wb-arrow)" d="{path}"/>'


def plan_html(plan: FusionPlan) -> str:
    """The drawn graph and the tables of groups and decisions, as HTML without any script."""
    apart = len(plan.graph.nodes)
    head = (
        f"<p><b>{escape(plan.graph.name)}</b>: {apart} operators in {len(plan.groups)} groups "
        f"({escape(plan.planner)} planner), predicted {plan.predicted_us:.0f} us</p>"
    )
    return (
        f'<div class="workbench-plan">{head}<div style="overflow:auto;max-height:640px">{draw_svg(plan)}</div>'
        f"{groups_table(plan)}<details><summary>{len(plan.decisions)} decisions</summary>"
        f"{decisions_table(plan.decisions)}</details></div>"
    )
