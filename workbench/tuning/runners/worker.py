"""The device's side of a runner: checks a library's function, then times it. Imported in the runner's process only.

TVM's thread pool is as wide as ``TVM_NUM_THREADS`` says, which the parent sets before this process starts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import WorkbenchError
from ...kernels.build import PREPACK_SUFFIX, load_library
from ...kernels.tvm_errors import TVM_ERRORS, one_line
from ...reference.arrays import load_array
from ...reference.compare import compare_all
from ...store.record import MeasureSettings
from ...tvm_seam import own_core, tvm
from ..messages import ArgumentFiles, RunAnswer, RunRequest

_CACHE_FLUSH_BYTES = 64 << 20


class _Arguments:
    """A task's tensors on the device, and what its outputs should be."""

    def __init__(self, files: ArgumentFiles) -> None:
        self.inputs = [_tensor(load_array(path)) for path in files.inputs]
        self.outputs = [_tensor(np.zeros(shape, dtype)) for shape, dtype in files.outputs]
        self._spoilt = [_spoilt(tensor.numpy()) for tensor in self.outputs]
        self._reference = [load_array(path) for path in files.reference]
        self._native = [load_array(path) for path in files.native]
        self._accepted: list[np.ndarray] = []

    def spoil(self) -> None:
        """Overwrites the outputs, so that a candidate that leaves one unwritten is seen."""
        for tensor, values in zip(self.outputs, self._spoilt, strict=True):
            tensor.copyfrom(values)

    def check(self) -> tuple[bool, float | None, str]:
        """(right, largest error, message) of the outputs as they are now.

        Outputs that equal accepted ones bit by bit need no second comparison; most schedules of elementwise groups
        end there.
        """
        outputs = [tensor.numpy() for tensor in self.outputs]
        if self._accepted and all(_same_bits(a, b) for a, b in zip(outputs, self._accepted, strict=True)):
            return True, None, ""
        outcome = compare_all(outputs, self._reference, self._native)
        if outcome.correct:
            self._accepted = [output.copy() for output in outputs]
        return outcome.correct, outcome.max_abs_error, outcome.message


_current: dict[str, _Arguments] = {}


def handle(request: RunRequest) -> RunAnswer:
    """Checks and times one candidate; every failure that is an exception becomes a status."""
    try:
        if request.key not in _current:
            _current.clear()  # buffers of one task at a time
            _current[request.key] = _Arguments(request.files)
        return _measure(request, _current[request.key])
    except WorkbenchError as error:
        return RunAnswer("run_error", (), str(error), None)
    except (*TVM_ERRORS, AttributeError, OSError, MemoryError) as error:  # AttributeError: no such symbol
        return RunAnswer("run_error", (), one_line(error), None)


def _measure(request: RunRequest, arguments: _Arguments) -> RunAnswer:
    library = load_library(request.library)
    function = library[request.symbol]
    inputs = list(arguments.inputs)
    if request.packed:
        results = [_tensor(np.zeros(argument.shape, argument.dtype)) for argument in request.packed]
        library[request.symbol + PREPACK_SUFFIX](*[inputs[a.index] for a in request.packed], *results)
        for argument, tensor in zip(request.packed, results, strict=True):
            inputs[argument.index] = tensor
    tensors = [*inputs, *arguments.outputs]
    arguments.spoil()
    function(*tensors)
    correct, error, message = arguments.check()
    if not correct:
        return RunAnswer("wrong_output", (), message or "outputs differ from the reference", error)
    with own_core():
        seconds = _time(library, request.symbol, function, tensors, request.settings, request.hopeless_s)
    return RunAnswer("ok", seconds, "", error)


def _time(
    library: Any,
    symbol: str,
    function: Callable[..., Any],
    tensors: Sequence[Any],
    settings: MeasureSettings,
    hopeless_s: float,
) -> tuple[float, ...]:
    start = time.perf_counter()
    function(*tensors)
    once = time.perf_counter() - start
    if math.isfinite(hopeless_s) and once > hopeless_s:
        return (once,)
    evaluator = library.time_evaluator(
        symbol,
        tvm.cpu(),
        number=settings.number,
        repeat=settings.repeat,
        min_repeat_ms=settings.min_repeat_ms,
        cache_flush_bytes=_CACHE_FLUSH_BYTES if settings.cold_cache else 0,
    )
    return tuple(float(value) for value in evaluator(*tensors).results)


def _tensor(array: np.ndarray) -> Any:
    return tvm.runtime.tensor(np.asarray(array, order="C"), tvm.cpu())  # ascontiguousarray adds an axis to a number


def _spoilt(array: np.ndarray) -> np.ndarray:
    """NaN where the dtype has one, else a pattern that no kernel writes by accident."""
    if array.dtype.kind == "f" or array.dtype.kind == "V":
        return np.full(array.shape, np.nan, array.dtype)
    if array.dtype.kind == "b":
        return np.ones(array.shape, array.dtype)
    return np.full(array.shape, np.iinfo(array.dtype).max, array.dtype)


def _same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    return left.tobytes() == right.tobytes() if left.size < 1024 else bool(np.array_equal(_raw(left), _raw(right)))


def _raw(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
