"""Plans revised on measurements: what is slower than its parts is split, what cannot be scheduled too."""

from __future__ import annotations

import pytest
from fusion_graphs import TARGET, Net

from workbench.fusion import Constraints, Evidence, FusionPlan, Measured, check_partition, plan, rule
from workbench.fusion.plan import duration
from workbench.graph import Graph, from_model
from workbench.models import zoo

US = 1e-6


def revise(made, target, measured, failed=None) -> FusionPlan:
    """The plan again, with what was measured; its pins stay."""
    known = {nodes: Measured(seconds, seconds, seconds) for nodes, seconds in measured.items()}
    constraints = Constraints(pins=made.pins)
    return plan(made.graph, target, constraints=constraints, evidence=Evidence(known, failed or {}))


def _graph() -> Graph:
    net = Net()
    m = net.op("matmul", net.input("x", 256, 256), net.const(256, 256), name="m")
    b = net.op("add", m, net.const(256), name="b")
    return net.graph(net.op("nn.gelu", b, name="g"))


def _fused() -> FusionPlan:
    made = plan(_graph(), TARGET)
    assert [group.nodes for group in made.groups] == [("m", "b", "g")]
    return made


def _times(**hundreds: float) -> dict[frozenset[str], float]:
    """``mb=5`` is the group of nodes m and b, hundreds of microseconds: much more than it costs beside."""
    return {frozenset(names): 100 * us * US for names, us in hundreds.items()}


def test_a_group_slower_than_its_operators_is_split():
    revised = revise(_fused(), TARGET, _times(mbg=300, m=100, b=20, g=30, mb=400, bg=60))
    assert [group.nodes for group in revised.groups] == [("m",), ("b",), ("g",)]
    decision = next(d for d in revised.decisions if d.nodes == ("m", "b", "g"))
    assert decision.verdict == "split"
    assert decision.measured_us == pytest.approx({"fused": 30000, "unfused": 15000})
    assert "measured 30.0 ms fused, 15.0 ms apart" in decision.reason
    assert any(d.boundary == "m->b" and d.verdict == "split" for d in revised.decisions)


def test_the_best_measured_partition_wins():
    revised = revise(_fused(), TARGET, _times(mbg=300, m=100, b=20, g=30, mb=101, bg=25))
    assert [group.nodes for group in revised.groups] == [("m",), ("b", "g")]
    decision = next(d for d in revised.decisions if d.nodes == ("m", "b", "g"))
    assert decision.measured_us == pytest.approx({"fused": 30000, "partial": 12500, "unfused": 15000})


def test_a_faster_group_stays_and_shows_what_was_measured():
    revised = revise(_fused(), TARGET, _times(mbg=110, m=100, b=20, g=30, mb=105, bg=40))
    assert [group.nodes for group in revised.groups] == [("m", "b", "g")]
    decision = next(d for d in revised.decisions if d.nodes == ("m", "b", "g"))
    assert decision.verdict == "fuse"
    assert decision.measured_us == pytest.approx({"fused": 11000, "partial": 13500, "unfused": 15000})


def test_just_outside_the_margin_it_is_split():
    revised = revise(_fused(), TARGET, _times(mbg=156, m=100, b=20, g=30, mb=400, bg=400))
    assert [group.nodes for group in revised.groups] == [("m",), ("b",), ("g",)]


def test_within_the_margin_it_is_a_tie_and_stays():
    revised = revise(_fused(), TARGET, _times(mbg=152, m=100, b=20, g=30, mb=130, bg=55))
    assert [group.nodes for group in revised.groups] == [("m", "b", "g")]
    assert next(d for d in revised.decisions if d.nodes == ("m", "b", "g")).verdict == "tie"


def test_a_part_that_was_not_measured_is_estimated_from_its_operators():
    """Operators took ten times their predictions, so an unmeasured part is taken to do so too."""
    made = _fused()
    times = {frozenset((d,)): 0.0 for d in "mbg"}
    unfused = plan(_graph(), TARGET, planner="unfused")
    for group in unfused.groups:
        times[frozenset(group.nodes)] = group.predicted_us * US * 10
    total = sum(times.values())
    assert [g.nodes for g in revise(made, TARGET, {**times, frozenset("mbg"): total * 2}).groups] == [
        ("m",),
        ("b", "g"),
    ]
    unsure = revise(made, TARGET, {**times, frozenset("mbg"): total})
    assert len(unsure.groups) == 1  # no certainty: it stays
    decision = next(d for d in unsure.decisions if d.nodes == ("m", "b", "g"))
    assert decision.verdict == "tie"
    assert "fused, 3.23 ms apart: a tie" in decision.reason


def test_candidates_inside_a_group_are_split_with_it():
    made = _fused()
    inside = {d.nodes: d.verdict for d in made.decisions if len(d.nodes) == 2}
    assert inside == {("m", "b"): "fuse", ("b", "g"): "fuse"}
    revised = revise(made, TARGET, _times(mbg=300, m=100, b=20, g=30, mb=101, bg=25))
    after = {d.nodes: d for d in revised.decisions if len(d.nodes) == 2}
    assert after["b", "g"].verdict == "fuse"  # it became a group of its own
    assert after["m", "b"].verdict == "split"


