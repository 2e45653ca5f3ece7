"""An imported program."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import tvm

SourceRun = Callable[[Sequence[np.ndarray]], list[np.ndarray]]


def numpy_dtype(name: str) -> np.dtype:
    """NumPy's dtype of a TVM dtype name; bfloat16 and the float8 kinds come from ml_dtypes."""
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name, name))


@dataclass(frozen=True)
class TensorSpec:
    """Name, shape and dtype of an input or output tensor."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def bytes(self) -> int:
        """Size of the tensor in memory, in bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * numpy_dtype(self.dtype).itemsize

    def __str__(self) -> str:
        return f"{self.name}[{', '.join(map(str, self.shape))}] {self.dtype}"


@dataclass(frozen=True)
class ImportCheck:
    """How the imported program compared with the source framework on the same seeded inputs.

    ``framework`` is "onnxruntime", "pytorch" or "none" (a built-in model, TVMScript, TE, or not installed).
    """

    framework: str
    ok: bool | None  # None: not checked
    max_abs_error: float | None
    message: str

    def __str__(self) -> str:
        if self.ok is None:
            return self.message
        error = "" if self.max_abs_error is None else f", max absolute error {self.max_abs_error:.3g}"
        return f"{'equal to' if self.ok else 'DIFFERS from'} {self.framework}{error}: {self.message}"


@dataclass(frozen=True)
class Model:
    """One Relax ``main`` in one dataflow block, static shapes, weights bound as constants, no alias bindings.

    BatchNorm is one operator in its inference form (``relax.nn.batch_norm(training=False)`` followed by item 0).
    ``fingerprint`` covers structure and weights: sha256, hexadecimal. ``source_run`` runs the source framework on the
    same inputs (in the order of ``inputs``) and returns its outputs; None where there is no such framework.
    """

    name: str
    source: str  # what was given: "encoder", "net.onnx", "file.py:make", "nn.Module MyNet"
    module: tvm.IRModule = field(compare=False, repr=False)
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    fingerprint: str
    check: ImportCheck
    framework: str = "none"  # "onnxruntime" | "pytorch" | "none": what source_run runs
    source_run: SourceRun | None = field(default=None, compare=False, repr=False)

    def example_inputs(self, seed: int = 0) -> list[np.ndarray]:
        """Seeded inputs: floats standard normal, bools random, integers in [0, 8) or a part of it.

        Integers that address an axis of a tensor lie below its size; those that something is divided by are not zero.
        """
        from .ranges import integer_ranges

        rng = np.random.default_rng(seed)
        integers = [spec for spec in self.inputs if numpy_dtype(spec.dtype).kind in "iu"]
        ranges = integer_ranges(self.module) if integers and self.module is not None else {}
        bounds = {name: (found.low, found.high) for name, found in ranges.items()}
        return [_example(rng, spec, *bounds.get(spec.name, (0, 8))) for spec in self.inputs]

    def operator_counts(self) -> dict[str, int]:
        """How often each operator occurs, most frequent first; a user's tensor program counts as ``call_tir``."""
        from workbench.tvm_seam import relax

        counts: Counter[str] = Counter()
        for binding in self.module["main"].body.blocks[0].bindings:
            if isinstance(binding.value, relax.Call):
                counts[binding.value.op.name.removeprefix("relax.")] += 1
        return dict(counts.most_common())

    def _repr_html_(self) -> str:
        operators = ", ".join(f"{count} × {name}" for name, count in self.operator_counts().items())
        rows = {
            "source": self.source,
            "inputs": "; ".join(map(str, self.inputs)),
            "outputs": "; ".join(map(str, self.outputs)),
            "operators": operators or "none",
            "fingerprint": self.fingerprint[:12],
            "import check": str(self.check),
        }
        body = "".join(
            f"<tr><th style='text-align:left'>{key}</th><td style='text-align:left'>{html.escape(value)}</td></tr>"
            for key, value in rows.items()
        )
        return f"<table><caption>Model <b>{html.escape(self.name)}</b></caption>{body}</table>"


def _example(rng: np.random.Generator, spec: TensorSpec, low: int, high: int) -> np.ndarray:
    dtype = numpy_dtype(spec.dtype)
    if dtype == np.bool_:
        return rng.integers(0, 2, spec.shape).astype(np.bool_)
    if dtype.kind in "iu":
        return rng.integers(low, high, spec.shape).astype(dtype)
    return np.asarray(rng.standard_normal(spec.shape)).astype(dtype)
