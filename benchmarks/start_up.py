"""How long a person waits for nothing: ``import workbench`` against ``import tvm``, and ``workbench --help``."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from ._figures import Figure, at_most, publish

ROUNDS = 5
# What a user of the package touches first: every public name, so that lazy loading hides nothing.
IMPORT_ALL = "import workbench\nfor name in workbench.__all__: getattr(workbench, name)"


def _seconds(command: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "COLUMNS": "80"})
    return time.perf_counter() - begin


def figures() -> Iterator[Figure]:
    """Processes started in turn, so that a slow moment of the machine hits all alike; medians."""
    python = sys.executable
    commands = {
        "bare": [python, "-c", "pass"],
        "tvm": [python, "-c", "import tvm"],
        "workbench": [python, "-c", "import workbench"],
        "everything": [python, "-c", IMPORT_ALL],
        "help": [str(Path(python).with_name("workbench")), "--help"],
    }
    samples: dict[str, list[float]] = {name: [] for name in commands}
    for command in commands.values():  # files into the page cache
        _seconds(command)
    for _ in range(ROUNDS):
        for name, command in commands.items():
            samples[name].append(_seconds(command))
    median = {name: statistics.median(values) for name, values in samples.items()}
    tvm = median["tvm"] - median["bare"]
    detail = {"seconds": samples}
    yield at_most("import_workbench_over_import_tvm", (median["workbench"] - median["bare"]) / tvm, 1.5, detail=detail)
    yield at_most("import_every_public_name_over_import_tvm", (median["everything"] - median["bare"]) / tvm, 1.5)
    yield at_most("help_seconds", median["help"], 0.5, unit="s")


if __name__ == "__main__":
    sys.exit(not publish("start_up", figures()))
