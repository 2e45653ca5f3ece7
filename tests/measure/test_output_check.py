"""Outputs against references: what is right, what is wrong, and where the reference comes from."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from workbench.errors import CheckError
from workbench.graph import Graph, IterationSpace, Node, Value
from workbench.measure import ReferenceOutputs, check_outputs, reference_outputs
from workbench.measure.check import _dump, _load
from workbench.models import Model
from workbench.models.model import ImportCheck, TensorSpec
from workbench.store import Store


def graph_of(op: str) -> Graph:
    """One operator on ``x[64, 32]``."""
    shape = (64, 32)
    node = Node("lv", op, "elementwise", ("x",), ("lv",), {}, ("lv",), 2048.0, IterationSpace(shape))
    values = {"x": Value("x", shape, "float32"), "lv": Value("lv", shape, "float32", producer="lv")}
    return Graph("one", (node,), values, ("x",), ("lv",), "fingerprint")


def model_of(**changes: object) -> Model:
    spec = TensorSpec("x", (64, 32), "float32")
    check = ImportCheck("none", None, None, "")
    made = Model("one", "one", None, (spec,), (spec,), "fingerprint", check)  # type: ignore[arg-type]
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def test_numpy_in_float64_is_the_reference() -> None:
    inputs = model_of().example_inputs(0)
    found = reference_outputs(model_of(), graph_of("exp"), inputs)
    assert found.name == "numpy float64"
    assert found.reference64[0].dtype == np.float64
    assert found.native[0].dtype == np.float32
    np.testing.assert_allclose(found.reference64[0], np.exp(inputs[0].astype(np.float64)), rtol=1e-14)


def test_a_right_result_and_a_wrong_one() -> None:
    inputs = model_of().example_inputs(0)
    found = reference_outputs(model_of(), graph_of("exp"), inputs)
    right = check_outputs([np.exp(inputs[0])], found.reference64, found.native, found.name)
    assert right.correct
    assert right.message == ""
    assert 0 < right.max_abs_error < 1e-5
    assert right.reference == "numpy float64"
    bad = np.exp(inputs[0])
    bad[3, 4] *= np.float32(1.001)
    wrong = check_outputs([bad], found.reference64, found.native, found.name)
    assert not wrong.correct
    assert "[3, 4]" in wrong.message
    assert wrong.error_ratio > 1


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity_are_wrong(value: float) -> None:
    inputs = model_of().example_inputs(0)
    found = reference_outputs(model_of(), graph_of("exp"), inputs)
    bad = np.exp(inputs[0])
    bad[0, 0] = value
    assert not check_outputs([bad], found.reference64, found.native, found.name).correct


def test_a_missing_output_is_wrong() -> None:
    found = reference_outputs(model_of(), graph_of("exp"), model_of().example_inputs(0))
    assert not check_outputs([], found.reference64, found.native, found.name).correct


def test_an_operator_that_numpy_lacks_is_taken_from_the_source_framework_which_is_named() -> None:
    model = model_of(framework="onnxruntime", source_run=lambda inputs: [np.tanh(inputs[0])])
    inputs = model.example_inputs(0)
    found = reference_outputs(model, graph_of("frobnicate"), inputs)
    assert found.name == "onnxruntime (no NumPy reference for frobnicate)"
    np.testing.assert_array_equal(found.reference64[0], np.tanh(inputs[0]).astype(np.float64))
    other_rounding = np.tanh(inputs[0].astype(np.float64)).astype(np.float32)
    assert check_outputs([other_rounding], found.reference64, found.native, found.name).correct
    assert not check_outputs([other_rounding * 1.0001], found.reference64, found.native, found.name).correct


def test_a_source_frameworks_sum_may_be_made_in_another_order() -> None:
    """A long sum's rounding error depends on its order; the framework's own order is no better than ours."""
    weights = np.random.default_rng(1).normal(size=(32, 2000)).astype(np.float32)

    def run(inputs: list[np.ndarray]) -> list[np.ndarray]:
        return [(inputs[0] @ weights @ weights.T).astype(np.float32)]

    model = model_of(framework="pytorch", source_run=run)
    inputs = model.example_inputs(0)
    found = reference_outputs(model, graph_of("frobnicate"), inputs)
    exact = inputs[0].astype(np.float64) @ weights.astype(np.float64) @ weights.T.astype(np.float64)
    assert check_outputs([exact.astype(np.float32)], found.reference64, found.native, found.name).correct
    off = (exact * (1 + 1e-3)).astype(np.float32)
    assert not check_outputs([off], found.reference64, found.native, found.name).correct


def test_without_any_reference_nothing_is_claimed() -> None:
    with pytest.raises(CheckError, match=r"no reference for operator 'frobnicate' at 'lv'.*ONNX or PyTorch"):
        reference_outputs(model_of(), graph_of("frobnicate"), model_of().example_inputs(0))


def test_references_are_kept_in_the_store_for_the_same_inputs_only(tmp_path: Path) -> None:
    runs: list[int] = []

    def run(inputs: list[np.ndarray]) -> list[np.ndarray]:
        runs.append(1)
        return [np.tanh(inputs[0])]

    model = model_of(framework="pytorch", source_run=run)
    with Store(tmp_path) as store:
        first = reference_outputs(model, graph_of("frobnicate"), model.example_inputs(0), store=store)
        again = reference_outputs(model, graph_of("frobnicate"), model.example_inputs(0), store=store)
        assert len(runs) == 2  # plain and shaken inputs, once
        assert again.name == first.name
        for one, other in zip(first.reference64 + first.native, again.reference64 + again.native, strict=True):
            np.testing.assert_array_equal(one, other)
        other_inputs = [array + np.float32(1) for array in model.example_inputs(0)]
        moved = reference_outputs(model, graph_of("frobnicate"), other_inputs, store=store)
        assert len(runs) == 4
        np.testing.assert_array_equal(moved.reference64[0], np.tanh(other_inputs[0]).astype(np.float64))


@pytest.mark.parametrize("keep", [0, 20, 300])
def test_a_damaged_reference_is_computed_again(tmp_path: Path, keep: int, caplog: pytest.LogCaptureFixture) -> None:
    with Store(tmp_path) as store, caplog.at_level(logging.WARNING):
        inputs = model_of().example_inputs(0)
        first = reference_outputs(model_of(), graph_of("exp"), inputs, store=store)
        path = store.reference_path("fingerprint", 0)
        path.write_bytes(path.read_bytes()[:keep])
        again = reference_outputs(model_of(), graph_of("exp"), inputs, store=store)
    np.testing.assert_array_equal(again.reference64[0], first.reference64[0])
    assert "is damaged" in caplog.text


def test_every_dtype_survives_the_store(tmp_path: Path) -> None:
    arrays = (
        np.array([1, -2], np.int64),
        np.array([True, False]),
        np.array([1.5, np.nan], np.float16),
        np.array([[1.5, np.inf]], ml_dtypes.bfloat16),
        np.array(3.5, np.float64),
    )
    path = tmp_path / "r.npz"
    path.write_bytes(_dump(ReferenceOutputs(arrays, arrays, "x"), "stamp"))
    found = _load(path, "stamp")
    assert found is not None
    assert _load(path, "other") is None
    for one, other in zip(arrays + arrays, found.reference64 + found.native, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert one.tobytes() == other.tobytes()
