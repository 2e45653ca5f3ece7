"""Python files, TVMScript modules, tensor programs and tensor expressions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from imported import operators, run_tvm
from tvm import te

from workbench.errors import ModelError, SymbolicShapeError
from workbench.models import load
from workbench.tvm_seam import tvm

SCRIPT = """
from tvm.script import ir as I, relax as R

@I.ir_module
class Residual:
    @R.function
    def main(x: R.Tensor((4, 8), "float32"), y: R.Tensor((4, 8), "float32")):
        with R.dataflow():
            s = R.add(x, y)
            out = R.tanh(s)
            R.output(out)
        return out
"""
FUNCTIONS = """
from tvm import te

def dense():
    a = te.placeholder((8, 16), name="a")
    b = te.placeholder((16, 4), name="b")
    k = te.reduce_axis((0, 16), name="k")
    product = te.compute((8, 4), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="product")
    positive = te.compute(
        (8, 4), lambda i, j: te.if_then_else(product[i, j] > 0.0, product[i, j], 0.0), name="positive"
    )
    return [b, a, product, positive]

def failing():
    raise RuntimeError("no weights")

def with_argument(x):
    return x

def number():
    return 3
"""
PROGRAMS = """
from tvm.script import ir as I, tirx as T

@I.ir_module
class Triple:
    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((4, 4), "float32"), b: T.Buffer((4, 4), "float32")):
        for i, j in T.grid(4, 4):
            with T.sblock("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                b[vi, vj] = a[vi, vj] * T.float32(3)

@I.ir_module
class OutputFirst:
    @T.prim_func(s_tir=True)
    def main(a: T.Buffer((4, 4), "float32"), b: T.Buffer((4, 4), "float32")):
        for i, j in T.grid(4, 4):
            with T.sblock("a"):
                vi, vj = T.axis.remap("SS", [i, j])
                a[vi, vj] = b[vi, vj]
"""


@pytest.fixture
def functions(tmp_path: Path) -> str:
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    return str(tmp_path / "functions.py")


@pytest.fixture
def programs(tmp_path: Path) -> str:
    (tmp_path / "programs.py").write_text(PROGRAMS)
    return str(tmp_path / "programs.py")


def test_a_file_with_one_module(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    for source in (tmp_path / "script.py", f"{tmp_path}/script.py:Residual"):
        model = load(source)
        assert model.name == "Residual"
        assert model.check.framework == "none"
        x, y = model.example_inputs()
        np.testing.assert_allclose(run_tvm(model, [x, y])[0], np.tanh(x + y), rtol=1e-5)


def test_a_function_that_returns_tensor_expressions(functions: str) -> None:
    model = load(f"{functions}:dense")
    assert model.name == "dense"
    assert [spec.name for spec in model.inputs] == ["b", "a"]  # in the order in which they were given
    assert operators(model) == ["call_tir", "call_tir"]
    assert {g.name_hint for g in model.module.get_global_vars()} == {"main", "product", "positive"}
    b, a = model.example_inputs()
    product, positive = run_tvm(model, [b, a])
    np.testing.assert_allclose(product, a @ b, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(positive, np.maximum(a @ b, 0), rtol=1e-5, atol=1e-5)


def test_inputs_of_expressions_are_found_in_operand_order() -> None:
    a, b = (te.placeholder((4,), name=name) for name in "ab")
    total = te.compute((4,), lambda i: b[i] - a[i], name="total")
    model = load(te.compute((4,), lambda i: total[i] * a[i], name="out"))
    assert [spec.name for spec in model.inputs] == ["b", "a"]
    b_value, a_value = model.example_inputs()
    np.testing.assert_allclose(run_tvm(model, [b_value, a_value])[0], (b_value - a_value) * a_value, rtol=1e-6)


def test_a_stage_with_two_results_is_one_call() -> None:
    a = te.placeholder((4, 8), name="a")
    more, double = te.compute((4, 8), lambda i, j: (a[i, j] + 1.0, a[i, j] * 2.0), name="pair")
    last = te.compute((4, 8), lambda i, j: more[i, j] * double[i, j], name="last")
    model = load([a, more, last])
    assert operators(model) == ["call_tir", "call_tir"]
    (value,) = model.example_inputs()
    first, product = run_tvm(model, [value])
    np.testing.assert_allclose(first, value + 1, rtol=1e-6)
    np.testing.assert_allclose(product, (value + 1) * value * 2, rtol=1e-5, atol=1e-6)


def test_expressions_of_symbolic_size_are_refused() -> None:
    n = te.var("n")
    a = te.placeholder((n, 4), name="a")
    out = te.compute((n, 4), lambda i, j: a[i, j] + 1.0, name="out")
    for batch in (None, 4):
        with pytest.raises(SymbolicShapeError, match=r"buffer 'a': dimension 'n' has no size; .* fixed size"):
            load([a, out], batch=batch)


def test_placeholders_alone_are_no_model() -> None:
    with pytest.raises(ModelError, match="only placeholders were given"):
        load([te.placeholder((4,), name="a")])


def test_a_tensor_program_alone(programs: str) -> None:
    model = load(f"{programs}:Triple")
    assert [spec.name for spec in model.inputs] == ["a"]
    (a,) = model.example_inputs()
    np.testing.assert_array_equal(run_tvm(model, [a])[0], a * np.float32(3))
    program = model.module[next(g for g in model.module.get_global_vars() if g.name_hint != "main")]
    assert isinstance(program, tvm.tirx.PrimFunc)
    assert "global_symbol" not in program.attrs
    with pytest.raises(ModelError, match="must write its last buffers"):
        load(f"{programs}:OutputFirst")
    with pytest.raises(ModelError, match=r"holds 2 IRModules \(Triple, OutputFirst\)"):
        load(programs)


def test_errors_name_file_and_reason(functions: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no such file"):
        load(str(tmp_path / "missing.py"))
    with pytest.raises(ModelError, match=r"failed .RuntimeError: no weights"):
        load(f"{functions}:failing")
    with pytest.raises(ModelError, match=r"called without arguments, failed .TypeError"):
        load(f"{functions}:with_argument")
    with pytest.raises(ModelError, match="type int; a Relax IRModule or TE tensors were expected"):
        load(f"{functions}:number")
    with pytest.raises(ModelError, match="has no 'densee', only dense, failing"):
        load(f"{functions}:densee")
    with pytest.raises(ModelError, match=r"holds 0 IRModules \(none\), one was expected"):
        load(functions)
    (tmp_path / "syntax.py").write_text("def f(:\n")
    with pytest.raises(ModelError, match=r"cannot be run .SyntaxError"):
        load(str(tmp_path / "syntax.py"))


def test_what_is_no_model_at_all_lists_what_would_be() -> None:
    with pytest.raises(ModelError, match=r"'enkoder' is not a model; expected .*\.onnx.*Built-in models: gelu"):
        load("enkoder")
    with pytest.raises(ModelError, match="an object of type dict is not a model"):
        load({})
