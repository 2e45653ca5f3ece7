"""Run folders: everything is there, nothing is half written, and a full disk is one clear line."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sample_run import PLAN_SVG, sample_run

from workbench.errors import StoreError
from workbench.report import Run, write_run
from workbench.report.write import write_file


@contextmanager
def disk_with_room_for(size: int) -> Iterator[None]:
    """Writing more than ``size`` bytes to one file fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_folder_holds_all_and_the_run_can_be_drawn_again_from_it(tmp_path: Path) -> None:
    run = sample_run()
    page = run.report(tmp_path / "out" / "encoder")
    folder = page.parent
    assert {path.name for path in folder.iterdir()} == {
        "run.json", "plan.svg", "latency.png", "latency.svg", "roofline.png", "search.png", "groups.png", "report.html",
    }  # fmt: skip
    for path in folder.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / "latency.svg").read_text()
    assert (folder / "plan.svg").read_text() == PLAN_SVG
    again = Run.from_json(folder)
    assert again == run
    assert write_run(again, tmp_path / "again").read_bytes() == page.read_bytes()


def test_files_can_be_read_by_others(tmp_path: Path) -> None:
    path = write_file(tmp_path / "a.txt", "x")
    assert path.stat().st_mode & 0o444 == 0o444


def test_full_disk_is_one_line_and_keeps_the_old_file(tmp_path: Path) -> None:
    path = write_file(tmp_path / "run.json", "old")
    with disk_with_room_for(1000), pytest.raises(StoreError, match=r"run\.json: cannot be written") as caught:
        write_file(path, "x" * 5000)
    assert "\n" not in str(caught.value)
    assert "--out" in str(caught.value)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["run.json"]


def test_measurements_outlive_a_disk_that_fills_up_during_the_plots(tmp_path: Path) -> None:
    run = sample_run()
    size = len(run._text().encode())
    with disk_with_room_for(size + 10), pytest.raises(StoreError):
        write_run(run, tmp_path)
    assert Run.from_json(tmp_path) == run
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_file_in_the_way_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(StoreError, match="choose another folder"):
        sample_run().report(tmp_path / "out")
