"""Elementary functions in generated code against NumPy and SciPy in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from scipy import special

from workbench.kernels import elementary
from workbench.tvm_seam import relax, tvm

from tvm import te, topi  # isort: skip

LANES = (1, 8, 16)
REFERENCE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "tanh": np.tanh,
    "erf": special.erf,
    "sigmoid": special.expit,
}
SPECIAL = np.array(
    [
        np.nan,
        np.inf,
        -np.inf,
        0.0,
        -0.0,
        1e-45,
        -1e-45,
        1.1754944e-38,
        3.4028235e38,
        -3.4028235e38,
        88.72283,
        88.72284,
        -87.33654,
        -87.5,
        -103.9,
        -104.1,
        127.99999,
        128.0,
        -126.0,
        -149.0,
        7.9988117,
        -9.1,
        3.8325,
    ],
    dtype="float32",
)
TARGET = {"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu(), "num-cores": 2}


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    elementary.install()
    yield
    elementary.install()


def build(body: Callable, shape: tuple[int, ...], dtype: str, lanes: int = 1, inputs: int = 1) -> Callable:
    tensors = [te.placeholder(shape, dtype, name=f"X{i}") for i in range(inputs)]
    result = body(*tensors)
    schedule = tvm.s_tir.Schedule(te.create_prim_func([*tensors, result]))
    *inner, last = schedule.get_child_blocks(schedule.get_sblock("root"))
    for block in inner:
        schedule.compute_inline(block)
    if lanes > 1:
        schedule.vectorize(schedule.split(schedule.get_loops(last)[-1], [None, lanes])[1])
    library = tvm.compile(schedule.mod, target=tvm.target.Target(TARGET))
    out_shape = tuple(int(extent) for extent in result.shape)

    def run(*arrays: np.ndarray) -> np.ndarray:
        out = tvm.runtime.tensor(np.zeros(out_shape, dtype))
        library["main"](*(tvm.runtime.tensor(array) for array in arrays), out)
        return out.numpy()

    return run


def apply_function(name: str, argument: te.Tensor) -> te.Tensor:
    return te.compute(argument.shape, lambda *i: getattr(tvm.tirx, name)(argument[i]))


def arguments() -> np.ndarray:
    """Every 1024th float32 bit pattern (all exponents, both signs, NaNs) and a dense grid where functions bend."""
    with np.errstate(invalid="ignore"):
        patterns = np.arange(17, 2**32, 1024, dtype="uint64").astype("uint32").view("float32")
    dense = np.linspace(-130, 130, 2**20, dtype="float32")
    near_zero = np.linspace(-9, 9, 2**20, dtype="float32")
    values = np.concatenate([SPECIAL, patterns, dense, near_zero])
    return np.concatenate([values, np.zeros(-len(values) % 16, "float32")])


@pytest.mark.parametrize("name", sorted(elementary.MAX_ERRORS))
def test_error_is_within_the_stated_bound_over_all_of_float32(name: str) -> None:
    x = arguments()
    got = build(lambda a: apply_function(name, a), x.shape, "float32", 16)(x)
    with np.errstate(all="ignore"):
        exact = REFERENCE[name](x.astype("float64"))
        rounded = exact.astype("float32")
    assert np.array_equal(np.isnan(got), np.isnan(rounded))
    assert np.array_equal(np.isinf(got), np.isinf(rounded))
    assert np.array_equal(got[np.isinf(got)], rounded[np.isinf(rounded)])
    finite = np.isfinite(rounded)
    got, exact, rounded = got[finite].astype("float64"), exact[finite], rounded[finite]
    bound = elementary.MAX_ERRORS[name]
    error = np.abs(got - exact)
    large = (np.abs(exact) >= elementary.FLUSH) | (bound.absolute == 0)
    ulp = error / np.spacing(np.abs(rounded)).astype("float64")
    assert ulp[large].max() <= bound.ulp
    assert (error[large & (exact != 0)] / np.abs(exact[large & (exact != 0)])).max() <= bound.relative
    assert (error[~large] <= bound.absolute).all()
    if name in ("tanh", "erf"):
        assert np.abs(got).max() == 1.0


@pytest.mark.parametrize("name", sorted(elementary.MAX_ERRORS))
@pytest.mark.parametrize("lanes", LANES)
def test_special_values_scalar_and_vector(name: str, lanes: int) -> None:
    x = np.concatenate([SPECIAL, np.zeros(-len(SPECIAL) % 16, "float32")])
    got = build(lambda a: apply_function(name, a), x.shape, "float32", lanes)(x)
    with np.errstate(all="ignore"):
        want = REFERENCE[name](x.astype("float64")).astype("float32")
    np.testing.assert_allclose(got, want, rtol=elementary.MAX_ERRORS[name].relative, atol=elementary.FLUSH)


@pytest.mark.parametrize("name", sorted(elementary.MAX_ERRORS))
def test_float16_is_correctly_rounded_to_one_unit(name: str) -> None:
    x = np.arange(2**16, dtype="uint32").astype("uint16").view("float16")
    got = build(lambda a: apply_function(name, a), x.shape, "float16", 8)(x)
    with np.errstate(all="ignore"):
        want = REFERENCE[name](x.astype("float64")).astype("float16")
    np.testing.assert_allclose(got.astype("float64"), want.astype("float64"), rtol=2.0**-10, atol=2.0**-24)


@pytest.mark.parametrize("name", ["exp", "tanh", "erf", "sigmoid"])
def test_float64_keeps_double_precision(name: str) -> None:
    x = np.linspace(-20, 20, 400)
    got = build(lambda a: apply_function(name, a), x.shape, "float64")(x)
    np.testing.assert_allclose(got, REFERENCE[name](x), rtol=1e-14)


def test_exact_switches_to_the_c_library_and_back() -> None:
    def external(name: str) -> bool:
        tensor = te.placeholder((64,), "float32", name="A")
        schedule = tvm.s_tir.Schedule(te.create_prim_func([tensor, apply_function(name, tensor)]))
        block = schedule.get_child_blocks(schedule.get_sblock("root"))[-1]
        schedule.vectorize(schedule.split(schedule.get_loops(block)[-1], [None, 8])[1])
        source = tvm.compile(schedule.mod, target=tvm.target.Target(TARGET)).mod.inspect_source("asm")
        library_name = {"sigmoid": "exp", "tanh": "exp"}.get(name, name)
        return any(f"{library_name}f{suffix}" in source for suffix in ("@", "\n"))

    for name in sorted(elementary.MAX_ERRORS):
        elementary.install(exact=True)
        assert external(name), name
        elementary.install(exact=False)
        assert not external(name), name
    elementary.install(exact=True)
    x = np.linspace(-4, 4, 64, dtype="float32")
    got = build(lambda a: apply_function("erf", a), x.shape, "float32", 8)(x)
    np.testing.assert_allclose(got, special.erf(x.astype("float64")), rtol=3e-7)


def test_relax_operators_made_of_the_functions_call_no_library() -> None:
    x = relax.Var("x", relax.TensorType((32, 64), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.op.nn.softmax(x, axis=-1))
            y = builder.emit(relax.op.nn.gelu(y))
            y = builder.emit(relax.op.nn.gelu_tanh(y))
            y = builder.emit(relax.op.nn.silu(y))
            y = builder.emit_output(relax.op.sigmoid(y))
        builder.emit_func_output(y)
    executable = tvm.compile(builder.get(), target=tvm.target.Target(TARGET))
    source = next(m.inspect_source("asm") for m in executable.mod.imports if m.kind == "llvm")
    assert not any(f"{name}f" in source.replace("@", "").split() for name in ("exp", "tanh", "erf", "log"))
    data = np.random.default_rng(1).standard_normal((32, 64)).astype("float32")
    data[3, 5] = np.nan
    got = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(data)).numpy()
    want = special.softmax(data.astype("float64"), axis=-1)
    want = want * special.ndtr(want)
    want = 0.5 * want * (1 + np.tanh(np.sqrt(2 / np.pi) * (want + 0.044715 * want**3)))
    want = special.expit(want * special.expit(want))
    np.testing.assert_allclose(got, want, rtol=1e-6)
    assert np.isnan(got[3]).all()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("exact", [False, True])
def test_maximum_minimum_relu_and_clip_keep_nan(dtype: str, lanes: int, exact: bool) -> None:
    elementary.install(exact)
    a = np.array([np.nan, 1, np.nan, -1, 2, -0.5, np.inf, -np.inf] * 2, dtype)
    b = np.array([1, np.nan, np.nan, 3, -2, -0.5, np.nan, 5] * 2, dtype)
    for body, want in (
        (topi.maximum, np.maximum(a, b)),
        (topi.minimum, np.minimum(a, b)),
        (lambda x, y: topi.nn.relu(topi.add(x, y)), np.maximum(a + b, np.array(0, dtype))),
    ):
        np.testing.assert_array_equal(build(body, a.shape, dtype, lanes, 2)(a, b), want)
    np.testing.assert_array_equal(build(topi.nn.relu, a.shape, dtype, lanes)(a), np.maximum(a, np.array(0, dtype)))
    got = build(lambda x: topi.clip(x, -0.75, 1.5), a.shape, dtype, lanes)(a)
    np.testing.assert_array_equal(got, np.clip(a, -0.75, 1.5))


def test_reduction_to_the_maximum_keeps_nan_wherever_it_stands() -> None:
    x = np.random.default_rng(2).standard_normal((9, 9)).astype("float32")
    x[np.arange(8), np.arange(8)] = np.nan
    got = build(lambda a: topi.max(a, axis=1), x.shape, "float32")(x)
    np.testing.assert_array_equal(got, x.max(axis=1))


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("lanes", LANES)
def test_nan_differs_from_everything(dtype: str, lanes: int) -> None:
    a = np.array([np.nan, 1, np.nan, 2] * 4, dtype)
    b = np.array([np.nan, np.nan, 3, 2] * 4, dtype)

    def differs(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        one, zero = tvm.tirx.const(1, dtype), tvm.tirx.const(0, dtype)
        return te.compute(x.shape, lambda i: tvm.tirx.Select(tvm.tirx.NE(x[i], y[i]), one, zero))

    np.testing.assert_array_equal(build(differs, a.shape, dtype, lanes, 2)(a, b), (a != b).astype(dtype))
