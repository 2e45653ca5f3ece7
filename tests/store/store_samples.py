"""Small records and kernels for the store's tests."""

from __future__ import annotations

import dataclasses
from typing import Any

from workbench.store import Kernel, MeasureSettings, PackedArgument, Record, ScheduleSpec

TRACE = [[["GetSBlock", [], ["matmul", "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l1", "l2"]]], [[1, [4, 8]]]]


def record(seconds: float | None = 1e-3, trial: int = 0, **changes: Any) -> Record:
    """A successful trial of ``seconds``, or a failed one with None."""
    made = Record(
        workload="w" * 64,
        target="llvm/CPU/znver4/avx2/c2t2/llvm22/vector",
        tvm="0.27.0",
        schedule=ScheduleSpec("trace", "evolutionary", TRACE),
        status="ok" if seconds is not None else "timeout",
        seconds=() if seconds is None else (seconds, seconds * 1.1, seconds * 1.2),
        settings=MeasureSettings(threads=2),
        error="" if seconds is not None else "10 s passed",
        strategy="evolutionary",
        seed=7,
        trial=trial,
        elapsed_s=1.5,
        created="2026-01-02T03:04:05+00:00",
        machine="here",
    )
    return dataclasses.replace(made, **changes)


def key(one: Record) -> tuple[str, str, str]:
    return one.workload, one.target, one.tvm


def kernel(code: bytes = b"\x7fELF code", **changes: Any) -> Kernel:
    made = Kernel(
        symbol="wb_1",
        workload="w" * 64,
        target="llvm/CPU/znver4/avx2/c2t2/llvm22/vector",
        tvm="0.27.0",
        schedule=ScheduleSpec("library", "attention", {"rows": 4}),
        packed=(PackedArgument(1, (16, 2, 8), "float32"),),
        code=code,
    )
    return dataclasses.replace(made, **changes)
