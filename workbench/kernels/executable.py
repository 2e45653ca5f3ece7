"""A compiled model that runs, times and profiles itself, and exports to one file."""

from __future__ import annotations

import html
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, KernelError
from ..models import Model
from ..models.model import numpy_dtype
from ..targets import Target
from ..tvm_seam import relax, tvm, tvm_ffi
from .assemble import Assembled, compile_main
from .cache import CacheReport
from .tvm_errors import TVM_ERRORS, one_line
from .workload import KernelCall


class Executable:
    """One variant of a model, compiled for a target.

    Calling it takes NumPy arrays in the order of ``inputs`` and returns an array, or a tuple of arrays where the model
    has several outputs. ``calls`` are the kernel calls of one run, in order; views are not among them.

    The number of threads is TVM's (``TVM_NUM_THREADS``), set before TVM runs anything.
    """

    def __init__(
        self,
        name: str,
        assembled: Assembled,
        target: Target,
        model: Model,
        calls: tuple[KernelCall, ...],
        cache_report: CacheReport,
    ) -> None:
        self.name = name
        self.target = target
        self.model = model
        self.inputs = model.inputs
        self.outputs = model.outputs
        self.calls = calls
        self.cache_report = cache_report
        self._assembled = assembled
        self._machine = self._new_machine()

    def _new_machine(self) -> Any:
        # The module itself: TVM's Executable would write out and link again whatever it cannot run as it is.
        return relax.VirtualMachine(self._assembled.executable.mod, tvm.cpu())

    def is_same_program(self, other: Executable) -> bool:
        """Whether both run the same kernels on the same constants in the same order, whatever they are called."""
        return bool(tvm_ffi.structural_equal(self._assembled.module, other._assembled.module, map_free_vars=True))

    def __call__(self, *arrays: np.ndarray) -> np.ndarray | tuple[np.ndarray, ...]:
        """Runs the model once. Raises InputError for inputs that do not fit, KernelError when a kernel fails."""
        tensors = self._tensors(arrays)
        try:
            results = _flatten(self._machine["main"](*tensors))
        except TVM_ERRORS as error:
            raise KernelError(f"{self.name}: a kernel failed: {one_line(error)}") from error
        return results[0] if len(results) == 1 else tuple(results)

    def example_inputs(self, seed: int = 0) -> list[np.ndarray]:
        """Seeded inputs that fit, as ``Model.example_inputs`` makes them."""
        return self.model.example_inputs(seed)

    def prepare(self, inputs: Sequence[np.ndarray]) -> Callable[[], None]:
        """A function without arguments that runs the model once on these inputs: no copies, for timing.

        It has a virtual machine of its own, so several can be prepared and called in turn.
        """
        machine = self._new_machine()
        machine.set_input("main", *self._tensors(inputs))

        def run() -> None:
            machine.invoke_stateful("main")

        return run

    def profile(self, inputs: Sequence[np.ndarray], repeats: int) -> list[list[float]]:
        """Seconds of every kernel call, in the order of ``calls``: ``repeats`` samples each, after one warm-up run.

        Measured inside whole runs, where caches are as the model leaves them. Watching a call costs some microseconds,
        of which about one per argument falls into the measured time: use the shares, and ``prepare`` for latency.
        """
        clock = _Clock(frozenset(kernel.symbol for kernel in self._assembled.kernels))
        machine = self._new_machine()
        machine.set_instrument(clock)
        tensors = self._tensors(inputs)
        samples: list[list[float]] = [[] for _ in self.calls]
        for repeat in range(repeats + 1):
            clock.seconds.clear()
            machine["main"](*tensors)
            if len(clock.seconds) != len(self.calls):
                raise KernelError(f"{self.name}: {len(clock.seconds)} kernels ran where {len(self.calls)} were planned")
            if repeat > 0:
                for mine, seconds in zip(samples, clock.seconds, strict=True):
                    mine.append(seconds)
        return samples

    def export(self, path: Path | str) -> Path:
        """Writes one self-contained shared library, which TVM's runtime alone can load::

            machine = tvm.relax.VirtualMachine(tvm.runtime.load_module("net.so"), tvm.cpu())
            machine["main"](tvm.runtime.tensor(x))

        Weights are inside, packed. Raises InputError for a path that cannot be a file, KernelError when the linker
        fails.
        """
        path = Path(path)
        if path.is_dir() or not path.parent.is_dir():
            reason = "is a folder" if path.is_dir() else f"there is no folder {path.parent}"
            raise InputError(f"{path}: the library cannot be written ({reason}); give another path")
        executable = compile_main(self._assembled.module, self.target, [])
        with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
            objects = []
            for kernel in self._assembled.kernels:
                objects.append(Path(folder, f"{kernel.symbol}.o"))
                objects[-1].write_bytes(kernel.code)
            try:
                executable.export_library(str(path), addons=[str(item) for item in objects])
            except (*TVM_ERRORS, OSError) as error:
                raise KernelError(f"{path}: the model cannot be written: {one_line(error)}") from error
        return path

    def _tensors(self, arrays: Sequence[np.ndarray]) -> list[Any]:
        expected = ", ".join(map(str, self.inputs)) or "none"
        if len(arrays) != len(self.inputs):
            raise InputError(f"{self.name}: {len(arrays)} inputs were given, {len(self.inputs)} are needed: {expected}")
        tensors = []
        for spec, given in zip(self.inputs, arrays, strict=True):
            array = np.asarray(given)
            if array.shape != spec.shape or array.dtype != numpy_dtype(spec.dtype):
                found = f"[{', '.join(map(str, array.shape))}] {array.dtype}"
                raise InputError(f"{self.name}: input '{spec.name}' must be {spec}, not {found}; convert it first")
            tensors.append(tvm.runtime.tensor(np.ascontiguousarray(array).reshape(spec.shape)))
        return tensors

    def __repr__(self) -> str:
        return f"Executable({self.name!r}, {len(self.calls)} kernels, {self.target.device})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(call.group)}</td><td>{html.escape(' + '.join(call.ops))}</td>"
            f"<td><code>{call.workload[:12]}</code></td></tr>"
            for call in self.calls
        )
        title = f"{html.escape(self.name)}: {len(self.calls)} kernels on {html.escape(self.target.device)}"
        head = "<tr><th>group</th><th>operators</th><th>workload</th></tr>"
        return f"<p><b>{title}</b></p><table>{head}{rows}</table>"


class _Clock:
    """Times the kernels among the virtual machine's calls; everything else (allocation, views) passes unseen."""

    def __init__(self, symbols: frozenset[str]) -> None:
        self.symbols = symbols
        self.seconds: list[float] = []
        self._begin = 0.0

    def __call__(self, function: Any, name: str, before: bool, result: Any, *arguments: Any) -> int:
        now = time.perf_counter()
        if name in self.symbols:
            if before:
                self._begin = time.perf_counter()
            else:
                self.seconds.append(now - self._begin)
        return int(relax.VMInstrumentReturnKind.NO_OP)


def _flatten(result: Any) -> list[np.ndarray]:
    if hasattr(result, "numpy"):
        return [result.numpy()]
    return [array for item in result for array in _flatten(item)]
