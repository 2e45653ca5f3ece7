"""The drawing: well-formed, complete, frames that do not overlap, and a smaller form for large graphs."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from fusion_graphs import TARGET, Net

from workbench.fusion import Decision, Factors, FusionPlan, draw_svg, plan
from workbench.fusion.drawing import FULL_DETAIL, MAX_GROUPS
from workbench.fusion.html_tables import decisions_table
from workbench.graph import from_model
from workbench.models import zoo

SVG = "{http://www.w3.org/2000/svg}"


def _chain(length: int, fused: bool = True) -> FusionPlan:
    net = Net("chain & <co>")
    x = net.input("x", 64, 64)
    for i in range(length):
        x = net.op("matmul" if i % 3 == 0 else "tanh", *((x, net.const(64, 64)) if i % 3 == 0 else (x,)))
    return plan(net.graph(x), TARGET, planner="predict" if fused else "unfused")


def _frames(root: ElementTree.Element) -> list[tuple[float, float, float, float]]:
    frames = []
    for group in root.iter(f"{SVG}g"):
        rect = group.find(f"{SVG}rect")
        assert rect is not None
        frames.append(tuple(float(rect.attrib[name]) for name in ("x", "y", "width", "height")))
    return frames  # type: ignore[return-value]


@pytest.mark.parametrize("name", ["encoder", "resnet18", "pool_add"])
def test_every_group_has_a_frame_and_every_node_a_box(name: str):
    made = plan(from_model(zoo.build(name)), TARGET)
    root = ElementTree.fromstring(draw_svg(made))
    frames = _frames(root)
    assert len(frames) == len(made.groups)
    boxes = sum(len(group.findall(f"{SVG}rect")) - 1 for group in root.iter(f"{SVG}g"))
    assert boxes == len(made.graph.nodes)
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert all(x >= 0 and y >= 0 and x + w <= width and y + h <= height for x, y, w, h in frames)


def test_frames_do_not_overlap():
    frames = _frames(ElementTree.fromstring(draw_svg(plan(from_model(zoo.build("llama_block")), TARGET))))
    for i, (x, y, w, h) in enumerate(frames):
        for a, b, c, d in frames[:i]:
            assert x + w <= a or a + c <= x or y + h <= b or b + d <= y


def test_edges_between_groups_are_drawn():
    made = plan(from_model(zoo.build("encoder")), TARGET)
    root = ElementTree.fromstring(draw_svg(made))
    edges = [path for path in root.iter(f"{SVG}path") if path.attrib.get("class") == "edge"]
    assert len(edges) == sum(1 for decision in made.decisions if decision.edge)


def test_large_graphs_show_groups_only_and_huge_ones_say_so():
    large = _chain(FULL_DETAIL + 20)
    root = ElementTree.fromstring(draw_svg(large))
    boxes = sum(len(group.findall(f"{SVG}rect")) - 1 for group in root.iter(f"{SVG}g"))
    assert boxes == len(large.groups) < len(large.graph.nodes)
    huge = _chain(MAX_GROUPS + 1, fused=False)
    assert f"{MAX_GROUPS + 1} operators" in draw_svg(huge)


def test_html_holds_drawing_groups_and_decisions_and_escapes_names():
    made = _chain(6)
    html = made._repr_html_()
    assert "<svg" in html
    assert "chain &amp; &lt;co&gt;" in html
    assert "<script" not in html
    for group in made.groups:
        assert f">{group.id}<" in html
    assert f"{len(made.decisions)} decisions" in html


def test_decisions_show_times_with_intervals_ratios_categories_and_factors():
    factors = Factors(
        2_000_000, 1, 2.5, 30.0, 4096.0, 512, 0.75, recomputed_flops=1.5e9, level="L2", bound_before="memory",
        bound_after="compute", compile_s=0.088, arguments=4,
    )  # fmt: skip
    decision = Decision(
        "a+b+c", "some<rule>", "split", {"fused": 3000.0, "partial": 1500.0, "unfused": 2000.0},
        {"fused": 2000.0, "unfused": 1000.0}, factors, "measured slower", nodes=("a", "b", "c"),
        category="measured slower", predicted_range_us={"fused": (2000.0, 4500.0)},
    )  # fmt: skip
    html = decisions_table([decision])
    for words in (
        "a + b + c<br>some&lt;rule&gt;",
        ">split: measured slower<",
        "fused 3.00 ms [2.00 ms, 4.50 ms]<br>partial 1.50 ms<br>unfused 2.00 ms",
        ">0.50x<",
        "fused 2.00 ms<br>unfused 1.00 ms",
        "<summary>saves 2 MB, 1 launch</summary>",
        "bound by: memory to compute",
        "arguments fit in: L2",
        "recompute factor: 4096, 1.5e+09 FLOP again in all",
        "seconds to compile: 0.088",
    ):
        assert words in html
    assert html.count("<tr>") == 2
    edge = decisions_table([Decision("a->b", "", "split", {}, None, None, "why", category="no rule proposes it")])
    assert "a-&gt;b<br>edge" in edge
    assert "<details>" not in edge


def test_rows_for_the_command_line():
    rows = plan(from_model(zoo.build("residual_layernorm")), TARGET).describe()
    assert [(row["id"], row["rule"], row["ops"]) for row in rows] == [("g0", "residual_norm", "add+layer_norm")]
    assert rows[0]["predicted"].endswith(" us")
