"""Expansions inside expansions: right, and of a size that compiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

from workbench.kernels import elementary
from workbench.tvm_seam import tvm, tvm_ffi

from tvm import te  # isort: skip

TARGET = {"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu(), "num-cores": 2}
ROWS, COLUMNS = 4, 32


def _like(x: Any, value: float) -> Any:
    return tvm.tirx.const(value, str(x.dtype if hasattr(x, "dtype") else x.ty.dtype))


def _chain(x: Any) -> Any:
    for _ in range(6):
        x = te.sigmoid(te.tanh(x) * _like(x, 2.0))
    return x


def _numpy_chain(x: np.ndarray) -> np.ndarray:
    for _ in range(6):
        x = special.expit(np.tanh(x) * 2.0)
    return x


def _clips(x: Any) -> Any:
    for step in range(16):
        x = te.min(te.max(x, _like(x, -1.5 + step * 0.1)) * _like(x, 0.9), _like(x, 1.4))
    return x


def _numpy_clips(x: np.ndarray) -> np.ndarray:
    for step in range(16):
        x = np.minimum(np.maximum(x, -1.5 + step * 0.1) * 0.9, 1.4)
    return x


CASES: dict[str, tuple[Callable, Callable]] = {
    "mish": (lambda x: te.tanh(te.log(te.exp(x) + _like(x, 1.0))) * x, lambda x: np.tanh(np.log1p(np.exp(x))) * x),
    "chain": (_chain, _numpy_chain),
    "clips": (_clips, _numpy_clips),
}


def _program(body: Callable, dtype: str, lanes: int, guarded: bool = False) -> tvm.IRModule:
    a = te.placeholder((ROWS, COLUMNS), dtype, name="A")
    if guarded:  # row -1 does not exist: what loads from it must stay inside its branch
        b = te.compute(a.shape, lambda i, j: tvm.tirx.if_then_else(i > 0, body(a[i - 1, j]), body(a[i, j])), name="B")
    else:
        b = te.compute(a.shape, lambda i, j: body(a[i, j]), name="B")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([a, b]))
    rows, columns = schedule.get_loops(schedule.get_sblock("B"))
    schedule.parallel(rows)
    if lanes > 1:
        schedule.vectorize(schedule.split(columns, [None, lanes])[1])
    return schedule.mod


def _run(module: tvm.IRModule, x: np.ndarray) -> np.ndarray:
    elementary.install()
    out = tvm.runtime.tensor(np.zeros_like(x))
    tvm.tirx.build(module, target=tvm.target.Target(TARGET))["main"](tvm.runtime.tensor(x), out)
    return out.numpy()


@pytest.mark.parametrize("lanes", [1, 8, 32])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-5), ("float16", 2e-2)])
@pytest.mark.parametrize("name", CASES)
def test_nested_functions_are_right(name: str, dtype: str, tolerance: float, lanes: int) -> None:
    body, expected = CASES[name]
    x = np.linspace(-3, 3, ROWS * COLUMNS).reshape(ROWS, COLUMNS).astype(dtype)
    found = _run(_program(body, dtype, lanes), x)
    np.testing.assert_allclose(found.astype("float64"), expected(x.astype("float64")), rtol=tolerance, atol=tolerance)


def test_nan_and_infinity_pass_through_temporaries() -> None:
    x = np.zeros((ROWS, COLUMNS), "float32")
    x[0, :3] = np.nan, np.inf, -np.inf
    with np.errstate(all="ignore"):
        expected = _numpy_clips(x.astype("float64"))
    np.testing.assert_allclose(_run(_program(_clips, "float32", 8), x), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("name", CASES)
def test_nested_functions_in_a_branch_are_right(name: str, lanes: int) -> None:
    body, expected = CASES[name]
    x = np.linspace(-2, 2, ROWS * COLUMNS).reshape(ROWS, COLUMNS).astype("float32")
    rows = np.concatenate([x[:1], x[:-1]]).astype("float64")
    found = _run(_program(body, "float32", lanes, guarded=True), x)
    np.testing.assert_allclose(found, expected(rows), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_loaded_outside_the_branch_that_guards_it(name: str) -> None:
    elementary.install()
    module = elementary._keep_nan_pass(elementary._expand_pass(_program(CASES[name][0], "float32", 1, guarded=True)))

    def removed(call: Any) -> Any:
        branches = isinstance(call.op, tvm.ir.Op) and call.op.name.endswith("if_then_else")
        return tvm.tirx.const(0, str(call.ty.dtype)) if branches else call

    def loads(body: Any) -> bool:
        lines = str(module["main"].with_body(body)).splitlines()
        return any("A[" in line for line in lines if "T.reads(" not in line)

    assert loads(module["main"].body)
    assert not loads(tvm_ffi.structural_map(module["main"].body, (tvm.ir.Call, removed), order="pre"))


def test_branches_inside_a_function_s_argument_are_right() -> None:
    """As split and concat leave them in a group: ``tanh(tanh(a) * (j < 16 ? exp(tanh(a)) : i < 2 ? tanh(a) : a))``."""

    def at(i: Any, j: Any, a: Any) -> Any:
        low = tvm.tirx.if_then_else(i < 2, te.tanh(a[i, j]), a[i, j])
        return te.tanh(te.tanh(a[i, j]) * tvm.tirx.if_then_else(j < 16, te.exp(te.tanh(a[i, j])), low))

    a = te.placeholder((ROWS, COLUMNS), "float32", name="A")
    program = te.create_prim_func([a, te.compute(a.shape, lambda i, j: at(i, j, a), name="B")])
    x = np.random.default_rng(0).standard_normal((ROWS, COLUMNS)).astype("float32")
    y = x.astype("float64")
    low = np.where(np.arange(ROWS)[:, None] < 2, np.tanh(y), y)
    expected = np.tanh(np.tanh(y) * np.where(np.arange(COLUMNS) < 16, np.exp(np.tanh(y)), low))
    np.testing.assert_allclose(_run(tvm.IRModule({"main": program}), x), expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("guarded", [False, True])
def test_no_argument_of_an_expansion_holds_another_one(guarded: bool) -> None:
    """LLVM's generator substitutes bound values once for each use, so nesting would multiply."""
    elementary.install()
    function = elementary._expand_pass(_program(_chain, "float32", 1, guarded))["main"]
    depths: list[int] = []
    tvm_ffi.structural_walk(function.body, (tvm.tirx.Let, lambda let: depths.append(_depth(let.value))))
    assert depths
    assert max(depths) <= 3  # the deepest single expansion


def _depth(expr: object) -> int:
    """Bindings inside an expression, wherever they stand."""
    found: list[object] = []
    tvm_ffi.structural_walk(expr, (tvm.tirx.Let, found.append))
    return len(found)
