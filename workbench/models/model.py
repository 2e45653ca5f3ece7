"""An imported program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import tvm


@dataclass(frozen=True)
class TensorSpec:
    """Name, shape and dtype of an input or output tensor."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def bytes(self) -> int: ...


@dataclass(frozen=True)
class ImportCheck:
    """How the imported program compared with the source framework on the same seeded inputs.

    ``framework`` is "onnxruntime", "pytorch" or "none" (a built-in model, TVMScript, TE, or not installed).
    """

    framework: str
    ok: bool | None  # None: not checked
    max_abs_error: float | None
    message: str


@dataclass(frozen=True)
class Model:
    """One Relax ``main`` in one dataflow block, static shapes, weights bound as constants, no alias bindings.

    BatchNorm is one operator in its inference form (``relax.nn.batch_norm(training=False)`` followed by item 0).
    ``fingerprint`` covers structure and weights: sha256, hexadecimal.
    """

    name: str
    source: str  # what was given: "encoder", "net.onnx", "file.py:make", "nn.Module MyNet"
    module: tvm.IRModule
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    fingerprint: str
    check: ImportCheck

    def example_inputs(self, seed: int = 0) -> list[np.ndarray]:
        """Seeded inputs: floats standard normal, integers in [0, 8) (small enough to index with), bools random."""
        ...
