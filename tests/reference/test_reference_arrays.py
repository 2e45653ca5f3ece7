"""Arrays survive a file whatever their dtype."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from workbench.reference.arrays import load_array, save_array


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool", "int64", "float64", ml_dtypes.bfloat16])
def test_an_array_comes_back_as_it_was(tmp_path: Path, dtype: object) -> None:
    array = (np.arange(6).reshape(2, 3) - 2).astype(dtype)
    back = load_array(save_array(tmp_path, "x.y", array))
    assert back.dtype == array.dtype
    assert back.tobytes() == array.tobytes()
    assert back.shape == (2, 3)


@pytest.mark.parametrize("dtype", ["float32", "int64", ml_dtypes.bfloat16])
def test_a_number_keeps_having_no_axis(tmp_path: Path, dtype: object) -> None:
    back = load_array(save_array(tmp_path, "x", np.asarray(2).astype(dtype)))
    assert back.shape == ()
    assert back == 2
