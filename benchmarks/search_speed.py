"""Trials per second of the search against TVM's own ``tune_tir``, at equal measuring settings on the same programs.

A matmul with bias and ReLU, a convolution with batch norm and ReLU, and a residual LayerNorm; float32, LLVM. Ours runs
before and after stock's, so that a machine that becomes slower or faster on the way hits both; each side pays for its
own start: worker processes, imports of MetaSchedule's parts, everything but ``import tvm``. Each runs in a process of
its own. Ours ends with finals, which are in its time, and whose measurements count for no trial.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ._figures import Figure, at_least, at_most, publish

TRIALS = 64
GOAL = 15.0
OVERHEAD = 0.25  # of the wall time that is neither building nor measuring
MEASURING = {"number": 1, "repeat": 3, "min_repeat_ms": 20}
WORKLOADS = ("matmul_bias_relu", "conv_bn_relu", "residual_layernorm")


def make_task(name: str) -> Any:
    """The tuning task: one fused group, all tensors inputs, so that both sides search the same space."""
    import workbench as wb
    from workbench.fusion import plan
    from workbench.graph import from_model
    from workbench.kernels import lower, lower_greedy
    from workbench.targets import resolve
    from workbench.tuning import make_tasks

    target = resolve("llvm")
    if name == "matmul_bias_relu":
        lowered = lower_greedy(wb.load(_matmul(512)))
    else:
        model = wb.load(name)
        graph = from_model(model)
        everything = [tuple(node.id for node in graph.nodes)]
        lowered = lower(model, plan(graph, target, constraints=_pinned(everything)), "whole")
    tasks = make_tasks({"whole": lowered}, target)
    assert len(tasks) == 1, f"{name} is one kernel"
    return tasks[0]


def _pinned(groups: Sequence[tuple[str, ...]]) -> Any:
    from workbench.fusion import Constraints

    return Constraints(pins=tuple(groups))


def _matmul(size: int) -> Any:
    from workbench.tvm_seam import relax

    square, row = relax.TensorType((size, size), "float32"), relax.TensorType((size,), "float32")
    a, b, bias = relax.Var("a", square), relax.Var("b", square), relax.Var("bias", row)
    builder = relax.BlockBuilder()
    with builder.function("main", [a, b, bias]):
        with builder.dataflow():
            out = builder.emit(relax.op.add(builder.emit(relax.op.matmul(a, b)), bias))
            result = builder.emit_output(relax.op.nn.relu(out))
        builder.emit_func_output(result)
    return builder.get()


def ours(name: str, trials: int) -> dict[str, float]:
    """Seconds, those of building and measuring, and the best time of our search; the store is empty and in memory."""
    from workbench.store.record import MeasureSettings
    from workbench.tuning import Budget, MemoryStore, tune_tasks
    from workbench.tuning.builders import LocalBuilder
    from workbench.tuning.runners.local import LocalRunner

    task = make_task(name)
    begin = time.perf_counter()
    builder = LocalBuilder()
    runner = LocalRunner(MeasureSettings(**MEASURING), threads=task.target.threads)
    spent = {"build": 0.0, "measure": 0.0}
    for owner, method, part in (
        (builder, "build", "build"),
        (runner, "run", "measure"),
        (runner, "compare", "measure"),
    ):
        setattr(owner, method, _timed(getattr(owner, method), spent, part))
    try:
        result = tune_tasks([task], Budget(trials_per_task=trials), store=MemoryStore(), builder=builder, runner=runner)
    finally:
        builder.close()
        runner.close()
    seconds = time.perf_counter() - begin
    best = result.results[0].best
    failed = sum(result.results[0].failed.values())
    return {
        "seconds": seconds,
        "trials": result.trials,
        "failed": failed,
        "best_us": best.median_s * 1e6 if best else 0,
        "build_s": spent["build"],
        "measure_s": spent["measure"],
    }


def _timed(method: Any, spent: dict[str, float], part: str) -> Any:
    def call(*args: Any) -> Any:
        begin = time.perf_counter()
        try:
            return method(*args)
        finally:
            spent[part] += time.perf_counter() - begin

    return call


def export_task(name: str, folder: Path) -> None:
    """Writes the tensor program and the target for the process that runs stock TVM."""
    from workbench.tvm_seam import structural_json

    task = make_task(name)
    (folder / "module.json").write_text(structural_json(task.workload.module))
    (folder / "target.json").write_text(json.dumps(task.target.tvm_dict()))


def stock(trials: int, folder: Path) -> dict[str, float]:
    """The same of TVM 0.27 as it is installed: its builder, runner, scheduler and population."""
    import tvm
    from tvm.s_tir import meta_schedule as ms

    module = tvm.ir.load_json((folder / "module.json").read_text())
    target = tvm.target.Target(json.loads((folder / "target.json").read_text()))
    begin = time.perf_counter()
    try:
        database = _tune_tir(ms, module, target, trials, folder)
    except (tvm.error.TVMError, RuntimeError, ValueError) as error:  # its rules do not take every program
        print(error, file=sys.stderr)
        return {"seconds": time.perf_counter() - begin, "trials": 0, "failed": 0, "best_us": 0}
    seconds = time.perf_counter() - begin
    times = [[float(value) for value in record.run_secs] for record in database.get_all_tuning_records()]
    good = [statistics.median(values) for values in times if max(values) < 1e9]
    return {
        "seconds": seconds,
        "trials": len(times),
        "failed": len(times) - len(good),
        "best_us": min(good) * 1e6 if good else 0,
    }


def _tune_tir(ms: Any, module: Any, target: Any, trials: int, folder: Path) -> Any:
    """As the documentation of TVM 0.27 calls it."""
    return ms.tune_tir(
        mod=module,
        target=target,
        work_dir=str(folder / "stock"),
        max_trials_global=trials,
        num_trials_per_iter=trials,
        runner=ms.runner.LocalRunner(evaluator_config=ms.runner.EvaluatorConfig(**MEASURING)),
        num_tuning_cores="logical",
        seed=0,
    )


def _measure(side: str, name: str, trials: int, folder: Path) -> dict[str, float]:
    arguments = ["--side", side, "--workload", name, "--trials", str(trials), "--folder", str(folder)]
    command = [sys.executable, "-m", "benchmarks.search_speed", *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def figures(names: Sequence[str] = WORKLOADS, trials: int = TRIALS) -> Iterator[Figure]:
    """Ours over stock's trials per second, and our overhead. Stock's ``TRIALS`` take some minutes on two cores."""
    for name in names:
        with tempfile.TemporaryDirectory() as folder_name:
            folder = Path(folder_name)
            _measure("export", name, trials, folder)
            before = _measure("ours", name, trials, folder)
            theirs = _measure("stock", name, trials, folder)
            after = _measure("ours", name, trials, folder)
        both = {key: before[key] + after[key] for key in before}
        detail: dict[str, Any] = {"measuring": MEASURING, "ours": [before, after], "stock": theirs}
        if theirs["trials"]:
            ratio = both["trials"] / both["seconds"] / (theirs["trials"] / theirs["seconds"])
            yield at_least(f"{name}_search_speed_ratio", ratio, GOAL, detail=detail)
        else:
            yield Figure(
                f"{name}_search_speed_ratio", 0.0, f">= {GOAL:g}; stock measured nothing", False, detail=detail
            )
        overhead = 1 - (both["build_s"] + both["measure_s"]) / both["seconds"]
        yield at_most(f"{name}_search_overhead", overhead, OVERHEAD, detail=detail)


def main() -> int:
    """The bench, or one side of it in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--side", choices=("ours", "stock", "export"))
    parser.add_argument("--workload")
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.side == "export":
        export_task(options.workload, options.folder)
        print(json.dumps({}))
        return 0
    if options.side is not None:
        ours_ = options.side == "ours"
        side = ours(options.workload, options.trials) if ours_ else stock(options.trials, options.folder)
        print(json.dumps(side))
        return 0
    others = tuple(f"{name}_" for name in WORKLOADS if name not in options.workloads)
    made = figures(options.workloads, options.trials)
    return int(not publish("search_speed", made, keep=lambda name: bool(others) and name.startswith(others)))


if __name__ == "__main__":
    sys.exit(main())
