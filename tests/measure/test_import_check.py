"""The import check finds a wrong import, and says why where it cannot check."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from workbench.measure.import_check import check_import
from workbench.models import Model, zoo


def _model() -> Model:
    return zoo.build("residual_layernorm", rows=8, cols=16)


def _layer_norm(inputs: list[np.ndarray], shift: float = 0.0) -> list[np.ndarray]:
    call = _model().module["main"].body.blocks[0].bindings[1].value
    gamma, beta = (call.args[i].value.numpy().astype("float64") for i in (1, 2))
    total = inputs[0].astype("float64") + inputs[1]
    centred = total - total.mean(-1, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    return [(normal * gamma + beta + shift).astype("float32")]


def test_equal_results_pass() -> None:
    check = check_import(replace(_model(), framework="onnxruntime", source_run=_layer_norm))
    assert check.ok is True
    assert check.framework == "onnxruntime"
    assert check.max_abs_error is not None
    assert check.max_abs_error < 1e-5


def test_a_different_result_fails() -> None:
    wrong = replace(_model(), framework="pytorch", source_run=lambda inputs: _layer_norm(inputs, shift=1e-3))
    check = check_import(wrong)
    assert check.ok is False
    assert check.max_abs_error is not None
    assert abs(check.max_abs_error - 1e-3) < 1e-4
    assert "elements are off" in check.message


def test_nan_in_the_source_fails() -> None:
    def run(inputs: list[np.ndarray]) -> list[np.ndarray]:
        (out,) = _layer_norm(inputs)
        out[0, 0] = np.nan
        return [out]

    assert check_import(replace(_model(), framework="pytorch", source_run=run)).ok is False


def test_another_number_of_outputs_fails() -> None:
    doubled = replace(_model(), framework="pytorch", source_run=lambda inputs: _layer_norm(inputs) * 2)
    assert check_import(doubled).ok is False


def test_without_a_framework_nothing_is_claimed() -> None:
    assert check_import(_model()) == _model().check


def test_a_framework_that_raises_is_reported() -> None:
    def run(inputs: list[np.ndarray]) -> list[np.ndarray]:
        raise RuntimeError("no kernel for\nfloat16")

    check = check_import(replace(_model(), framework="onnxruntime", source_run=run))
    assert check.ok is None
    assert "onnxruntime cannot run the model (RuntimeError: no kernel for float16)" in check.message
