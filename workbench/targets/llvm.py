"""What TVM's LLVM knows: processor names, their features, and which of them this machine has."""

from __future__ import annotations

import platform
import re
from functools import cache
from typing import Any

# Only instructions that the code generator may choose by itself count; a virtual machine often hides features of the
# processor that no kernel uses (memory protection keys, shadow stacks), which must not make its own name unusable.
_CODE = re.compile(
    r"(sse|ssse|avx|amx|fma|f16c|bmi|lzcnt|popcnt|movbe|adx|gfni|vaes|vpclmul|xop|tbm|3dnow|ndd|egpr"
    r"|neon|sve|sme|dotprod|i8mm|bf16|fullfp16|fp16fml|lse|rdm|crc$|v$|zv)"
)
_VECTOR = re.compile(r"(avx|amx|fma|f16c|neon|sve|dotprod|i8mm|bf16|fullfp16|v$|zv)")

# Generic levels, best first, for a virtual machine that hides part of its processor.
_GENERIC = {
    "x86_64": ("x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64"),
    "amd64": ("x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64"),
    "aarch64": ("generic",),
    "arm64": ("generic",),
}


def _call(name: str, *arguments: Any) -> Any:
    from ..tvm_seam import tvm

    return tvm.get_global_func(name)(*arguments)


def _tvm_target(mcpu: str | None) -> Any:
    from ..tvm_seam import tvm

    return tvm.target.Target({"kind": "llvm"} if mcpu is None else {"kind": "llvm", "mcpu": mcpu})


@cache
def version() -> str:
    """Major version of the LLVM inside TVM."""
    return str(_call("target.llvm_version_major"))


@cache
def known_cpus() -> tuple[str, ...]:
    """Every processor name of this architecture. LLVM takes any other name without a word and ignores it."""
    return tuple(sorted(str(name) for name in _call("target.llvm_get_cpu_archlist", _tvm_target(None))))


@cache
def cpu_features(mcpu: str) -> frozenset[str]:
    """Instruction-set features that code for ``mcpu`` may use."""
    found = _call("target.llvm_get_cpu_features", _tvm_target(mcpu))
    return frozenset(name for name in map(str, found) if _CODE.match(name))


@cache
def host_features() -> frozenset[str]:
    """Instruction-set features that this machine has, by asking the processor."""
    found = _call("tvm.codegen.llvm.GetHostCPUFeatures")
    return frozenset(str(name) for name, there in found.items() if bool(there) and _CODE.match(str(name)))


def missing_features(mcpu: str) -> tuple[str, ...]:
    """Features that code for ``mcpu`` may use and this machine lacks, sorted; such code would end in SIGILL."""
    host = host_features()
    return tuple(sorted(cpu_features(mcpu) - host)) if host else ()


@cache
def host_cpu() -> str:
    """LLVM's name of this machine's processor, or the best generic level where part of the processor is hidden."""
    name = str(_call("target.llvm_get_system_cpu"))
    choices = (name, *_GENERIC.get(platform.machine().lower(), ()))
    return next((choice for choice in choices if choice and not missing_features(choice)), "generic")


def vector_extensions(mcpu: str) -> tuple[str, ...]:
    """The vector features of ``mcpu``, sorted; they become part of the key of records and kernels."""
    return tuple(sorted(name for name in cpu_features(mcpu) if _VECTOR.match(name)))


def vector_bits(mcpu: str) -> int:
    """Bits of a vector register that code for ``mcpu`` uses. SVE and RVV are taken at their least width, 128."""
    found = _call("target.llvm_get_cpu_features", _tvm_target(mcpu))
    names = {str(name) for name in found}
    if "avx512f" in names and "prefer-256-bit" not in names:
        return 512
    return 256 if "avx" in names else 128
