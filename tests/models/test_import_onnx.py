"""ONNX files: equal to onnxruntime, and clear about what cannot be imported."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from imported import Encoder, operators, run_tvm
from onnx import TensorProto, helper, numpy_helper
from torch import nn

from workbench.errors import InputError, ModelError, SetupError, SymbolicShapeError, UnsupportedOperator
from workbench.measure.import_check import check_import
from workbench.models import Model, load


class ConvNet(nn.Module):
    """The activation between keeps the exporter from folding BatchNorm into the convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        nn.init.normal_(self.norm.running_mean)
        nn.init.uniform_(self.norm.running_var, 0.5, 2.0)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return F.silu(self.norm(F.relu(self.conv(x)))).flatten(1), x.double()


def export(
    module: nn.Module, args: tuple[torch.Tensor, ...], path: Path, dynamo: bool = False, **options: object
) -> str:
    kind: dict[str, object] = {"dynamo": True} if dynamo else {"dynamo": False, "opset_version": 17}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module.eval(), args, str(path), **kind, **options)  # type: ignore[arg-type]
    return str(path)


def graph_file(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto] | None = None,
    outputs: list[onnx.ValueInfoProto] | None = None,
    opset: int = 17,
    initializers: list[onnx.TensorProto] | None = None,
) -> str:
    matrix = [2, 3]
    graph = helper.make_graph(
        nodes,
        "g",
        inputs or [helper.make_tensor_value_info("x", TensorProto.FLOAT, matrix)],
        outputs or [helper.make_tensor_value_info("y", TensorProto.FLOAT, matrix)],
        initializers or [],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    proto.ir_version = 8
    onnx.save(proto, str(path))
    return str(path)


def assert_equals_onnxruntime(model: Model, seed: int = 0) -> None:
    inputs = model.example_inputs(seed)
    assert model.source_run is not None
    for got, wanted in zip(run_tvm(model, inputs), model.source_run(inputs), strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
    check = check_import(model, seed)
    assert (check.framework, check.ok) == ("onnxruntime", True), check


def test_a_convolution_with_batch_norm(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = load(export(ConvNet(), (torch.randn(1, 3, 8, 8),), tmp_path / "net.onnx"))
    assert model.name == "net"
    assert "nn.batch_norm" in operators(model)
    assert [spec.dtype for spec in model.outputs] == ["float32", "float64"]
    assert model.check.framework == "onnxruntime"
    assert model.check.ok is None
    assert_equals_onnxruntime(model)


@pytest.mark.parametrize("dynamo", [False, True])
def test_a_transformer_layer_from_both_exporters(tmp_path: Path, dynamo: bool) -> None:
    torch.manual_seed(0)
    path = export(Encoder(32, 4, 64), (torch.randn(1, 8, 32),), tmp_path / "encoder.onnx", dynamo)
    model = load(path, name="mine")
    assert model.name == "mine"
    assert operators(model).count("matmul") == 8
    assert operators(model).count("permute_dims") <= 5  # the weights' transposes are folded
    assert_equals_onnxruntime(model)


def test_weights_in_a_file_of_their_own(tmp_path: Path) -> None:
    weight = np.arange(12, dtype="float32").reshape(3, 4)
    tensor = numpy_helper.from_array(weight, "w")
    path = graph_file(
        tmp_path / "external.onnx",
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        outputs=[helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])],
        initializers=[tensor],
    )
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert (tmp_path / "weights.bin").stat().st_size >= weight.nbytes
    model = load(path)
    (x,) = model.example_inputs()
    np.testing.assert_allclose(run_tvm(model, [x])[0], x @ weight, rtol=1e-5, atol=1e-5)


def test_a_symbolic_batch_is_bound_everywhere(tmp_path: Path) -> None:
    torch.manual_seed(0)
    axes = {"x.in": {0: "N"}}
    path = export(ConvNet(), (torch.randn(2, 3, 8, 8),), tmp_path / "d.onnx", input_names=["x.in"], dynamic_axes=axes)
    with pytest.raises(SymbolicShapeError, match="'N' has no size; give a size with --batch N"):
        load(path)
    model = load(path, batch=3)
    assert model.inputs[0].shape == (3, 3, 8, 8)
    assert model.outputs[0].shape == (3, 512)
    assert_equals_onnxruntime(model)
    with pytest.raises(InputError, match="batch 0"):
        load(path, batch=0)


def test_other_symbols_are_named(tmp_path: Path) -> None:
    axes = {"x": {0: "N", 2: "H", 3: "W"}}
    path = export(ConvNet(), (torch.randn(2, 3, 8, 8),), tmp_path / "hw.onnx", input_names=["x"], dynamic_axes=axes)
    with pytest.raises(SymbolicShapeError, match="'H' has no size; it is axis 2 of input 'x', and only the batch"):
        load(path, batch=2)


def test_a_batch_must_agree_with_a_fixed_shape(tmp_path: Path) -> None:
    path = graph_file(tmp_path / "relu.onnx", [helper.make_node("Relu", ["x"], ["y"])])
    assert load(path, batch=2).inputs[0].shape == (2, 3)
    with pytest.raises(InputError, match="batch 5 was given, but the leading dimension is fixed at 2"):
        load(path, batch=5)


def test_integers_are_imported_and_compared_exactly(tmp_path: Path) -> None:
    integers = [helper.make_tensor_value_info("x", TensorProto.INT8, [2, 3])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.INT8, [2, 3])]
    nodes = [helper.make_node("Mul", ["x", "x"], ["sq"]), helper.make_node("Mul", ["sq", "x"], ["y"])]
    model = load(graph_file(tmp_path / "int.onnx", nodes, integers, outputs))
    (x,) = model.example_inputs()
    assert model.source_run is not None
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(run_tvm(model, [x])[0], x * x * x)  # 7 cubed wraps


