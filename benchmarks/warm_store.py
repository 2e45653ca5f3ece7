"""A second run of the same command: no trials, every kernel a hit, and how long it takes."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ._figures import Figure, at_most, publish

MODEL = "encoder"


def _run(folder: Path, name: str) -> tuple[float, dict]:
    workbench = str(Path(sys.executable).with_name("workbench"))
    command = [workbench, "run", MODEL, "--trials-per-task", "8", "--store", str(folder / "store")]
    begin = time.perf_counter()
    subprocess.run([*command, "--out", str(folder / name)], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin, json.loads((folder / name / "run.json").read_text())


def figures() -> Iterator[Figure]:
    """Whole processes, from the command to the written report."""
    with tempfile.TemporaryDirectory() as name:
        cold_s, cold = _run(Path(name), "cold")
        warm_s, warm = _run(Path(name), "warm")
    apart = cold_s - cold["timings_s"]["tune"]
    detail = {"cold_s": cold_s, "cold_tuning_s": cold["timings_s"]["tune"], "warm_s": warm_s}
    detail |= {"cold_stages_s": cold["timings_s"], "warm_stages_s": warm["timings_s"]}
    trials = sum(task["trials"] for task in warm["tasks"] if not task["cached"])
    yield at_most("warm_run_trials", trials, 0)
    yield at_most("warm_run_kernels_built", warm["cache"]["builds"], 0)
    yield at_most("warm_run_over_cold_run_less_tuning", warm_s / apart, 0.25, detail=detail)
    yield at_most("warm_run_over_cold_run", warm_s / cold_s, 0.25)


if __name__ == "__main__":
    sys.exit(not publish("warm_store", figures()))
