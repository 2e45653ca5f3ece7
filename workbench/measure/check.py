"""Correct before fast: outputs against a reference that TVM had no part in."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from .. import __version__
from ..errors import CheckError, UnsupportedOperator
from ..graph import Graph
from ..models.model import Model
from ..reference import compare_all
from ..reference.arrays import plain, restored
from ..reference.dtypes import is_float
from .measurement import Correctness

if TYPE_CHECKING:
    from ..store import Store

log = logging.getLogger(__name__)

NUMPY = "numpy float64"


@dataclass(frozen=True, eq=False)
class ReferenceOutputs:
    """A model's outputs for some inputs. ``reference64``: float64 (integers and bools in their own dtype);
    ``native``: the same graph evaluated in the model's own dtypes; ``name``: what computed them."""

    reference64: tuple[np.ndarray, ...]
    native: tuple[np.ndarray, ...]
    name: str


def reference_outputs(
    model: Model, graph: Graph, inputs: Sequence[np.ndarray], *, store: Store | None = None, seed: int = 0
) -> ReferenceOutputs:
    """NumPy's outputs in float64 and in the model's own dtypes; the source framework's where NumPy lacks an operator.

    ``inputs`` are those of ``model.example_inputs(seed)``; with a ``store`` the outputs are kept by the model's
    fingerprint and the seed. Raises CheckError when nothing can compute a reference.
    """
    path = store.reference_path(model.fingerprint, seed) if store is not None else None
    stamp = _stamp(inputs)
    if path is not None and (found := _load(path, stamp)) is not None:
        return found
    outputs = _compute(model, graph, inputs)
    if store is not None and path is not None:
        store.write_reference(path, _dump(outputs, stamp))
    return outputs


def check_outputs(
    actual: Sequence[np.ndarray],
    reference64: Sequence[np.ndarray],
    native: Sequence[np.ndarray],
    reference_name: str,
) -> Correctness:
    """Compares every output; the largest error of each kind counts, and one wrong output makes the whole wrong."""
    found = compare_all(actual, reference64, native)
    return Correctness(
        correct=found.correct,
        max_abs_error=found.max_abs_error,
        max_rel_error=found.max_rel_error,
        error_ratio=found.error_ratio,
        reference=reference_name,
        message=found.message,
    )


def _compute(model: Model, graph: Graph, inputs: Sequence[np.ndarray]) -> ReferenceOutputs:
    from ..reference import evaluate  # SciPy: half a second, which a run that finds its reference kept need not pay

    try:
        reference64 = evaluate(graph, inputs, "float64")
        native = evaluate(graph, inputs, "native")
    except UnsupportedOperator as error:
        return _from_source(model, inputs, error)
    return ReferenceOutputs(tuple(reference64), tuple(native), NUMPY)


def _from_source(model: Model, inputs: Sequence[np.ndarray], missing: UnsupportedOperator) -> ReferenceOutputs:
    """The source framework's result as reference, and its result for shaken inputs as the native evaluation.

    A framework computes in the model's own dtypes only, so its rounding error cannot be seen. How far the outputs move
    when every input moves by a rounding error stands for it (after the random perturbation of stochastic arithmetic,
    Vignes 1993); outputs move by two units in the last place on top, for a model without floating inputs.
    """
    if model.source_run is None:
        raise CheckError(
            f"{model.name}: no reference for operator '{missing.operator}' at '{missing.node}': it is not in NumPy's "
            "table and the model has no source framework; load the model from ONNX or PyTorch, with that installed"
        ) from missing
    rng = np.random.default_rng(0)
    plain = [np.asarray(output) for output in model.source_run(list(inputs))]
    moved = [np.asarray(output) for output in model.source_run([_shaken(array, rng) for array in inputs])]
    native = tuple(_native(one, other, rng) for one, other in zip(plain, moved, strict=True))
    wide = tuple(one.astype(np.float64) if is_float(one.dtype) else one for one in plain)
    return ReferenceOutputs(wide, native, f"{model.framework} (no NumPy reference for {missing.operator})")


def _shaken(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Every element moved by one unit in the last place, up or down; integers and bools stay."""
    if not is_float(array.dtype):
        return array
    signs = rng.choice([-1.0, 1.0], array.shape)
    return (array.astype(np.float64) * (1 + signs * float(ml_dtypes.finfo(array.dtype).eps))).astype(array.dtype)


def _native(plain: np.ndarray, moved: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """``moved`` where both are numbers; NaN, infinities, integers and bools as they are in ``plain``."""
    if not is_float(plain.dtype):
        return plain
    both = np.isfinite(plain.astype(np.float64)) & np.isfinite(moved.astype(np.float64))
    return np.where(both, _shaken(_shaken(moved, rng), rng), plain).astype(plain.dtype)


def _stamp(inputs: Sequence[np.ndarray]) -> str:
    """What the kept outputs depend on, beside model and seed."""
    state = hashlib.sha256(__version__.encode())
    for array in inputs:
        state.update(f"{array.dtype}{array.shape}".encode())
        state.update(np.ascontiguousarray(array).tobytes())
    return state.hexdigest()


def _dump(outputs: ReferenceOutputs, stamp: str) -> bytes:
    arrays = [*outputs.reference64, *outputs.native]
    header = {"name": outputs.name, "stamp": stamp, "dtypes": [array.dtype.name for array in arrays]}
    buffer = io.BytesIO()
    bits = {f"a{i}": plain(array) for i, array in enumerate(arrays)}
    np.savez(buffer, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **bits)  # type: ignore[arg-type]
    return buffer.getvalue()


def _load(path: Path, stamp: str) -> ReferenceOutputs | None:
    """What was kept; None when there is nothing, it is for other inputs, or the file is damaged (with a warning)."""
    if not path.exists():
        return None
    try:
        with np.load(io.BytesIO(path.read_bytes())) as file:
            header = json.loads(file["header"].tobytes())
            if header["stamp"] != stamp:
                return None
            arrays = [restored(file[f"a{i}"], name) for i, name in enumerate(header["dtypes"])]
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        log.warning("reference %s is damaged (%s) and is computed again", path, error)
        return None
    half = len(arrays) // 2
    return ReferenceOutputs(tuple(arrays[:half]), tuple(arrays[half:]), header["name"])
