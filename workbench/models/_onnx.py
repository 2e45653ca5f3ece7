"""ONNX files."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from workbench.errors import ModelError, SetupError, UnsupportedOperator, WorkbenchError
from workbench.tvm_seam import relax, tvm

from ._base import Importer, Request
from ._finish import finish
from ._relax import static_shape
from .model import Model, SourceRun
from .symbols import Dimension, bind_shapes
from .weights import require_finite

if TYPE_CHECKING:
    import onnx

_log = logging.getLogger(__name__)


class OnnxImporter(Importer):
    """Reads ``.onnx`` files with TVM's importer, after the checks that it leaves out."""

    kind = "an .onnx file"

    def accepts(self, request: Request) -> bool:
        return request.text is not None and request.text.endswith(".onnx")

    def read(self, request: Request) -> Model:
        path = Path(str(request.text))
        source = str(request.text)
        proto = _open(path)
        shapes = bind_shapes(_input_shapes(proto, source), request.batch, source)
        require_finite(_initializers(proto, path), source)
        framework = "onnxruntime" if importlib.util.find_spec("onnxruntime") else "none"
        return finish(
            _convert(proto, shapes, source),
            name=request.name or path.stem,
            source=source,
            framework=framework,
            source_run=None if framework == "none" else _source_run(path),
            without_framework="onnxruntime is not installed, so the import was not compared; `pip install onnxruntime`",
        )


def _open(path: Path) -> onnx.ModelProto:
    """The checked file: valid for onnx, of a known opset, not empty, without control flow and unknown operators."""
    try:
        import onnx
        from onnx import inliner
    except ImportError:
        raise SetupError(f"{path}: reading ONNX files needs the package onnx; run `pip install onnx`") from None
    if not path.is_file():
        raise ModelError(f"{path}: there is no such file; give the path of an .onnx file")
    try:
        proto = onnx.load(str(path))
        _require_known_opset(proto, str(path))
        onnx.checker.check_model(str(path), full_check=True)
    except WorkbenchError:
        raise
    except Exception as error:  # protobuf, the checker and shape inference share no base class
        reason = " ".join(str(error).split())[:300]
        raise ModelError(f"{path}: not a valid ONNX file ({reason}); export the model again") from error
    if proto.functions:
        proto = inliner.inline_local_functions(proto)
    if not proto.graph.node or not proto.graph.output:
        raise ModelError(f"{path}: the graph is empty (no operators); export the model again")
    _require_known_operators(proto, str(path))
    return proto


def _require_known_opset(proto: onnx.ModelProto, source: str) -> None:
    from onnx import defs

    newest = defs.onnx_opset_version()
    for entry in proto.opset_import:
        if entry.domain in ("", "ai.onnx") and entry.version > newest:
            raise ModelError(
                f"{source}: opset {entry.version} is newer than {newest}, the newest that is known here; "
                "export the model with an older opset"
            )


def _require_known_operators(proto: onnx.ModelProto, source: str) -> None:
    """Also gives nameless nodes a name, so that errors can point at them."""
    from tvm.relax.frontend.onnx.onnx_frontend import _get_convert_map

    known = _get_convert_map()
    for index, node in enumerate(proto.graph.node):
        if not node.name:
            node.name = f"{node.op_type}_{index}"
        if node.op_type not in known and node.op_type != "Constant":
            raise UnsupportedOperator(node.op_type, node.name, source)


def _input_shapes(proto: onnx.ModelProto, source: str) -> dict[str, Sequence[Dimension]]:
    """Input name -> dimensions, a name for each that has no size; weights are no inputs."""
    weights = {tensor.name for tensor in proto.graph.initializer}
    shapes: dict[str, Sequence[Dimension]] = {}
    for value in proto.graph.input:
        if value.name in weights:
            continue
        if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
            raise ModelError(f"{source}: input '{value.name}' is not a tensor of known rank; export it with a shape")
        dims = value.type.tensor_type.shape.dim
        shapes[value.name] = [
            int(dim.dim_value) if dim.dim_value > 0 else dim.dim_param or f"{value.name}[{axis}]"
            for axis, dim in enumerate(dims)
        ]
    return shapes


def _initializers(proto: onnx.ModelProto, path: Path) -> list[tuple[str, np.ndarray]]:
    from onnx import numpy_helper

    return [(t.name, numpy_helper.to_array(t, base_dir=str(path.parent))) for t in proto.graph.initializer]


def _convert(proto: onnx.ModelProto, shapes: dict[str, tuple[int, ...]], source: str) -> tvm.IRModule:
    from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter

    class NamingImporter(ONNXGraphImporter):
        """TVM's importer, whose errors name the node."""

        def _convert_operator(self, op_name: str, inputs: Any, attrs: dict[str, Any], opset: int) -> relax.Expr:
            node = attrs.get("tvm_custom", {}).get("name", op_name)
            try:
                value = super()._convert_operator(op_name, inputs, attrs, opset)
            except Exception as error:  # converters raise whatever they like
                raise UnsupportedOperator(op_name, node, source) from error
            if _has_unknown_shape(value):
                raise UnsupportedOperator(f"{op_name} (its result's shape depends on data)", node, source)
            return value

    opset = next((e.version for e in proto.opset_import if e.domain in ("", "ai.onnx")), 1)
    importer = NamingImporter({n: list(s) for n, s in shapes.items()}, None, sanitize=True)
    printed = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
        warnings.simplefilter("ignore")  # about names that were made identifiers
        try:
            return importer.from_onnx(proto.graph, opset)
        except WorkbenchError:
            raise
        except Exception as error:
            reason = " ".join(str(error).split())[:300]
            raise ModelError(f"{source}: TVM cannot import this graph ({reason})") from error
        finally:
            if printed.getvalue():
                _log.debug("TVM's ONNX importer said: %s", printed.getvalue())


def _has_unknown_shape(value: Any) -> bool:
    """All inputs have static shapes, so a dimension that is still unknown depends on data."""
    ty = value.ty if isinstance(value, relax.Expr) else None
    return isinstance(ty, relax.TensorType) and static_shape(ty) is None


def _source_run(path: Path) -> SourceRun:
    sessions: list[Any] = []  # made when first used: a session holds a second copy of the weights

    def run(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        import onnxruntime

        if not sessions:
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 3
            sessions.append(onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]))
        names = [entry.name for entry in sessions[0].get_inputs()]
        return [np.asarray(out) for out in sessions[0].run(None, dict(zip(names, inputs, strict=True)))]

    return run
