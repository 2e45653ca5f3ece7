"""The device's side of a runner: checks a library's function, then times it. Imported in the runner's process only.

TVM's thread pool is as wide as ``TVM_NUM_THREADS`` says, which the parent sets before this process starts.
"""

from __future__ import annotations

import dataclasses
import math
import random
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
from ..messages import ArgumentFiles, CompareAnswer, CompareRequest, Contender, RunAnswer, RunRequest

_CACHE_FLUSH_BYTES = 64 << 20
_CHECKS = 2  # calls per set of inputs: a race may be right once
_LEAST_ROUNDS = 5
_ROUNDS_S = 4.0  # seconds of all rounds together, where calls are long


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


class _Loaded:
    """A candidate's function, ready to be called with a task's arguments."""

    def __init__(self, contender: Contender) -> None:
        self._library = load_library(contender.library)
        self._function: Callable[..., Any] = self._library[contender.symbol]
        self._contender = contender

    def tensors(self, arguments: _Arguments) -> list[Any]:
        """The arguments of a call, weights packed as this candidate wants them."""
        inputs, packed = list(arguments.inputs), self._contender.packed
        if packed:
            results = [_tensor(np.zeros(argument.shape, argument.dtype)) for argument in packed]
            self._library[self._contender.symbol + PREPACK_SUFFIX](*[inputs[a.index] for a in packed], *results)
            for argument, tensor in zip(packed, results, strict=True):
                inputs[argument.index] = tensor
        return [*inputs, *arguments.outputs]

    def check(self, arguments: _Arguments, tensors: Sequence[Any]) -> RunAnswer:
        """One call, compared with the reference."""
        arguments.spoil()
        self._function(*tensors)
        correct, error, message = arguments.check()
        if correct:
            return RunAnswer("ok", (), "", error)
        return RunAnswer("wrong_output", (), message or "outputs differ from the reference", error)

    def call(self, tensors: Sequence[Any]) -> float:
        """Seconds of one call."""
        start = time.perf_counter()
        self._function(*tensors)
        return time.perf_counter() - start

    def evaluator(self, settings: MeasureSettings) -> Any:
        """TVM's timer at these settings."""
        return self._library.time_evaluator(
            self._contender.symbol,
            tvm.cpu(),
            number=settings.number,
            repeat=settings.repeat,
            min_repeat_ms=settings.min_repeat_ms,
            cache_flush_bytes=_CACHE_FLUSH_BYTES if settings.cold_cache else 0,
        )


def handle(request: RunRequest | CompareRequest) -> RunAnswer | CompareAnswer:
    """Checks and times one candidate, or several against each other; every exception becomes a status."""
    if isinstance(request, CompareRequest):
        return _compare(request)
    return _guarded(lambda: _measure(request, _arguments(request.key, request.files)))


def _guarded(work: Callable[[], RunAnswer]) -> RunAnswer:
    try:
        return work()
    except WorkbenchError as error:
        return RunAnswer("run_error", (), str(error), None)
    except (*TVM_ERRORS, AttributeError, OSError, MemoryError) as error:  # AttributeError: no such symbol
        return RunAnswer("run_error", (), one_line(error), None)


def _arguments(key: str, files: ArgumentFiles) -> _Arguments:
    if key not in _current:
        _current.clear()  # buffers of one task at a time
        _current[key] = _Arguments(files)
    return _current[key]


def _measure(request: RunRequest, arguments: _Arguments) -> RunAnswer:
    loaded = _Loaded(Contender(request.library, request.symbol, request.packed))
    tensors = loaded.tensors(arguments)
    answer = loaded.check(arguments, tensors)
    if answer.status != "ok":
        return answer
    with own_core():
        once = loaded.call(tensors)
        if math.isfinite(request.hopeless_s) and once > request.hopeless_s:
            return dataclasses.replace(answer, seconds=(once,))
        seconds = tuple(float(value) for value in loaded.evaluator(request.settings)(*tensors).results)
    return dataclasses.replace(answer, seconds=seconds)


def _compare(request: CompareRequest) -> CompareAnswer:
    """All checks first, since a wrong candidate is never timed; then the rounds."""
    answers: dict[int, RunAnswer] = {}
    ready: dict[int, tuple[_Loaded, list[Any]]] = {}
    arguments = _arguments(request.key, request.files[0])
    probes = [_Arguments(files) for files in request.files[1:]]
    for index, contender in enumerate(request.contenders):

        def check(contender: Contender = contender, index: int = index) -> RunAnswer:
            loaded = _Loaded(contender)
            tensors = loaded.tensors(arguments)
            sets = [(arguments, tensors), *((probe, loaded.tensors(probe)) for probe in probes)]
            answers = [loaded.check(*one) for one in sets for _ in range(_CHECKS)]
            ready[index] = (loaded, tensors)
            return next((answer for answer in answers if answer.status != "ok"), answers[0])

        answers[index] = _guarded(check)
    good = [index for index, answer in answers.items() if answer.status == "ok"]
    with own_core():
        seconds = _rounds({index: ready[index] for index in good}, request) if good else {}
    answers |= {index: dataclasses.replace(answers[index], seconds=times) for index, times in seconds.items()}
    return CompareAnswer(tuple(answers[index] for index in range(len(request.contenders))))


def _rounds(ready: dict[int, tuple[_Loaded, list[Any]]], request: CompareRequest) -> dict[int, tuple[float, ...]]:
    """Seconds of each, one a round. A round's order is random, so that what runs before a candidate differs.

    A round takes the samples' ``min_repeat_ms`` at least, so the number of rounds bounds the time; where single calls
    are longer than that, there are fewer rounds.
    """
    once = {index: min(loaded.call(tensors) for _ in range(2)) for index, (loaded, tensors) in ready.items()}
    fastest = min(once.values())
    close = [index for index in ready if once[index] <= request.hopeless_ratio * fastest]
    times: dict[int, list[float]] = {index: [] if index in close else [once[index]] for index in ready}
    sample = {index: max(once[index], 1e-3 * request.settings.min_repeat_ms) for index in close}
    rounds = min(request.rounds, max(_LEAST_ROUNDS, int(_ROUNDS_S / sum(sample.values()))))
    settings = dataclasses.replace(request.settings, repeat=1)
    evaluators = {index: ready[index][0].evaluator(settings) for index in close}
    order = random.Random(0)
    for _ in range(rounds):
        for index in order.sample(close, len(close)):
            times[index].append(float(evaluators[index](*ready[index][1]).results[0]))
    return {index: tuple(values) for index, values in times.items()}


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
