"""From a target's name to a :class:`Target`, or to an error that says why not."""

from __future__ import annotations

import difflib
import shlex

from ..errors import TargetError
from . import llvm
from .host import Host, describe_host
from .target import Target

KNOWN = '"llvm" (this machine\'s CPU), "llvm -mcpu=NAME" or "llvm:NAME"'
GBPS_PER_CORE = 10.0  # nominal: what one core draws from two channels of DDR4; the probe measures the real figure
_OTHER_KINDS = ("cuda", "nvidia", "rocm", "metal", "vulkan", "opencl", "webgpu", "hexagon", "c", "nvptx")


def resolve(name: str = "llvm", *, threads: int | None = None, exact_math: bool = False) -> Target:
    """The target that ``name`` means on this machine.

    ``threads`` defaults to the physical cores that this process may use (affinity and container quota counted).
    Peaks are nominal: cores x clock x float32 lanes x 2 operations x FMA units, and 10 GB/s a core.

    >>> resolve("llvm").kind
    'llvm'

    Raises TargetError: an unknown target or processor, a processor whose features this machine lacks (kernels are
    measured here), a GPU, or a number of threads that cannot be used.
    """
    mcpu, asked_threads = _parse(name)
    host = describe_host()
    count = _check_threads(threads if threads is not None else asked_threads, host.cores)
    mcpu = _check_cpu(name, mcpu)
    bits = llvm.vector_bits(mcpu)
    return Target(
        kind="llvm",
        device=host.device,
        mcpu=mcpu,
        features=llvm.vector_extensions(mcpu),
        vector_bits=bits,
        cores=host.cores,
        threads=count,
        caches=host.caches,
        llvm=llvm.version(),
        peak_gflops=_nominal_gflops(host, count, mcpu, bits),
        peak_gbps=GBPS_PER_CORE * count,
        exact_math=exact_math,
    )


def _nominal_gflops(host: Host, threads: int, mcpu: str, bits: int) -> float:
    """Two FMA units of full width; those of Zen 4 have 256 bits and take a 512-bit operation in two halves."""
    width = min(bits, 256) if mcpu == "znver4" else bits
    return threads * host.clock_hz * (width // 32) * 2 * 2 / 1e9


def _parse(name: str) -> tuple[str | None, int | None]:
    """``llvm -mcpu=NAME -num-cores=N`` or ``llvm:NAME`` -> (processor or None, threads or None)."""
    try:
        words = shlex.split(name)
    except ValueError:
        words = []
    if not words:
        raise TargetError(f"target {name!r} cannot be read; expected {KNOWN}")
    kind, colon, short = words[0].partition(":")
    if kind != "llvm":
        raise _other_kind(name, kind)
    mcpu: str | None = short if colon else None
    threads: int | None = None
    for option, value in _options(name, words[1:]):
        if option == "mcpu":
            mcpu = value
        elif option == "num-cores" and value.isdigit():
            threads = int(value)
        else:
            raise TargetError(f"target {name!r}: option -{option}={value} is not used here; expected {KNOWN}")
    return mcpu, threads


def _options(name: str, words: list[str]) -> list[tuple[str, str]]:
    """``-a=b`` and ``-a b`` -> [("a", "b")]."""
    options: list[tuple[str, str]] = []
    rest = iter(words)
    for word in rest:
        option, equals, value = word.partition("=")
        value = value if equals else next(rest, "")
        if not option.startswith("-") or not value:
            raise TargetError(f"target {name!r}: {word!r} is not an option with a value; expected {KNOWN}")
        options.append((option.lstrip("-"), value))
    return options


def _other_kind(name: str, kind: str) -> TargetError:
    first = kind.split("/")[0]
    if first in ("cuda", "nvidia"):
        return TargetError(
            f"target {name!r}: CUDA kernels need an NVIDIA GPU with TVM's CUDA runtime, and this release tunes for "
            f"llvm (CPU) only; use --target llvm"
        )
    if first in _OTHER_KINDS:
        return TargetError(f"target {name!r}: this release tunes for llvm (CPU) only; expected {KNOWN}")
    near = difflib.get_close_matches(first, ("llvm", *_OTHER_KINDS), n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return TargetError(f"target {name!r} is not known; {hint}expected {KNOWN}")


def _check_threads(threads: int | None, cores: int) -> int:
    if threads is None:
        return cores
    if threads < 1:
        raise TargetError(f"{threads} threads cannot run a kernel; give 1 to {cores}, or none to use all {cores} cores")
    if threads > cores:
        raise TargetError(
            f"{threads} threads are more than the {cores} physical cores that this process may use; "
            f"give 1 to {cores} (more only makes timings noisy), or widen the CPU affinity or container quota"
        )
    return threads


def _check_cpu(name: str, mcpu: str | None) -> str:
    if mcpu in (None, "native"):
        return llvm.host_cpu()
    assert mcpu is not None
    known = llvm.known_cpus()
    if mcpu not in known:
        near = difflib.get_close_matches(mcpu, known, n=5, cutoff=0.5) or [llvm.host_cpu()]
        raise TargetError(
            f"target {name!r}: LLVM {llvm.version()} knows no processor '{mcpu}'; near names: {', '.join(near)}; "
            f"this machine is '{llvm.host_cpu()}'"
        )
    if missing := llvm.missing_features(mcpu):
        raise TargetError(
            f"target {name!r}: this machine's CPU lacks {', '.join(missing)}, which '{mcpu}' code may use, and kernels "
            f"are measured here; use 'llvm' (this machine is '{llvm.host_cpu()}')"
        )
    return mcpu
