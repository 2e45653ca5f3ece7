"""Plots: what is drawn is what was measured, and nothing is drawn for what is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from sample_run import measurement, sample_run, tune

from workbench.report.frames import measured_groups
from workbench.report.plots import groups_plot, latency_plot, roofline_plot, search_plot
from workbench.report.run import Run

PLOTS = (latency_plot, roofline_plot, search_plot, groups_plot)


def bars(axes: Axes) -> dict[str, float]:
    """Row label and length of each bar."""
    labels = {round(at): text.get_text() for at, text in zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)}
    return {
        labels[round(bar.get_y() + bar.get_height() / 2)]: bar.get_width()
        for bar in axes.patches
        if isinstance(bar, Rectangle)
    }


def words(plot: Figure) -> str:
    """Every text in a figure."""
    from matplotlib.text import Text

    return "\n".join(item.get_text() for item in plot.findobj(Text) if isinstance(item, Text))


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("draw", PLOTS)
def test_plots_are_figures_of_their_width_and_need_no_window(draw, narrow: bool) -> None:  # type: ignore[no-untyped-def]
    plot = draw(sample_run(), narrow=narrow)
    assert isinstance(plot, Figure)
    assert plot.get_figwidth() * 100 == (400 if narrow else 800)
    assert "matplotlib.pyplot" not in sys.modules


def test_run_returns_its_plots() -> None:
    run = sample_run()
    assert all(
        isinstance(plot, Figure)
        for plot in (run.latency_plot(), run.roofline_plot(), run.search_plot(), run.groups_plot())
    )


def test_bars_are_the_medians_fastest_first() -> None:
    run = sample_run()
    main, apart = latency_plot(run).axes
    expected = {one.name: one.latency_us.median / 1000 for one in run.variants if one.latency_us}
    assert bars(main) == pytest.approx({name: expected[name] for name in ("planned", "greedy", "unfused")})
    assert list(bars(main)) == ["planned", "greedy", "unfused"]
    assert bars(apart) == pytest.approx({"unfused-untuned": expected["unfused-untuned"]})
    assert main.get_xlim()[0] == 0


def test_error_bars_are_the_interval() -> None:
    run = sample_run()
    planned = run.variant("planned")
    assert planned is not None
    assert planned.latency_us is not None
    axes = latency_plot(run).axes[0]
    spans = [
        np.asarray(path.vertices)[:, 0]
        for collection in axes.collections
        for path in collection.get_paths()
        if np.allclose(np.asarray(path.vertices)[:, 1], 0)  # the first row
    ]
    assert any(
        np.allclose(sorted(span), [planned.latency_us.low / 1000, planned.latency_us.high / 1000]) for span in spans
    )


@pytest.mark.parametrize("status", ["wrong", "failed"])
def test_no_bar_for_wrong_or_failed_but_a_line_under_the_plot(status: str) -> None:
    plot = latency_plot(sample_run(variants={"greedy": status}))
    drawn = {name for axes in plot.axes for name in bars(axes)}
    assert drawn == {"planned", "unfused", "unfused-untuned"}
    assert f"no bar for greedy: {status.upper()}" in words(plot)


def test_no_bar_even_if_a_document_gives_a_wrong_variant_a_time() -> None:
    document = sample_run().to_json()
    for variant in document["variants"]:
        if variant["name"] == "planned":
            variant["correct"], variant["status"] = False, "wrong"
    plot = latency_plot(Run.from_json(document))
    assert "planned" not in {name for axes in plot.axes for name in bars(axes)}


def test_untuned_shares_the_scale_where_it_does_not_crowd() -> None:
    plot = latency_plot(sample_run(variants={"unfused_untuned": 20.0}))
    assert len(plot.axes) == 1
    assert "unfused-untuned" in bars(plot.axes[0])


def test_nothing_measured_says_so() -> None:
    run = sample_run(measurements=[measurement("planned", 1.0, status="failed")], tune=None)
    assert "no variant could be timed" in words(latency_plot(run))
    assert "no kernel" in words(roofline_plot(run))
    assert "no kernel" in words(groups_plot(run))
    assert "no trial" in words(search_plot(run))
    for draw in PLOTS:
        assert not [patch for axes in draw(run).axes for patch in axes.patches]


def test_roofs_are_the_peaks_and_points_the_kernels() -> None:
    run = sample_run()
    axes = roofline_plot(run).axes[0]
    x, y = axes.lines[0].get_xdata(), axes.lines[0].get_ydata()
    np.testing.assert_allclose(y, np.minimum(np.asarray(x) * run.target.peak_gbps, run.target.peak_gflops))
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    drawn = np.concatenate([np.asarray(cloud.get_offsets()) for cloud in axes.collections])
    kernels = [
        (group.arithmetic_intensity, group.gflops)
        for group in run.groups_measured
        if group.gflops and group.variant in ("unfused", "greedy", "planned")
    ]
    np.testing.assert_allclose(sorted(map(tuple, drawn)), sorted(kernels))
    low, high = axes.get_xlim()
    assert low < drawn[:, 0].min()
    assert drawn[:, 0].max() < high


def test_roofline_says_whether_peaks_are_measured() -> None:
    from sample_run import TARGET

    assert "195 GFLOP/s, measured" in words(roofline_plot(sample_run()))
    nominal = words(roofline_plot(sample_run(target=TARGET, nominal=None)))
    assert "208 GFLOP/s, nominal" in nominal
    assert "measured" not in nominal


def test_search_lines_end_at_one_and_never_rise() -> None:
    plot = search_plot(sample_run())
    assert len(plot.axes) == 2
    for axes in plot.axes:
        assert len(axes.lines) == 6
        for line in axes.lines:
            y = np.asarray(line.get_ydata(), dtype=float)
            assert y[-1] == pytest.approx(1)
            assert (np.diff(y) <= 1e-12).all()


def test_search_of_a_cached_run_says_that_nothing_was_searched() -> None:
    assert "every kernel came from the store" in words(search_plot(sample_run(tune=tune(cached=True))))


def test_segments_add_up_to_the_kernels_time() -> None:
    run = sample_run()
    axes = groups_plot(run).axes[0]
    rows: dict[int, float] = {}
    for bar in axes.patches:
        assert isinstance(bar, Rectangle)
        row = round(bar.get_y() + bar.get_height() / 2)
        rows[row] = rows.get(row, 0.0) + bar.get_width()
    names = [text.get_text() for text in axes.get_yticklabels()]
    for row, name in enumerate(names):
        total = sum(group.latency_us for group in measured_groups(run, name)) / 1000
        assert rows[row] == pytest.approx(total)
    assert set(names) == {"unfused", "greedy", "planned"}


def test_a_notebook_shows_a_plot_without_pyplot() -> None:
    """In a process of its own: here, something else may have imported pyplot, which makes Jupyter draw any figure."""
    code = (
        "import sys; from sample_run import sample_run; from IPython.core.formatters import DisplayFormatter\n"
        "shown, _ = DisplayFormatter().format(sample_run().latency_plot())\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "sys.exit(not shown['image/png'].startswith(b'\\x89PNG'))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent)
