"""How much of a compilation came out of the kernel cache."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CacheReport:
    """Distinct kernels that were found in the cache, and that had to be built (seconds spent building)."""

    hits: int = 0
    builds: int = 0
    build_s: float = 0.0

    def merge(self, other: CacheReport) -> CacheReport:
        """Both together."""
        return CacheReport(self.hits + other.hits, self.builds + other.builds, self.build_s + other.build_s)

    def summary(self) -> str:
        """One line for people."""
        total = self.hits + self.builds
        if self.builds == 0:
            return f"every kernel was a hit ({total} from the cache)"
        return f"{self.hits} of {total} from the cache, {self.builds} built in {self.build_s:.1f} s"
