"""Fingerprints, input specifications and display."""

from __future__ import annotations

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from imported import run_tvm

from workbench.models import TensorSpec, load, zoo
from workbench.models.model import ImportCheck, Model
from workbench.tvm_seam import relax, tvm

SIZES = {"rows": 8, "inner": 16, "outer": 24}


def _dense(weight: np.ndarray, name: str = "x", constant_name: str = "y", epsilon: float = 1e-5) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var(name, relax.TensorType((2, 4), "float32"))
    ones = relax.const(np.ones(4, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.matmul(x, relax.const(weight)), name_hint=constant_name)
            out = builder.emit_output(relax.op.nn.rms_norm(y, ones, axes=[-1], epsilon=epsilon))
        builder.emit_func_output(out)
    return builder.get()


def test_equal_models_have_equal_fingerprints_in_every_process(tmp_path: object) -> None:
    file = tmp_path / "expression.py"  # type: ignore[operator]
    file.write_text(
        "from tvm import te\n"
        "def make():\n"
        "    a = te.placeholder((4, 8), name='a')\n"
        "    return te.compute((4, 8), lambda i, j: a[i, j] * 2.0, name='twice')\n"
    )
    sources = ["swiglu", f"{file}:make"]
    code = f"from workbench.models import load\nfor s in {sources!r}: print(load(s).fingerprint)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    here = [load(source).fingerprint for source in sources]
    assert done.stdout.split() == here
    assert all(len(f) == 64 and int(f, 16) >= 0 for f in here)
    assert len(set(here)) == 2


def test_a_fingerprint_follows_weights_and_attributes_and_ignores_names() -> None:
    weight = np.eye(4, dtype="float32")
    base = load(_dense(weight)).fingerprint
    assert load(_dense(weight, name="tokens", constant_name="zz")).fingerprint == base
    assert load(_dense(weight, epsilon=1e-6)).fingerprint != base
    changed = weight.copy()
    changed[3, 0] = 1e-7
    assert load(_dense(changed)).fingerprint != base
    assert load(_dense(weight.astype("float32").T.copy())).fingerprint == base  # the identity's transpose
    assert zoo.build("swiglu", **SIZES).fingerprint != zoo.build("swiglu", **{**SIZES, "rows": 9}).fingerprint


def test_operands_in_another_order_are_another_model() -> None:
    def module(swapped: bool) -> tvm.IRModule:
        builder = relax.BlockBuilder()
        x, y = (relax.Var(n, relax.TensorType((2, 2), "float32")) for n in "xy")
        with builder.function("main", [x, y]):
            with builder.dataflow():
                out = builder.emit_output(relax.op.subtract(*((y, x) if swapped else (x, y))))
            builder.emit_func_output(out)
        return builder.get()

    assert load(module(False)).fingerprint != load(module(True)).fingerprint


def test_example_inputs_are_seeded_and_fit_the_specification() -> None:
    specs = (
        TensorSpec("f", (3, 4), "float32"),
        TensorSpec("h", (5,), "bfloat16"),
        TensorSpec("i", (100,), "int64"),
        TensorSpec("b", (64,), "bool"),
        TensorSpec("s", (), "float16"),
    )
    check = ImportCheck("none", None, None, "")
    model = Model("m", "m", None, specs, (), "", check)  # type: ignore[arg-type]
    inputs = model.example_inputs(seed=1)
    assert [a.shape for a in inputs] == [s.shape for s in specs]
    assert [a.dtype for a in inputs] == [np.float32, ml_dtypes.bfloat16, np.int64, np.bool_, np.float16]
    assert set(inputs[2]) == set(range(8))
    assert set(inputs[3]) == {True, False}
    for a, b, c in zip(inputs, model.example_inputs(seed=1), model.example_inputs(seed=2), strict=True):
        np.testing.assert_array_equal(a, b)
        assert not np.array_equal(a, c)
    assert [s.bytes for s in specs] == [48, 10, 800, 64, 2]


def test_a_model_shows_itself_as_a_table_and_compares_by_content() -> None:
    model = zoo.build("swiglu", **SIZES)
    page = model._repr_html_()
    for text in ("swiglu", "x[8, 16] float32", "2 × matmul", model.fingerprint[:12], "no source framework"):
        assert text in page
    assert model == zoo.build("swiglu", **SIZES)
    assert model != zoo.build("swiglu", **{**SIZES, "outer": 8})


def test_sources_in_the_display_are_escaped() -> None:
    model = load(_dense(np.eye(4, dtype="float32")), name="<script>")
    assert "<script>" not in model._repr_html_()
    assert "&lt;script&gt;" in model._repr_html_()


@pytest.mark.parametrize("name", ["float16", "float64"])
def test_run_in_another_precision(name: str) -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4,), name))
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.multiply(x, relax.const(3.0, name)))
        builder.emit_func_output(out)
    model = load(builder.get())
    (value,) = model.example_inputs()
    (result,) = run_tvm(model, [value])
    assert result.dtype.name == name
    np.testing.assert_array_equal(result, value * np.array(3.0, name))
