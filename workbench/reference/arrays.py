"""Arrays in NumPy's files. Their format does not know bfloat16 and its like: those go in as unsigned integers."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes  # noqa: F401  teaches NumPy the names of bfloat16 and float8
import numpy as np


def plain(array: np.ndarray) -> np.ndarray:
    """The array itself, or its bits where the file format does not know the dtype."""
    if array.dtype.kind in "biuf":
        return array
    return np.asarray(array, order="C").view(f"u{array.dtype.itemsize}")


def restored(array: np.ndarray, dtype: str) -> np.ndarray:
    """What :func:`plain` was given, by the name of its dtype."""
    return array if array.dtype.name == dtype else array.view(np.dtype(dtype))


def save_array(folder: Path, name: str, array: np.ndarray) -> Path:
    """Writes ``NAME.DTYPE.npy`` into the folder; its path."""
    path = folder / f"{name}.{array.dtype.name}.npy"
    np.save(path, plain(array))
    return path


def load_array(path: Path | str) -> np.ndarray:
    """What :func:`save_array` wrote."""
    return restored(np.load(path), Path(path).name.split(".")[-2])