def test_double_weights_keep_their_precision(tmp_path: Path) -> None:
    third = numpy_helper.from_array(np.full((2, 3), 1 / 3), "w")
    double = [helper.make_tensor_value_info("x", TensorProto.DOUBLE, [2, 3])]
    out = [helper.make_tensor_value_info("y", TensorProto.DOUBLE, [2, 3])]
    node = helper.make_node("Add", ["x", "w"], ["y"])
    model = load(graph_file(tmp_path / "double.onnx", [node], double, out, initializers=[third]))
    (x,) = model.example_inputs()
    np.testing.assert_array_equal(run_tvm(model, [x])[0], x + 1 / 3)


def test_broken_files_are_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no such file"):
        load(str(tmp_path / "missing.onnx"))
    broken = tmp_path / "broken.onnx"
    for content in (b"", b"garbage" * 10):
        broken.write_bytes(content)
        with pytest.raises(ModelError, match=r"not a valid ONNX file.*export the model again") as caught:
            load(str(broken))
        assert "\n" not in str(caught.value)
    relu = helper.make_node("Relu", ["x"], ["y"])
    with pytest.raises(ModelError, match="not a valid ONNX file"):
        load(graph_file(tmp_path / "dangling.onnx", [helper.make_node("Relu", ["z"], ["y"])]))
    with pytest.raises(ModelError, match="not a valid ONNX file"):
        load(graph_file(tmp_path / "twice.onnx", [relu, relu]))
    with pytest.raises(ModelError, match="opset 99 is newer than"):
        load(graph_file(tmp_path / "future.onnx", [relu], opset=99))
    same = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])]
    with pytest.raises(ModelError, match="the graph is empty"):
        load(graph_file(tmp_path / "empty.onnx", [], outputs=same))


def test_a_truncated_file_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    export(ConvNet(), (torch.randn(1, 3, 8, 8),), path)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ModelError, match="not a valid ONNX file"):
        load(str(path))


def test_unsupported_operators_are_named_with_their_node(tmp_path: Path) -> None:
    square = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 3])]
    scalar = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])]
    node = helper.make_node("Det", ["x"], ["y"], name="the_determinant")
    with pytest.raises(UnsupportedOperator, match="operator 'Det' at node 'the_determinant'") as caught:
        load(graph_file(tmp_path / "det.onnx", [node], square, scalar))
    assert (caught.value.operator, caught.value.node) == ("Det", "the_determinant")
    unknown = [helper.make_tensor_value_info("y", TensorProto.INT64, [2, None])]
    node = helper.make_node("NonZero", ["x"], ["y"], name="where_not_zero")
    with pytest.raises(UnsupportedOperator, match=r"NonZero \(its result's shape.*at node 'where_not_zero'"):
        load(graph_file(tmp_path / "nonzero.onnx", [node], outputs=unknown))
    with pytest.raises(UnsupportedOperator, match="operator 'Det' at node 'Det_0'"):  # nameless nodes get a name
        load(graph_file(tmp_path / "nameless.onnx", [helper.make_node("Det", ["x"], ["y"])], square, scalar))


def test_a_weight_with_nan_is_named(tmp_path: Path) -> None:
    net = ConvNet()
    net.conv.weight.data[0, 0, 0, 0] = float("nan")
    with pytest.raises(ModelError, match=r"weight 'conv.weight' \[8, 3, 3, 3\] holds NaN \(1 of 216 entries\)"):
        load(export(net, (torch.randn(1, 3, 8, 8),), tmp_path / "nan.onnx"))


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = graph_file(tmp_path / "relu.onnx", [helper.make_node("Relu", ["x"], ["y"])])
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(SetupError, match="needs the package onnx; run `pip install onnx`"):
        load(path)


def test_without_onnxruntime_the_check_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = graph_file(tmp_path / "relu.onnx", [helper.make_node("Relu", ["x"], ["y"])])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    model = load(path)
    assert model.source_run is None
    assert (model.check.framework, model.check.ok) == ("none", None)
    assert "pip install onnxruntime" in model.check.message
