"""Scheduled module -> object file -> shared library -> loaded module."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from os import environ
from pathlib import Path
from typing import Any

from ..errors import KernelError, SetupError
from ..store.record import ScheduleSpec
from ..targets import Target
from ..tvm_seam import tvm, tvm_version
from . import elementary
from .kernel import Kernel
from .prepack import split_prepack
from .tvm_errors import TVM_ERRORS, one_line
from .workload import Workload

PREPACK_SUFFIX = "_prepack"


@lru_cache
def _tvm_target(description: str) -> Any:
    return tvm.target.Target(json.loads(description))


def tvm_target(target: Target) -> Any:
    """TVM's object for a target."""
    return _tvm_target(json.dumps(target.tvm_dict()))


def kernel_symbol(workload: str, target: str, tvm_package: str, schedule: ScheduleSpec) -> str:
    """A C name that differs whenever one of workload key, target key, TVM version and schedule does."""
    text = json.dumps([workload, target, tvm_package, schedule.to_json()], sort_keys=True)
    return "wb_" + hashlib.sha256(text.encode()).hexdigest()[:20]


def build_kernel(workload: Workload, target: Target, schedule: ScheduleSpec, module: Any) -> Kernel:
    """Compiles a scheduled module (function ``main``) into one object file.

    Blocks that re-pack constants become a function of their own, ``symbol + "_prepack"`` (see :mod:`.prepack`).
    Raises KernelError with TVM's reason on one line.
    """
    elementary.install(target.exact_math)
    symbol = kernel_symbol(workload.key, target.key, tvm_version(), schedule)
    try:
        kernel, prepack, packed = split_prepack(module["main"], workload.num_outputs)
        functions = {symbol: kernel.with_attr("global_symbol", symbol)}
        if prepack is not None:
            functions[symbol + PREPACK_SUFFIX] = prepack.with_attr("global_symbol", symbol + PREPACK_SUFFIX)
        code = compile_object(tvm.IRModule(functions), target)
    except TVM_ERRORS as error:
        raise KernelError(f"{workload.label}: TVM cannot build this schedule: {one_line(error)}") from error
    return Kernel(symbol, workload.key, target.key, tvm_version(), schedule, packed, code)


def compile_object(module: Any, target: Target) -> bytes:
    """The object file (ELF) of a module of scheduled functions."""
    library = tvm.tirx.build(module, target=tvm_target(target))
    with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
        path = Path(folder, "kernel.o")
        library.write_to_file(str(path), "o")
        return path.read_bytes()


def find_linker() -> list[str]:
    """The command that links a shared library, without inputs and output; the start-up check of the workbench.

    ``CC`` decides where it is set; else the first of cc, gcc, clang, g++, c++ and ld that is installed.
    Raises SetupError when there is none.
    """
    wanted = environ.get("CC")
    for name in [wanted] if wanted else ["cc", "gcc", "clang", "g++", "c++", "ld"]:
        path = shutil.which(name)
        if path is not None:
            # -nostartfiles: kernels have no constructors, and the C start-up objects may not be installed.
            return [path, "-shared"] if name == "ld" else [path, "-shared", "-fPIC", "-nostartfiles"]
    given = f"CC={wanted} is not installed" if wanted else "none of cc, gcc, clang, g++, c++ and ld is installed"
    raise SetupError(f"no linker: {given}; install one, for example with `apt-get install gcc`, or set CC")


def link(kernels: Sequence[Kernel], path: Path) -> Path:
    """Makes one shared library of the kernels' object files; equal symbols are linked once. Returns ``path``.

    TVM's context symbols, which every object carries, are weak and so may occur any number of times.
    """
    linker = find_linker()
    with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
        objects = []
        for symbol, code in {kernel.symbol: kernel.code for kernel in kernels}.items():
            objects.append(Path(folder, f"{symbol}.o"))
            objects[-1].write_bytes(code)
        command = [*linker, "-o", str(path), *map(str, objects), "-lm"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        reason = (result.stderr.strip().splitlines() or ["no message"])[-1]
        raise SetupError(f"{linker[0]} cannot link {len(objects)} kernels into {path}: {reason}; check the linker")
    return path


def load_library(path: Path) -> Any:
    """The TVM module of a linked library: ``module[symbol]`` is a callable that takes tensors.

    Raises KernelError when the library cannot be loaded.
    """
    try:
        return tvm.runtime.load_module(str(path))
    except (*TVM_ERRORS, OSError) as error:
        raise KernelError(f"{path}: cannot be loaded: {one_line(error)}; build it again") from error
