"""The probe's kernels compute what they say, and its figures are ones that a machine can have."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from workbench.errors import KernelError
from workbench.measure import environment, probe
from workbench.measure import peaks as peaks_module
from workbench.measure.peaks import _array_bytes, _build, _peak
from workbench.measure.probe_kernels import multiply_add, triad
from workbench.targets import Caches, Target, resolve
from workbench.tvm_seam import tvm


@pytest.fixture(scope="module")
def target() -> Target:
    return resolve()


def test_figures_are_physically_possible(target: Target) -> None:
    peaks = probe(target)
    # 8 GHz, two units of the full vector width on every core: no CPU reaches that; a scalar loop stays below the least.
    most = target.threads * 8.0 * (target.vector_bits // 32) * 2 * 2
    assert 1.0 * target.threads < peaks.gflops < most
    assert 0.2 < peaks.gbps < 1000
    assert 0 < peaks.seconds < 60


def test_multiply_adds_really_happen(target: Target) -> None:
    start = np.linspace(-2, 3, target.threads * 48, dtype=np.float32).reshape(target.threads, 48)
    data = tvm.runtime.tensor(start)
    _build(multiply_add(target.threads, 48, 16, 5), target)(data)
    expected = start.astype(np.float64)
    for _ in range(5):
        expected = expected * 0.5 + 0.25
    np.testing.assert_allclose(data.numpy(), expected, rtol=1e-6, atol=1e-6)


def test_the_triad_really_moves_every_element(target: Target) -> None:
    elements = target.threads * 4096
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, elements)).astype(np.float32)
    arrays = [tvm.runtime.tensor(array) for array in (a, b, np.full(elements, np.nan, np.float32))]
    _build(triad(target.threads, elements, 16), target)(*arrays)
    np.testing.assert_allclose(arrays[2].numpy(), a.astype(np.float64) + 3 * b.astype(np.float64), rtol=1e-6, atol=1e-6)


def test_arrays_are_larger_than_the_last_cache_and_fit_in_memory(target: Target) -> None:
    size = _array_bytes(target)
    assert size > target.caches.l3 or size > 100 << 20
    assert size % (target.threads * 4096) == 0
    huge = dataclasses.replace(target, caches=Caches(1 << 15, 1 << 20, 4 << 30))
    assert _array_bytes(huge) <= 256 << 20


def test_a_target_that_cannot_be_built_is_one_clear_line(target: Target) -> None:
    with pytest.raises(KernelError, match="machine probe failed for") as caught:
        probe(dataclasses.replace(target, kind="llvm", mcpu=3))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


def test_a_low_figure_is_measured_again_and_the_highest_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(peaks_module.time, "sleep", pauses.append)
    figures = iter([50.0, 95.0, 80.0])
    assert _peak(lambda: next(figures), 100.0) == 95.0
    assert len(pauses) == 1
    figures = iter([50.0, 70.0, 60.0, 40.0, 99.0])
    assert _peak(lambda: next(figures), 100.0) == 70.0
    assert len(pauses) == 4


def test_environment_names_versions_and_state() -> None:
    found = environment()
    assert found["tvm"] == "0.27.0.post1"
    assert found["numpy"] == np.__version__
    assert set(found) >= {"tvm", "tvm_ffi", "xgboost", "numpy", "python", "os", "load_at_start", "affinity"}
    assert isinstance(found["load_at_start"], float)
