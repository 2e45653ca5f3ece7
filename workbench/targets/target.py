"""What a kernel is compiled for and timed on."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass


@dataclass(frozen=True)
class Caches:
    """Bytes of data cache: L1 and L2 of one core, L3 shared."""

    l1: int
    l2: int
    l3: int


@dataclass(frozen=True)
class Target:
    """A device with all that planning, search and the cache key need.

    ``peak_gflops`` (float32 fused multiply-add, all threads) and ``peak_gbps`` (main memory) are nominal
    figures until :func:`workbench.measure.probe` has measured them; ``peaks_measured`` says which.
    ``launch_us`` is what one kernel call costs before its first instruction.
    """

    kind: str  # "llvm"
    device: str  # CPU model name, as the operating system gives it
    mcpu: str  # LLVM's name of the processor
    features: tuple[str, ...]  # vector extensions in use, for example ("avx2", "fma", "avx512f")
    vector_bits: int
    cores: int
    threads: int
    caches: Caches
    llvm: str  # LLVM version that TVM carries
    peak_gflops: float
    peak_gbps: float
    peaks_measured: bool = False
    launch_us: float = 3.0
    exact_math: bool = False  # True: elementary functions are the C library's

    def with_peaks(self, gflops: float, gbps: float) -> Target:
        """The same target with measured peaks (GFLOP/s, GB/s)."""
        return dataclasses.replace(self, peak_gflops=gflops, peak_gbps=gbps, peaks_measured=True)

    def with_exact_math(self, exact: bool) -> Target:
        """The same target with (``False``, the default) or without vectorised elementary functions."""
        return dataclasses.replace(self, exact_math=exact)

    @property
    def key(self) -> str:
        """Identifies generated code: two targets with one key may share kernels and records.

        CPU model, processor name, features, core and thread count, LLVM version and the kind of elementary functions
        count; peaks do not.
        """
        math = "exact" if self.exact_math else "vector"
        features = "+".join(self.features)
        return f"{self.kind}/{self.device}/{self.mcpu}/{features}/c{self.cores}t{self.threads}/llvm{self.llvm}/{math}"

    def tvm_dict(self) -> dict[str, object]:
        """The dictionary that ``tvm.target.Target`` takes. ``num-cores`` is needed: MetaSchedule fails without it."""
        return {"kind": self.kind, "mcpu": self.mcpu, "num-cores": self.threads}
