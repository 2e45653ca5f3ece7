"""PyTorch modules with example inputs, and saved exported programs (``.pt2``)."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.errors import InputError, ModelError, SetupError, UnsupportedOperator, WorkbenchError
from workbench.tvm_seam import relax, tvm

from ._base import Importer, Request
from ._finish import finish
from ._torch_ops import CONVERTERS
from .model import Model, SourceRun
from .symbols import bind_module
from .weights import require_finite

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram


class TorchImporter(Importer):
    """Reads an ``nn.Module`` (with example inputs), an ``ExportedProgram``, or the path of a saved one."""

    kind = "a PyTorch module with args=(example tensors), or a .pt2 file"

    def accepts(self, request: Request) -> bool:
        if request.text is not None:
            return request.text.endswith(".pt2")
        torch = sys.modules.get("torch")  # a torch object cannot exist before torch is imported
        return torch is not None and isinstance(request.source, (torch.nn.Module, torch.export.ExportedProgram))

    def read(self, request: Request) -> Model:
        program, source, name = _program(request)
        require_finite(_weights(program), source)
        _require_tensor_inputs(program, source)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = _translate(program, source)
        return finish(
            bind_module(module, request.batch, source),
            name=request.name or name,
            source=source,
            framework="pytorch",
            source_run=_source_run(program),
        )


def _program(request: Request) -> tuple[ExportedProgram, str, str]:
    """The exported program, what to call its source in messages, and the model's name."""
    if request.text is not None:
        return _saved(Path(request.text)), request.text, Path(request.text).stem
    import torch

    if isinstance(request.source, torch.export.ExportedProgram):
        return request.source, "ExportedProgram", "exported_program"
    assert isinstance(request.source, torch.nn.Module)
    kind = type(request.source).__name__
    if request.args is None:
        raise InputError(f"nn.Module {kind}: example inputs are missing; give them as args=(tensor, ...)")
    return _exported(request.source, request.args, f"nn.Module {kind}"), f"nn.Module {kind}", kind


def _saved(path: Path) -> ExportedProgram:
    try:
        import torch
    except ImportError:
        raise SetupError(f"{path}: reading .pt2 files needs PyTorch; run `pip install torch==2.13.0`") from None
    if not path.is_file():
        raise ModelError(f"{path}: there is no such file; give the path of a program saved by torch.export.save")
    try:
        with _without_torch_log():  # it logs the traceback of what is raised here anyway
            return torch.export.load(str(path))
    except Exception as error:  # zip, pickle, schema and version errors share no base class
        reason = " ".join(str(error).split())[:300]
        raise ModelError(
            f"{path}: not a program saved by torch.export.save ({type(error).__name__}: {reason}); save it again"
        ) from error


@contextmanager
def _without_torch_log() -> Iterator[None]:
    log = logging.getLogger("torch.export")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before


def _exported(module: torch.nn.Module, args: tuple[Any, ...], source: str) -> ExportedProgram:
    """Exports in inference mode, and leaves the module in the mode in which it came."""
    import torch

    training = [m for m in module.modules() if m.training]
    module.eval()
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            return torch.export.export(module, _distinct(args))
    except Exception as error:  # the exporter raises errors of many kinds, the module's own among them
        reason = " ".join(str(error).split())[:300]
        raise ModelError(f"{source}: torch.export cannot trace it ({type(error).__name__}: {reason})") from error
    finally:
        for submodule in training:
            submodule.training = True


def _distinct(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments without repetition: the exporter takes one tensor given twice for one input."""
    import torch
    from torch.utils import _pytree as pytree

    return pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, args)


def _weights(program: ExportedProgram) -> Iterator[tuple[str, np.ndarray]]:
    for name, tensor in [*program.named_parameters(), *program.named_buffers(), *program.constants.items()]:
        if hasattr(tensor, "detach"):
            yield name, to_numpy(tensor)


def _require_tensor_inputs(program: ExportedProgram, source: str) -> None:
    from torch.export.graph_signature import InputKind, TensorArgument

    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT and not isinstance(spec.arg, TensorArgument):
            raise ModelError(
                f"{source}: input '{spec.arg.name}' is not a tensor but {getattr(spec.arg, 'value', 'a number')}; "
                "wrap the module so that forward takes tensors only"
            )


def _translate(program: ExportedProgram, source: str) -> tvm.IRModule:
    """TVM's importer on the program as exported, or decomposed when it has operators that TVM does not know whole.

    The exported form keeps Linear, BatchNorm and SiLU whole; decomposition buries them under reshapes and broadcasts.
    """
    try:
        return _convert(program, source)
    except UnsupportedOperator as first:
        try:
            return _convert(program.run_decompositions(), source)
        except UnsupportedOperator as second:
            raise second from first


def _convert(program: ExportedProgram, source: str) -> tvm.IRModule:
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

    importer = ExportedProgramImporter()
    importer.convert_map.update({name: _bound(convert, importer) for name, convert in CONVERTERS.items()})
    for node in program.graph.nodes:
        if node.op == "call_function" and node.target.__name__ not in importer.convert_map:
            raise UnsupportedOperator(node.target.__name__, node.name, source)
    importer.convert_map = {name: _naming(convert, source) for name, convert in importer.convert_map.items()}
    try:
        return importer.from_exported_program(
            program,
            keep_params_as_input=False,
            unwrap_unit_return_tuple=True,
            no_bind_return_tuple=False,
            custom_convert_map=None,  # its entries would run without a name for their errors
        )
    except WorkbenchError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:300]
        raise ModelError(f"{source}: TVM cannot import this program ({type(error).__name__}: {reason})") from error


def _bound(convert: Callable[..., relax.Expr], importer: object) -> Callable[..., relax.Expr]:
    return lambda node: convert(node, importer)


def _naming(convert: Callable[..., relax.Expr], source: str) -> Callable[..., relax.Expr]:
    """The converter, whose errors name the operator and the node."""

    def named(node: Any) -> relax.Expr:
        try:
            return convert(node)
        except WorkbenchError:
            raise
        except Exception as error:  # converters raise whatever they like
            raise UnsupportedOperator(node.target.__name__, node.name, source) from error

    return named


def _source_run(program: ExportedProgram) -> SourceRun:
    def run(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        import torch
        from torch.utils import _pytree as pytree

        tensors = [from_numpy(array) for array in inputs]
        args, kwargs = pytree.tree_unflatten(tensors, program.call_spec.in_spec)
        with torch.no_grad():
            result = program.module()(*args, **kwargs)
        return [to_numpy(leaf) for leaf in pytree.tree_leaves(result) if leaf is not None]

    return run


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """A torch tensor as an array of the same dtype; bfloat16 by way of its bits."""
    import torch

    tensor = tensor.detach().cpu().contiguous()
    if tensor.dtype is torch.bfloat16:
        import ml_dtypes

        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def from_numpy(array: np.ndarray) -> torch.Tensor:
    """The reverse of :func:`to_numpy`; the tensor owns its memory."""
    import torch

    array = np.array(array, order="C")
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
