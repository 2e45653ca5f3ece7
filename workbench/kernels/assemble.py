"""Kernels -> one program: the virtual machine's code around a shared library of the kernels.

No code is generated here: every ``call_tir`` of the lowered ``main`` becomes a call of a kernel's symbol, and the
constants that a kernel wants re-packed are packed once, now.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import KernelError
from ..targets import Target
from ..tvm_seam import GenericConst, relax, tvm
from .build import PREPACK_SUFFIX, link, load_library, tvm_target
from .kernel import Kernel
from .tvm_errors import TVM_ERRORS, one_line
from .workload import LoweredModel


@dataclass(frozen=True, eq=False)
class Assembled:
    """``executable``: TVM's VM executable, which finds the kernels in ``library``. ``kernels``: one a symbol."""

    executable: Any
    library: Any
    kernels: tuple[Kernel, ...]
    module: Any  # the Relax module that was compiled; exporting compiles it again without the library


def assemble_program(lowered: LoweredModel, target: Target, kernels: Mapping[str, Kernel]) -> Assembled:
    """Links the kernels (by workload key) and compiles the lowered ``main`` around them.

    Raises KernelError for a missing kernel, or when TVM cannot compile ``main``; SetupError without a linker.
    """
    missing = [workload.label for key, workload in lowered.workloads.items() if key not in kernels]
    if missing:
        raise KernelError(f"{lowered.name}: no kernel for {', '.join(missing[:3])}; build every workload first")
    used = tuple({kernels[key].symbol: kernels[key] for key in lowered.workloads}.values())
    library = _link_and_load(used)
    module = _external_calls(lowered, kernels, library)
    executable = compile_main(module, target, [library] if library is not None else [])
    return Assembled(executable, library, used, module)


def _link_and_load(kernels: Sequence[Kernel]) -> Any | None:
    """The kernels as one loaded library; None for a model without kernels (reshapes only)."""
    if not kernels:
        return None
    with tempfile.TemporaryDirectory(prefix="workbench-") as folder:
        # The operating system keeps a loaded library's pages after the file is gone.
        return load_library(link(kernels, Path(folder, "kernels.so")))


def compile_main(module: Any, target: Target, libraries: Sequence[Any]) -> Any:
    """TVM's VM executable of a module whose ``main`` calls external kernels and reshapes only."""
    # TVM's default_build pipeline without what makes or changes tensor programs: there are none left.
    passes = tvm.transform.Sequential(
        [
            relax.transform.ToNonDataflow(),
            relax.transform.RemovePurityChecking(),
            relax.transform.CallTIRRewrite(),
            relax.transform.StaticPlanBlockMemory(),
            relax.transform.LowerAllocTensor(),
            relax.transform.KillAfterLastUse(),
            relax.transform.LowerRuntimeBuiltin(),
            relax.transform.ComputePrimValue(),
            relax.transform.VMShapeLower(),
            relax.transform.AttachGlobalSymbol(),
        ]
    )
    try:
        with tvm_target(target):
            prepared = passes(module)
            builder = relax.ExecBuilder()
            rest = relax.vm_build._vmcodegen(builder, prepared)
            programs = relax.vm_build._filter_tir(rest)
            return relax.vm_build._vmlink(builder, tvm_target(target), programs, ext_libs=list(libraries))
    except TVM_ERRORS as error:
        raise KernelError(f"the lowered main cannot be compiled: {one_line(error)}") from error


def _external_calls(lowered: LoweredModel, kernels: Mapping[str, Kernel], library: Any) -> Any:
    """``main`` with every ``call_tir`` replaced by a call of its kernel, constants packed as the kernel wants them."""
    workload_of = {call.function: call.workload for call in lowered.calls}
    packer = _Packer(library)
    main = lowered.module["main"]
    builder = relax.BlockBuilder()
    blocks = []
    for block in main.body.blocks:
        bindings = []
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, relax.Call) and getattr(value.op, "name", "") == "relax.call_tir":
                kernel = kernels[workload_of[value.args[0].name_hint]]
                arguments = packer.arguments(kernel, list(value.args[1].fields))
                results = (
                    list(binding.var.ty.fields) if isinstance(binding.var.ty, tvm.ir.TupleType) else binding.var.ty
                )
                value = builder.normalize(relax.call_dps_packed(kernel.symbol, relax.Tuple(arguments), results))
            bindings.append(relax.VarBinding(binding.var, value))
        blocks.append(type(block)(bindings))
    body = relax.SeqExpr(blocks, main.body.body)
    function = relax.Function(list(main.params), body, main.ret_ty, is_pure=main.is_pure, attrs=main.attrs)
    return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})


class _Packer:
    """Packs constants for kernels; the same constant for the same kernel once."""

    def __init__(self, library: Any) -> None:
        self.library = library
        self.done: dict[tuple[Any, ...], list[Any]] = {}

    def arguments(self, kernel: Kernel, arguments: list[Any]) -> list[Any]:
        """The arguments with the packed constants in the places of the originals."""
        if not kernel.packed:
            return arguments
        originals = [arguments[packed.index] for packed in kernel.packed]
        if not all(isinstance(original, GenericConst) for original in originals):
            raise KernelError(f"kernel {kernel.symbol} packs an argument that is no constant; clear the kernel cache")
        key = (kernel.symbol, *originals)
        if key not in self.done:
            self.done[key] = self._pack(kernel, originals)
        result = list(arguments)
        for packed, constant in zip(kernel.packed, self.done[key], strict=True):
            result[packed.index] = constant
        return result

    def _pack(self, kernel: Kernel, originals: Sequence[Any]) -> list[Any]:
        results = [tvm.runtime.empty(packed.shape, packed.dtype) for packed in kernel.packed]
        try:
            self.library[kernel.symbol + PREPACK_SUFFIX](*[original.value for original in originals], *results)
        except TVM_ERRORS as error:
            raise KernelError(f"kernel {kernel.symbol} cannot pack its constants: {one_line(error)}") from error
        return [relax.const(result, packed.dtype) for result, packed in zip(results, kernel.packed, strict=True)]
