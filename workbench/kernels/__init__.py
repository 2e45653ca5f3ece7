"""Kernels: a fusion plan -> tensor programs -> an executable."""

from .cache import CacheReport
from .compile import assemble, compile_model
from .executable import Executable
from .greedy import lower_greedy
from .kernel import Kernel, KernelCache, PackedArgument
from .lower import lower
from .schedule import schedule_workload
from .workload import KernelCall, LoweredModel, Workload

__all__ = [
    "CacheReport", "Executable", "Kernel", "KernelCache", "KernelCall", "LoweredModel", "PackedArgument", "Workload",
    "assemble", "compile_model", "lower", "lower_greedy", "schedule_workload",
]  # fmt: skip
