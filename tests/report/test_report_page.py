"""The report page: complete, self-contained, honest about what is missing, and safe against odd names."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser

import pytest
from sample_run import model, plan, sample_run, tune

from workbench.report.gap import gaps
from workbench.report.html import report_page, run_fragment
from workbench.report.run import Run

VOID = {"meta", "link", "br", "img", "source", "hr", "input"}


class Page(HTMLParser):
    """Collects tags with their attributes, checks the nesting, and keeps the visible text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words).replace("\u200b", ""))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def run() -> Run:
    return sample_run()


@pytest.fixture(scope="module")
def text(run: Run) -> str:
    return report_page(run)


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def test_nothing_is_loaded_from_anywhere(text: str, page: Page) -> None:
    for _, attributes in page.tags:
        for name in ("src", "srcset", "href", "data", "action"):
            address = attributes.get(name)
            assert address is None or address.startswith(("data:", "#")), address
    assert not page.all("script")
    assert "@import" not in text
    assert "url(" not in text
    images = re.findall(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)", text)
    assert len(images) == 9  # four plots, wide and narrow, and the plan
    for image in images:
        svg = base64.b64decode(image).decode()
        assert not re.search(r"(?:href|src)=\"(?!#|data:)", svg)
        assert "<script" not in svg


def test_the_sentence_comes_before_everything_else(run: Run, page: Page) -> None:
    assert run.summary() in page.text
    assert page.text.index(run.summary()) < page.text.index("Variants" if "Variants" in page.text else "variant")


def test_every_variant_group_task_and_decision_is_there(run: Run, page: Page) -> None:
    for variant in run.variants:
        assert variant.name in page.text
    for group in run.plan.groups:
        assert group.reason in page.text
    names = {"+".join(group.nodes): group.id for group in run.plan.groups if len(group.nodes) > 1}
    for decision in run.plan.decisions:
        first = decision.boundary.split("+")[0].replace("->", "→")
        assert names.get(decision.boundary, first) in page.text
        if not any(nodes in decision.reason for nodes in names):
            assert decision.reason in page.text
    for task in run.tasks:
        assert task.shapes in page.text
    assert "refused: the norm needs whole rows" in page.text
    assert run.command in page.text
    for note in run.notes:
        assert note in page.text
    assert "1.42x [1.39, 1.45]" in page.text
    assert "0.12" in page.text, "load at start"
    assert run.environment.tvm in page.text


def test_decisions_have_times_with_intervals_ratios_categories_and_factors(page: Page) -> None:
    for words in (
        "fused 2.93 ms [1.95, 4.39]",
        "unfused 3.71 ms [2.47, 5.57]",
        "1.27x",
        "partial 3.59 ms [3.52, 3.66]",
        "0.82x",
        "measured slower",
        "predicted: tie",
        "kernels alone",
        "factor 512, 3.20 GFLOP again in all",
        "memory -> compute",
        "0.14 s (estimated)",
    ):
        assert words in page.text
    folded = [attributes for attributes in page.all("details") if attributes.get("class") == "factors"]
    assert len(folded) == 3
    assert all("open" not in attributes for attributes in folded)


def test_the_whole_is_set_against_the_sum_of_its_kernels(page: Page, run: Run) -> None:
    planned = next(gap for gap in gaps(run) if gap.variant == "planned")
    assert f"planned as a whole takes {planned.words}" in page.text
    assert "inside 11.9 ms" in page.text
    assert "alone 12.1 ms" in page.text


def test_a_run_of_the_first_release_still_has_a_page(run: Run) -> None:
    """Without categories, ranges and the later factors."""
    document = run.to_json()
    for decision in document["plan"]["decisions"]:
        for name in ("nodes", "category", "predicted_range_us", "measured_range_us", "expected", "measured_in"):
            del decision[name]
        for name in ("recomputed_flops", "level", "bound_before", "bound_after", "compile_s", "arguments"):
            (decision["factors"] or {}).pop(name, None)
    page = Page(report_page(Run.from_json(document)))
    assert "fused 2.93 ms" in page.text
    assert "[1.95" not in page.text
    assert "None" not in page.text


def test_images_have_texts_and_tables_have_headers(page: Page) -> None:
    assert all((attributes.get("alt") or "").strip() for attributes in page.all("img"))
    assert len(page.all("th")) > 40
    assert all(attributes.get("scope") in ("row", "col") for attributes in page.all("th"))
    assert page.all("html")[0]["lang"] == "en"
    identifiers = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    for link in page.all("a"):
        assert (link["href"] or "").removeprefix("#") in identifiers


def test_plots_follow_a_dark_page(text: str) -> None:
    image = base64.b64decode(re.findall(r"data:image/svg\+xml;base64,([A-Za-z0-9+/=]+)", text)[0]).decode()
    assert "prefers-color-scheme:dark" in image
    assert "#1f2329" not in image.replace("--ink:#1f2329", "")


def test_incomplete_is_marked_first() -> None:
    run = sample_run(complete=False, incomplete_reason="stopped with Ctrl-C after 41 trials")
    page = Page(report_page(run))
    alarms = [attributes for _, attributes in page.tags if attributes.get("role") == "alert"]
    assert len(alarms) == 1
    assert page.text.index("This run is incomplete: stopped with Ctrl-C after 41 trials") < page.text.index(
        run.summary()
    )
    assert not [1 for _, attributes in Page(report_page(sample_run())).tags if attributes.get("role") == "alert"]


def test_wrong_and_failed_are_said_with_their_reason() -> None:
    page = Page(report_page(sample_run(variants={"greedy": "wrong", "planned": "failed"})))
    assert "wrong : output 0 differs" in page.text
    assert "failed : kernel fused_g4: out of memory" in page.text
    assert "faster than" not in page.text.split("Latency")[0]


def test_names_cannot_break_out_of_the_page() -> None:
    evil = '<script>alert("x")</script>&"\''
    run = sample_run(
        model=model(evil), command=f"workbench run {evil}", notes=(evil,), incomplete_reason=evil, complete=False
    )
    for made in (report_page(run), run_fragment(run)):
        assert "<script" not in made
        assert "&lt;script&gt;" in made


@pytest.mark.parametrize(
    "changes",
    [
        {"measurements": [], "tune": None, "plan_svg": "", "lowered": {}},
        {"tune": tune(cached=True)},
        {"variants": {"unfused": "failed", "greedy": "failed", "planned": "failed", "unfused_untuned": "failed"}},
        {"command": "", "environment": {}, "timings": {}, "notes": ()},
    ],
)
def test_every_kind_of_run_has_a_page(changes: dict) -> None:  # type: ignore[type-arg]
    page = Page(report_page(sample_run(**changes)))
    assert "encoder" in page.text
    assert "None" not in page.text
    assert "nan" not in page.text.lower().split()


def test_plan_without_decisions() -> None:
    import dataclasses

    run = sample_run(plan=dataclasses.replace(plan(), decisions=()))
    assert "made no decision" in Page(report_page(run)).text


def test_notebook_cell_is_small_and_says_the_same(run: Run) -> None:
    cell = run._repr_html_()
    assert len(cell) < 4000
    assert run.summary() in Page(cell).text
