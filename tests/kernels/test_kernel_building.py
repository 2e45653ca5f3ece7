"""From a scheduled module to a library: symbols, re-packed constants, linking."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_models import DEFAULT, build, constant, model_of, target, tensor, variants

from workbench.errors import KernelError, SetupError
from workbench.kernels import compile_model, schedule_workload
from workbench.kernels.build import PREPACK_SUFFIX, build_kernel, find_linker, kernel_symbol, link, load_library
from workbench.kernels.schedule import trace_to_json
from workbench.kernels.workload import Workload
from workbench.models import Model
from workbench.store.record import ScheduleSpec
from workbench.tvm_seam import relax, tvm

R = relax.op


def dense() -> Model:
    def body(emit: Any, x: Any) -> Any:
        return emit(R.nn.relu(emit(R.add(emit(R.matmul(x, constant((32, 48), 1))), constant((48,), 2)))))

    return model_of([tensor("x", (16, 32))], body)


def dense_workload() -> Workload:
    [workload] = variants(dense())["joined"].workloads.values()
    return workload


def packing_trace(workload: Workload) -> ScheduleSpec:
    """The first schedule that MetaSchedule's own rules give; its RewriteLayout re-packs weights and bias."""
    from tvm.s_tir import meta_schedule as ms

    context = ms.TuneContext(
        workload.module,
        target=tvm.target.Target({"kind": "llvm", "num-cores": 2}),
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        num_threads=1,
        rand_state=3,
    )
    context.pre_tuning(
        max_trials=1,
        num_trials_per_iter=1,
        design_spaces=context.generate_design_space(),
        database=ms.database.MemoryDatabase(),
        cost_model=ms.cost_model.RandomModel(),
    )
    [candidate] = context.generate_measure_candidates()
    return ScheduleSpec("trace", "metaschedule", trace_to_json(candidate.sch.trace))


def test_a_tuned_trace_that_packs_weights_gives_the_same_result() -> None:
    model = dense()
    workload = dense_workload()
    spec = packing_trace(workload)
    lowered = variants(model)["joined"]
    [data] = model.example_inputs()
    plain = build(model, lowered)(data)
    kernel = build_kernel(workload, target(), spec, schedule_workload(workload, target(), spec))
    assert [packed.index for packed in kernel.packed] == [1, 2]
    assert kernel.packed[0].shape != (32, 48)
    assert int(np.prod(kernel.packed[0].shape)) == 32 * 48
    executable, _ = compile_model(lowered, model, target(), {workload.key: spec})
    weight, bias = (c.value.numpy() for c in _constants(model))
    expected = np.maximum(data.astype(np.float64) @ weight + bias, 0)
    np.testing.assert_allclose(executable(data), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(plain, expected, rtol=1e-5, atol=1e-5)


def _constants(model: Model) -> list[Any]:
    calls = [binding.value for binding in model.module["main"].body.blocks[0].bindings]
    return [arg for call in calls for arg in getattr(call, "args", []) if hasattr(arg, "value")]


def test_the_packing_function_alone_gives_what_the_kernel_reads(tmp_path: Path) -> None:
    workload = dense_workload()
    spec = packing_trace(workload)
    kernel = build_kernel(workload, target(), spec, schedule_workload(workload, target(), spec))
    library = load_library(link([kernel], tmp_path / "dense.so"))
    rng = np.random.default_rng(0)
    x, weight, bias = (rng.standard_normal(spec.shape).astype("float32") for spec in workload.args[:3])
    packed = [tvm.runtime.empty(argument.shape, argument.dtype) for argument in kernel.packed]
    originals = [tvm.runtime.tensor(weight), tvm.runtime.tensor(bias)]
    library[kernel.symbol + PREPACK_SUFFIX](*originals, *packed)
    assert np.array_equal(np.sort(packed[0].numpy().ravel()), np.sort(weight.ravel()))
    assert np.array_equal(np.sort(packed[1].numpy().ravel()), np.sort(bias.ravel()))
    result = tvm.runtime.empty((16, 48), "float32")
    library[kernel.symbol](tvm.runtime.tensor(x), *packed, result)
    np.testing.assert_allclose(
        result.numpy(), np.maximum(x.astype(np.float64) @ weight + bias, 0), rtol=1e-5, atol=1e-5
    )


def test_kernels_without_packing_have_one_function(tmp_path: Path) -> None:
    workload = dense_workload()
    kernel = build_kernel(workload, target(), DEFAULT, schedule_workload(workload, target(), DEFAULT))
    library = load_library(link([kernel], tmp_path / "plain.so"))
    assert kernel.packed == ()
    assert library.implements_function(kernel.symbol)
    assert not library.implements_function(kernel.symbol + PREPACK_SUFFIX)


def test_many_kernels_link_into_one_library(tmp_path: Path) -> None:
    def body(emit: Any, x: Any) -> Any:
        for step in range(12):
            x = emit(R.add(x, relax.const(float(step), "float32")))
        return x

    model = model_of([tensor("x", (4, 8))], body)
    lowered = variants(model)["unfused"]
    kernels = [
        build_kernel(workload, target(), DEFAULT, schedule_workload(workload, target(), DEFAULT))
        for workload in lowered.workloads.values()
    ]
    assert len({kernel.symbol for kernel in kernels}) == 12
    library = load_library(link([*kernels, kernels[0]], tmp_path / "many.so"))
    x = np.arange(32, dtype="float32").reshape(4, 8)
    for step, kernel in enumerate(kernels):
        result = tvm.runtime.empty((4, 8), "float32")
        library[kernel.symbol](tvm.runtime.tensor(x), result)
        np.testing.assert_array_equal(result.numpy(), x + step)


def test_a_symbol_depends_on_everything_that_decides_the_code() -> None:
    base = kernel_symbol("w", "t", "v", DEFAULT)
    assert base == kernel_symbol("w", "t", "v", DEFAULT)
    others = [
        kernel_symbol("x", "t", "v", DEFAULT),
        kernel_symbol("w", "u", "v", DEFAULT),
        kernel_symbol("w", "t", "z", DEFAULT),
        kernel_symbol("w", "t", "v", replace(DEFAULT, data={"tile": 4})),
    ]
    assert len({base, *others}) == 5
    assert base.isidentifier()


def test_no_linker_is_a_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match=r"no linker.*install") as caught:
        find_linker()
    assert "\n" not in str(caught.value)
    monkeypatch.setenv("CC", "/no/such/compiler")
    with pytest.raises(SetupError, match="/no/such/compiler"):
        find_linker()


def test_a_linker_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    workload = dense_workload()
    kernel = build_kernel(workload, target(), DEFAULT, schedule_workload(workload, target(), DEFAULT))
    with pytest.raises(SetupError, match="cannot link 1 kernels"):
        link([replace(kernel, code=b"this is no object file")], tmp_path / "broken.so")


def test_a_broken_library_is_a_kernel_error(tmp_path: Path) -> None:
    path = tmp_path / "broken.so"
    path.write_bytes(b"nothing")
    with pytest.raises(KernelError, match=r"broken\.so: cannot be loaded"):
        load_library(path)
