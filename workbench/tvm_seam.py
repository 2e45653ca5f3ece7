"""The only place that knows TVM 0.27's oddities; everything else imports TVM through here.

``from workbench.tvm_seam import tvm, relax`` checks the installed versions first, since a wrong
``apache-tvm-ffi`` crashes the process instead of raising.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from .errors import SetupError

# apache-tvm-ffi 0.1.15 changed what ``save_json`` returns a pointer to: TVM 0.27 then segfaults in every database.
WORKING_VERSIONS = {"apache-tvm": "0.27.0.post1", "apache-tvm-ffi": "0.1.14.post1", "xgboost": "3.2"}
INTRINSICS = "tvm.s_tir.tensor_intrin"


def check_versions() -> None:
    """Raises SetupError when a package is missing or of a version that TVM cannot work with."""
    for package, wanted in WORKING_VERSIONS.items():
        try:
            found = metadata.version(package)
        except metadata.PackageNotFoundError:
            raise SetupError(f"package {package} is not installed; run `pip install '{package}=={wanted}'`") from None
        exact = wanted.count(".") >= 2
        if (found != wanted) if exact else (found.split(".")[:2] != wanted.split(".")):
            raise SetupError(
                f"{package} {found} does not work with this workbench, which needs {wanted}: "
                f"run `pip install '{package}=={wanted}{'' if exact else '.*'}'`"
            )


def stub_tensor_intrinsics() -> None:
    """Keeps MetaSchedule from parsing 500 tensor intrinsics (28 s a process); the LLVM target needs none of them."""
    sys.modules.setdefault(INTRINSICS, types.ModuleType(INTRINSICS))


def allow_all_cores() -> None:
    """Lets TVM's pool have every core of this process: by itself TVM counts two hardware threads as one core."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    os.environ.setdefault("TVM_NUM_THREADS", str(count))


@contextmanager
def without_torch() -> Iterator[None]:
    """Inside, an import of PyTorch fails as if it were not installed, unless somebody has imported it already.

    tvm_ffi imports it wherever it is installed, for conversions that nothing here uses: 2 s and 200 MB in this process
    and in each worker. A later ``import torch`` works as ever.
    """
    if "torch" in sys.modules:
        yield
        return
    sys.modules["torch"] = None  # type: ignore[assignment]  # what Python's import statement takes for "not there"
    try:
        yield
    finally:
        del sys.modules["torch"]


check_versions()
stub_tensor_intrinsics()
allow_all_cores()

with without_torch():
    import tvm
    import tvm_ffi
    from tvm import relax
    from tvm.ir.expr import GenericConst  # relax.Constant of older versions

__all__ = [
    "GenericConst", "check_versions", "own_core", "relax", "structural_json", "tvm", "tvm_ffi", "tvm_version",
    "use_threads",
]  # fmt: skip


def tvm_version() -> str:
    """The installed TVM's version, for keys and reports."""
    return metadata.version("apache-tvm")


@functools.cache
def register_dot_product_intrinsics() -> None:
    """Registers the x86 tensor intrinsics, which MetaSchedule's default rules name on a CPU with VNNI (1 s, once)."""
    package = sys.modules[INTRINSICS]
    package.__path__ = [str(Path(tvm.__file__).parent / "s_tir" / "tensor_intrin")]  # past its slow __init__
    importlib.import_module(f"{INTRINSICS}.x86")


def structural_json(node: object) -> str:
    """TVM's JSON of an object; equal for structurally equal objects made the same way."""
    return str(tvm.ir.save_json(node))


def use_threads(count: int) -> None:
    """Makes TVM's thread pool of this process ``count`` threads wide.

    The pool can shrink after it was made but not grow past what ``TVM_NUM_THREADS`` said then: SetupError.
    """
    tvm.get_global_func("runtime.NumThreads")()  # makes the pool as wide as it may ever be
    os.environ["TVM_NUM_THREADS"] = str(count)
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    tvm.get_global_func("runtime.config_threadpool")(1, count)
    if allowed is not None:  # TVM pins the calling thread, which new processes and the next target would inherit
        os.sched_setaffinity(0, allowed)
    running = tvm.get_global_func("runtime.NumThreads")()
    if running != count:
        raise SetupError(
            f"TVM's thread pool has {running} threads and cannot have {count}; "
            f"start the process with TVM_NUM_THREADS={count}"
        )


@contextmanager
def own_core() -> Iterator[None]:
    """Keeps the calling thread off the cores to which TVM pins its other workers (all but the first).

    TVM leaves the caller free to move. Beside a worker the two take turns: on two cores an empty parallel kernel then
    took 15.4 instead of 12.5 us a call.
    """
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    if len(allowed) < 2:
        yield
        return
    tvm.get_global_func("runtime.NumThreads")()  # the workers, made by now, must not inherit the caller's one core
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