def test_decisions_agree_with_the_groups():
    """Nothing is called fused that is not in one kernel."""
    revised = revise(_fused(), TARGET, _times(mbg=300, m=100, b=20, g=30, mb=400, bg=60))
    assert len(revised.groups) == 3
    assert all(decision.verdict == "split" for decision in revised.decisions)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (3e-7, "0.300 µs"),
        (6e-6, "6.00 µs"),
        (62242e-6, "62.2 ms"),
        (1.5, "1.50 s"),
        (-2e-3, "-2.00 ms"),
        (0, "0.00 µs"),
    ],
)
def test_times_in_reasons(seconds: float, text: str):
    assert duration(seconds) == text


def test_a_reshape_needs_no_measurement_of_its_own():
    graph = from_model(zoo.build("mha"))
    made = plan(graph, TARGET)
    whole = next(group for group in made.groups if group.rule == "attention")
    times = {frozenset((n,)): 10 * US for n in whole.nodes if graph.node(n).op != "reshape"}
    slow = revise(made, TARGET, {**times, frozenset(whole.nodes): 1000 * US})
    assert not any(set(group.nodes) == set(whole.nodes) for group in slow.groups)
    fast = revise(made, TARGET, {**times, frozenset(whole.nodes): 20 * US})
    assert any(set(group.nodes) == set(whole.nodes) for group in fast.groups)


def test_nothing_to_compare_with_means_no_change():
    made = _fused()
    assert revise(made, TARGET, {}).groups == made.groups
    revised = revise(made, TARGET, _times(mbg=1000))
    assert [group.nodes for group in revised.groups] == [("m", "b", "g")]


def test_a_group_that_nothing_schedules_is_split_with_the_reason():
    failed = {frozenset("mbg"): "ScheduleError: no rule applies"}
    revised = revise(_fused(), TARGET, _times(m=100, b=20, g=30), failed)
    check_partition(revised.graph, [group.nodes for group in revised.groups])
    assert len(revised.groups) == 2
    decision = next(d for d in revised.decisions if d.nodes == ("m", "b", "g"))
    assert decision.verdict == "split"
    assert "no schedule for bias_activation: ScheduleError: no rule applies" in decision.reason


def test_parts_that_failed_too_are_not_tried_again():
    failed = {frozenset("mbg"): "why", frozenset("mb"): "why", frozenset("bg"): "why"}
    revised = revise(_fused(), TARGET, {}, failed)
    assert [group.nodes for group in revised.groups] == [("m",), ("b",), ("g",)]


def test_a_pinned_group_stays_whatever_was_measured():
    made = plan(_graph(), TARGET, constraints=Constraints(pins=(("m", "b", "g"),)))
    revised = revise(made, TARGET, _times(mbg=900, m=100, b=20, g=30))
    assert [group.nodes for group in revised.groups] == [("m", "b", "g")]


def test_attention_falls_back_to_its_core():
    graph = from_model(zoo.build("mha"))
    made = plan(graph, TARGET)
    whole = next(group for group in made.groups if group.rule == "attention")
    revised = revise(made, TARGET, {}, {frozenset(whole.nodes): "layouts are not served"})
    core = next(group for group in revised.groups if group.rule == "attention")
    assert set(core.nodes) < set(whole.nodes)
    assert core.ops.count("matmul") == 2


def test_a_part_keeps_its_rewrite():
    graph = from_model(zoo.build("conv_bn_relu"))
    made = plan(graph, TARGET)
    conv, norm, relu = made.groups[0].nodes
    times = {frozenset((conv, norm)): 1e-3, frozenset((relu,)): 1e-5, frozenset((conv, norm, relu)): 2e-3}
    revised = revise(made, TARGET, {**times, frozenset((conv,)): 3e-3, frozenset((norm,)): 1e-4})
    assert [(g.nodes, g.rewrite) for g in revised.groups] == [((conv, norm), "fold_batchnorm"), ((relu,), None)]


def test_a_revised_plan_reads_back(tmp_path):
    from workbench.fusion import load_plan

    revised = revise(_fused(), TARGET, _times(mbg=300, m=100, b=20, g=30))
    revised.save(tmp_path / "plan.json")
    read = load_plan(tmp_path / "plan.json", revised.graph)
    assert (read.groups, read.decisions) == (revised.groups, revised.decisions)


def test_many_overlapping_parts_do_not_blow_up_the_search():
    net = Net()
    x = net.input("x", 64, 64)
    for i in range(40):
        x = net.op("tanh", x, name=f"t{i}")
    graph = net.graph(x)
    names = [node.id for node in graph.nodes]

    @rule(name="windows")
    def windows(_):
        yield names
        for size in (2, 3):
            for start in range(len(names) - size + 1):
                yield names[start : start + size]

    made = plan(graph, TARGET, rules=[windows])
    assert len(made.groups) == 1
    times = {frozenset((name,)): 1e-5 for name in names} | {frozenset(names): 1.0}
    times |= {frozenset(names[i : i + 2]): 1.1e-5 for i in range(len(names) - 1)}
    known = {nodes: Measured(seconds, seconds, seconds) for nodes, seconds in times.items()}
    revised = plan(graph, TARGET, rules=[windows], evidence=Evidence(known))
    check_partition(graph, [group.nodes for group in revised.groups])
    assert sum(times.get(frozenset(g.nodes), 1e-5) for g in revised.groups) < 40 * 1e-5


def test_a_graph_without_operators_has_an_empty_plan():
    net = Net()
    made = plan(net.graph(net.input("x", 4)), TARGET)
    assert made.groups == revise(made, TARGET, {}).groups == ()
    assert "an empty graph" in made._repr_html_()
