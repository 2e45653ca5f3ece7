"""What the machine can do at best, by a small probe: multiply-adds a second, and bytes a second from memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil

from ..errors import KernelError
from ..kernels.tvm_errors import TVM_ERRORS, one_line
from ..targets import Target
from ..tvm_seam import own_core, tvm, use_threads

ACCUMULATORS = 12  # independent chains: two units with a latency of four cycles need eight, and AVX2 has 16 registers
SAMPLE_S = 0.004  # short: on a busy machine only a short sample has all cores to itself
SPENT_S = 0.25  # on the samples of one figure
LEAST_ROUNDS = 5
ATTEMPTS = 4  # while the figure is below what the data sheet lets expect: another process may have had a core
PAUSE_S = 0.2


@dataclass(frozen=True)
class Peaks:
    """Measured peaks with all threads of the target: float32 fused multiply-add, and main memory.

    ``seconds``: what the probe took.
    """

    gflops: float
    gbps: float
    seconds: float


def probe(target: Target) -> Peaks:
    """Measures the machine's peaks with two kernels that TVM compiles for ``target``; about one second.

    The best of several samples counts: a peak is what the machine can do, and other processes only lower it.
    Raises KernelError when the kernels cannot be built or run.
    """
    begin = time.perf_counter()
    use_threads(target.threads)
    try:
        with own_core():
            gflops = _multiply_add_gflops(target)
            gbps = _memory_gbps(target)
    except TVM_ERRORS as error:
        reason = one_line(error)
        raise KernelError(f"the machine probe failed for {target.mcpu}: {reason}; check the target") from error
    return Peaks(gflops, gbps, time.perf_counter() - begin)


def _multiply_add_gflops(target: Target) -> float:
    """Chains of multiply-adds that stay in registers: 2 operations per lane, accumulator and iteration."""
    from .probe_kernels import multiply_add

    lanes = target.vector_bits // 32
    width = ACCUMULATORS * lanes
    data = tvm.runtime.tensor(np.ones((target.threads, width), np.float32))

    trial = 10_000
    kernel = _build(multiply_add(target.threads, width, lanes, trial), target)
    kernel(data)
    iterations = max(trial, int(trial * SAMPLE_S / _best(lambda: kernel(data))))
    kernel = _build(multiply_add(target.threads, width, lanes, iterations), target)
    operations = 2 * target.threads * width * iterations
    return _peak(lambda: operations / _best(lambda: kernel(data)) / 1e9, target.peak_gflops)


def _memory_gbps(target: Target) -> float:
    """c = a + s * b (STREAM's triad, McCalpin 1995) over arrays that the caches cannot hold; three arrays move."""
    from .probe_kernels import triad

    elements = _array_bytes(target) // 4
    arrays = [tvm.runtime.tensor(np.ones(elements, np.float32)) for _ in range(3)]
    kernel = _build(triad(target.threads, elements, target.vector_bits // 32), target)
    kernel(*arrays)
    return _peak(lambda: 3 * 4 * elements / _best(lambda: kernel(*arrays)) / 1e9, target.peak_gbps)


def _array_bytes(target: Target) -> int:
    """Twice the last cache, at most 256 MiB or a tenth of the free memory, in whole chunks for every thread."""
    chunk = target.threads * 4096
    wanted = min(2 * max(target.caches.l3, 16 << 20), 256 << 20, psutil.virtual_memory().available // 10)
    return max(1, wanted // chunk) * chunk


def _build(function: Any, target: Target) -> Any:
    module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    return tvm.compile(module, target=tvm.target.Target(target.tvm_dict()))["main"]


def _peak(rate: Callable[[], float], expected: float) -> float:
    """The highest of up to ``ATTEMPTS`` figures; one is enough when it reaches nine tenths of what is expected."""
    highest = rate()
    for _ in range(ATTEMPTS - 1):
        if highest >= 0.9 * expected:
            break
        time.sleep(PAUSE_S)
        highest = max(highest, rate())
    return highest


def _best(call: Callable[[], object]) -> float:
    """Seconds of the fastest of the calls that ``SPENT_S`` allows."""
    times: list[float] = []
    while len(times) < LEAST_ROUNDS or sum(times) < SPENT_S:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)
