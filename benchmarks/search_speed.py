"""Trials per second of the search against TVM's own ``tune_tir``, at equal measuring settings on the same program.

512x512x512 matmul + bias + ReLU, float32, LLVM. Ours runs before and after stock's, so that a machine that becomes
slower or faster on the way hits both; each side pays for its own start: worker processes, imports of MetaSchedule's
parts, everything but ``import tvm``. Each runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ._figures import Figure, at_least, publish

SIZE = 512
TRIALS = 64
GOAL = 8.0
MEASURING = {"number": 1, "repeat": 3, "min_repeat_ms": 20}


def make_task() -> Any:
    """The tuning task: one fused group, all tensors inputs, so that both sides search the same space."""
    import workbench as wb
    from workbench.kernels import lower_greedy
    from workbench.targets import resolve
    from workbench.tuning import make_tasks
    from workbench.tvm_seam import relax, tvm

    square, row = relax.TensorType((SIZE, SIZE), "float32"), relax.TensorType((SIZE,), "float32")
    a, b, bias = relax.Var("a", square), relax.Var("b", square), relax.Var("bias", row)
    builder = relax.BlockBuilder()
    with builder.function("main", [a, b, bias]):
        with builder.dataflow():
            out = builder.emit(relax.op.add(builder.emit(relax.op.matmul(a, b)), bias))
            result = builder.emit_output(relax.op.nn.relu(out))
        builder.emit_func_output(result)
    module: tvm.IRModule = builder.get()
    tasks = make_tasks({"greedy": lower_greedy(wb.load(module))}, resolve("llvm"))
    assert len(tasks) == 1, "TVM fuses matmul, add and relu into one group"
    return tasks[0]


def ours(trials: int) -> dict[str, float]:
    """Seconds and the best time of our search; the store is empty and in memory."""
    from workbench.store.record import MeasureSettings
    from workbench.tuning import Budget, MemoryStore, tune_tasks

    task = make_task()
    begin = time.perf_counter()
    result = tune_tasks(
        [task], Budget(trials_per_task=trials), store=MemoryStore(), settings=MeasureSettings(**MEASURING)
    )
    seconds = time.perf_counter() - begin
    best = result.results[0].best
    failed = sum(result.results[0].failed.values())
    return {
        "seconds": seconds,
        "trials": result.trials,
        "failed": failed,
        "best_us": best.median_s * 1e6 if best else 0,
    }


def export_task(folder: Path) -> None:
    """Writes the tensor program and the target for the process that runs stock TVM."""
    from workbench.tvm_seam import structural_json

    task = make_task()
    (folder / "module.json").write_text(structural_json(task.workload.module))
    (folder / "target.json").write_text(json.dumps(task.target.tvm_dict()))


def stock(trials: int, folder: Path) -> dict[str, float]:
    """The same of TVM 0.27 as it is installed: its builder, runner, scheduler and population."""
    import tvm
    from tvm.s_tir import meta_schedule as ms

    module = tvm.ir.load_json((folder / "module.json").read_text())
    target = tvm.target.Target(json.loads((folder / "target.json").read_text()))
    begin = time.perf_counter()
    database = ms.tune_tir(
        mod=module,
        target=target,
        work_dir=str(folder / "stock"),
        max_trials_global=trials,
        num_trials_per_iter=trials,
        runner=ms.runner.LocalRunner(evaluator_config=ms.runner.EvaluatorConfig(**MEASURING)),
        num_tuning_cores="logical",
        seed=0,
    )
    seconds = time.perf_counter() - begin
    times = [[float(value) for value in record.run_secs] for record in database.get_all_tuning_records()]
    good = [statistics.median(values) for values in times if max(values) < 1e9]
    return {
        "seconds": seconds,
        "trials": len(times),
        "failed": len(times) - len(good),
        "best_us": min(good) * 1e6 if good else 0,
    }


def _measure(side: str, trials: int, folder: Path) -> dict[str, float]:
    command = [
        sys.executable,
        "-m",
        "benchmarks.search_speed",
        "--side",
        side,
        "--trials",
        str(trials),
        "--folder",
        folder,
    ]
    done = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True)
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def figures(trials: int = TRIALS, stock_trials: int | None = None) -> Iterator[Figure]:
    """``search_speed_ratio``: our trials per second over stock's. Stock's ``TRIALS`` take five minutes on two cores."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _measure("export", trials, folder)
        before = _measure("ours", trials, folder)
        theirs = _measure("stock", stock_trials or trials, folder)
        after = _measure("ours", trials, folder)
    speed = (before["trials"] + after["trials"]) / (before["seconds"] + after["seconds"])
    stock_speed = theirs["trials"] / theirs["seconds"]
    detail: dict[str, Any] = {"measuring": MEASURING, "ours": [before, after], "stock": theirs}
    yield at_least("search_speed_ratio", speed / stock_speed, GOAL, detail=detail)


def main() -> int:
    """The bench, or one side of it in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", choices=("ours", "stock", "export"))
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    if arguments.side == "export":
        export_task(arguments.folder)
        print(json.dumps({}))
        return 0
    if arguments.side is not None:
        side = ours(arguments.trials) if arguments.side == "ours" else stock(arguments.trials, arguments.folder)
        print(json.dumps(side))
        return 0
    return not publish("search_speed", figures(arguments.trials))


if __name__ == "__main__":
    sys.exit(main())
