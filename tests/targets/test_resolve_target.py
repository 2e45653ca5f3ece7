"""A name becomes a target of this machine, or one clear line."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys

import pytest

from workbench.errors import TargetError
from workbench.targets import llvm, resolve
from workbench.targets.host import DEFAULT_CACHES, Host
from workbench.targets.resolve import _nominal_gflops


def test_llvm_means_this_machine() -> None:
    target = resolve("llvm")
    assert target.kind == "llvm"
    assert 1 <= target.threads == target.cores <= len(os.sched_getaffinity(0))
    assert target.mcpu in llvm.known_cpus()
    assert set(target.features) <= llvm.host_features()
    assert target.vector_bits in (128, 256, 512)
    assert 8 << 10 <= target.caches.l1 <= target.caches.l2 <= target.caches.l3
    assert target.peak_gflops > 1
    assert target.peak_gbps == 10 * target.threads
    assert not target.peaks_measured
    assert pickle.loads(pickle.dumps(target)) == target


def test_core_count_is_filled_in_so_that_a_search_space_can_be_made() -> None:
    from workbench.tvm_seam import tvm

    tvm_target = tvm.target.Target(resolve("llvm").tvm_dict())
    assert int(tvm_target.attrs["num-cores"]) == resolve("llvm").cores


@pytest.mark.parametrize("name", ["llvm:x86-64-v2", "llvm -mcpu=x86-64-v2", "llvm -mcpu x86-64-v2"])
def test_three_spellings_of_a_processor(name: str) -> None:
    target = resolve(name)
    assert target.mcpu == "x86-64-v2"
    assert target.vector_bits == 128
    assert target.key != resolve("llvm").key


def test_native_is_the_default() -> None:
    assert resolve("llvm -mcpu=native") == resolve("llvm")


def test_exact_math_is_another_key() -> None:
    assert resolve(exact_math=True).exact_math
    assert resolve(exact_math=True).key != resolve().key


def test_a_processor_that_this_machine_lacks_names_the_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm, "host_features", lambda: frozenset({"avx", "avx2", "fma", "sse2"}))
    with pytest.raises(TargetError, match=r"lacks .*amx-tile.*avx512f.*sapphirerapids"):
        resolve("llvm -mcpu=sapphirerapids")


def test_a_machine_that_hides_its_vectors_gets_a_generic_level(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = llvm.cpu_features("x86-64-v3")
    monkeypatch.setattr(llvm, "host_features", lambda: allowed)
    monkeypatch.setattr(llvm, "_call", _pretend_sapphire_rapids(llvm._call))
    llvm.host_cpu.cache_clear()
    try:
        assert llvm.host_cpu() == "x86-64-v3"
    finally:
        llvm.host_cpu.cache_clear()


def _pretend_sapphire_rapids(real):
    return lambda name, *args: "sapphirerapids" if name == "target.llvm_get_system_cpu" else real(name, *args)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("llvm:skylake-avx51", r"knows no processor 'skylake-avx51'; near names: skylake-avx512"),
        ("cuda", "NVIDIA GPU with TVM's CUDA runtime"),
        ("nvidia/nvidia-h100", "NVIDIA GPU with TVM's CUDA runtime"),
        ("rocm", r"tunes for llvm \(CPU\) only"),
        ("lvm", "did you mean 'llvm'"),
        ("toaster", "is not known; expected"),
        ("", "cannot be read"),
        ('llvm "', "cannot be read"),
        ("llvm -mattr=+avx2", "option -mattr"),
        ("llvm -mcpu", "not an option with a value"),
        ("llvm haswell", "'haswell' is not an option"),
    ],
)
def test_what_cannot_be_used_is_one_clear_line(name: str, message: str) -> None:
    with pytest.raises(TargetError, match=message) as caught:
        resolve(name)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("threads", [0, -1, 100_000])
def test_a_wrong_thread_number_is_refused_with_advice(threads: int) -> None:
    with pytest.raises(TargetError, match=r"give 1 to \d+"):
        resolve(threads=threads)


def test_core_count_of_a_target_string_is_checked_as_well() -> None:
    assert resolve("llvm -num-cores=1").threads == 1
    with pytest.raises(TargetError, match="give 1 to"):
        resolve("llvm -num-cores=100000")


def test_affinity_is_honoured() -> None:
    program = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "from workbench.targets.host import describe_host; print(describe_host().cores)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"


def test_nominal_peak_counts_lanes_units_and_cores() -> None:
    host = Host("x", cores=4, clock_hz=3e9, caches=DEFAULT_CACHES)
    assert _nominal_gflops(host, 4, "haswell", 256) == pytest.approx(4 * 3 * 8 * 2 * 2)
    assert _nominal_gflops(host, 1, "skylake-avx512", 512) == pytest.approx(3 * 16 * 2 * 2)


def test_importing_targets_does_not_import_tvm() -> None:
    program = "import sys, workbench.targets; print('tvm' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
