"""Compiled models: inputs, the kernel cache, profiles, and libraries that TVM alone can load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_models import DEFAULT, MemoryCache, build, constant, model_of, plan_of, target, tensor, variants

from workbench.errors import InputError, KernelError
from workbench.graph import from_model
from workbench.kernels import CacheReport, assemble, compile_model, lower
from workbench.models import Model
from workbench.tvm_seam import relax

R = relax.op


def two_layers() -> Model:
    def body(emit: Any, x: Any) -> Any:
        hidden = emit(R.nn.relu(emit(R.matmul(x, constant((8, 16), 1)))))
        return relax.Tuple([emit(R.matmul(hidden, constant((16, 4), 2))), hidden])

    return model_of([tensor("x", (6, 8))], body)


def expected(model: Model, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    first, second = (constant(shape, seed).value.numpy() for shape, seed in (((8, 16), 1), ((16, 4), 2)))
    hidden = np.maximum(x.astype(np.float64) @ first, 0)
    return hidden @ second, hidden


def test_several_outputs_come_as_a_tuple() -> None:
    model = two_layers()
    [x] = model.example_inputs(2)
    for lowered in variants(model).values():
        results = build(model, lowered)(x)
        assert isinstance(results, tuple)
        for got, wanted in zip(results, expected(model, x), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_inputs_that_do_not_fit_are_named() -> None:
    model = two_layers()
    executable = build(model, variants(model)["unfused"])
    [x] = executable.example_inputs()
    with pytest.raises(InputError, match=r"2 inputs were given, 1 are needed: x\[6, 8\] float32"):
        executable(x, x)
    with pytest.raises(InputError, match=r"input 'x' must be x\[6, 8\] float32, not \[8, 6\] float32"):
        executable(x.T)
    with pytest.raises(InputError, match=r"not .* float64"):
        executable(x.astype("float64"))


def test_inputs_need_not_be_contiguous() -> None:
    model = two_layers()
    executable = build(model, variants(model)["unfused"])
    x = np.asfortranarray(np.random.default_rng(0).standard_normal((6, 8)).astype("float32"))
    np.testing.assert_allclose(executable(x)[0], expected(model, x)[0], rtol=1e-5, atol=1e-5)


def test_a_second_compilation_takes_every_kernel_from_the_cache() -> None:
    model = two_layers()
    lowered = variants(model)["unfused"]
    cache = MemoryCache()
    schedules = dict.fromkeys(lowered.workloads, DEFAULT)
    first, built = compile_model(lowered, model, target(), schedules, cache)
    second, found = compile_model(lowered, model, target(), schedules, cache)
    assert (built.hits, built.builds) == (0, 3)
    assert (found.hits, found.builds) == (3, 0)
    assert second.cache_report == found
    assert found.summary() == "every kernel was a hit (3 from the cache)"
    [x] = model.example_inputs()
    for one, other in zip(first(x), second(x), strict=True):
        np.testing.assert_array_equal(one, other)
    assert CacheReport(1, 2, 0.5).merge(CacheReport(3, 0, 0.0)) == CacheReport(4, 2, 0.5)


def test_a_missing_schedule_or_kernel_is_named() -> None:
    model = two_layers()
    lowered = variants(model)["unfused"]
    with pytest.raises(KernelError, match="no schedule was given for matmul"):
        compile_model(lowered, model, target(), {}, None)
    with pytest.raises(KernelError, match="no kernel for matmul"):
        assemble(lowered, model, target(), {})


def test_a_profile_has_one_row_a_call_in_order() -> None:
    model = two_layers()
    executable = build(model, variants(model)["unfused"])
    samples = executable.profile(executable.example_inputs(), 4)
    assert [call.ops for call in executable.calls] == [("matmul",), ("nn.relu",), ("matmul",)]
    assert [len(row) for row in samples] == [4, 4, 4]
    assert all(seconds > 0 for row in samples for seconds in row)


def test_prepared_runs_do_not_disturb_each_other() -> None:
    model = two_layers()
    executable = build(model, variants(model)["joined"])
    inputs = [model.example_inputs(seed) for seed in (1, 2)]
    runs = [executable.prepare(given) for given in inputs]
    for run in [*runs, *reversed(runs)]:
        run()
    np.testing.assert_allclose(executable(*inputs[0])[0], expected(model, inputs[0][0])[0], rtol=1e-5, atol=1e-5)


LOADER = """
import sys
import numpy as np
import tvm
from tvm import relax

assert not any(name.startswith("workbench") for name in sys.modules)
machine = relax.VirtualMachine(tvm.runtime.load_module(sys.argv[1]), tvm.cpu())
results = machine["main"](tvm.runtime.tensor(np.load(sys.argv[2])))
np.savez(sys.argv[3], *[result.numpy() for result in results])
"""


@pytest.mark.parametrize("name", ["unfused", "joined", "greedy"])
def test_an_exported_library_runs_in_a_process_of_its_own(name: str, tmp_path: Path) -> None:
    model = two_layers()
    executable = build(model, variants(model)[name])
    [x] = executable.example_inputs(5)
    path = executable.export(tmp_path / "net.so")
    np.save(tmp_path / "x.npy", x)
    command = [sys.executable, "-c", LOADER, str(path), str(tmp_path / "x.npy"), str(tmp_path / "y.npz")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    results = np.load(tmp_path / "y.npz")
    for got, own in zip((results["arr_0"], results["arr_1"]), executable(x), strict=True):
        np.testing.assert_array_equal(got, own)


def test_a_folder_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    model = two_layers()
    executable = build(model, variants(model)["joined"])
    with pytest.raises(InputError, match="cannot be written"):
        executable.export(tmp_path / "nowhere" / "net.so")


def test_a_model_without_kernels_runs() -> None:
    model = model_of([tensor("x", (4, 6))], lambda emit, x: emit(R.reshape(x, (2, 12))))
    graph = from_model(model)
    executable = build(model, lower(model, plan_of(graph), "unfused"))
    assert executable.calls == ()
    [x] = model.example_inputs()
    np.testing.assert_array_equal(executable(x), x.reshape(2, 12))


def test_it_displays_itself() -> None:
    model = two_layers()
    page = build(model, variants(model)["unfused"])._repr_html_()
    assert "unfused: 3 kernels" in page
    assert page.count("<tr>") == 4
