"""The operator table against ONNX Runtime: ONNX operators, imported to Relax and evaluated by the reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from reference_cases import graph_of
from tvm.relax.frontend.onnx import from_onnx

from workbench.reference import evaluate
from workbench.tvm_seam import relax


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _i(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def _f(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


# name: (operator, inputs, constants after them, attributes, number of outputs). None: an optional input left out.
CASES: dict[str, tuple[str, Sequence[Any], Sequence[Any], dict[str, Any], int]] = {
    "round": ("Round", [_f(0.5, 1.5, 2.5, -0.5, -1.5, 2.4)], [], {}, 1),
    "sign": ("Sign", [_f(-2, 0, 3)], [], {}, 1),
    "erf": ("Erf", [normal(20)], [], {}, 1),
    "softplus": ("Softplus", [normal(20)], [], {}, 1),
    "elu": ("Elu", [normal(20)], [], {"alpha": 0.7}, 1),
    "selu": ("Selu", [normal(20)], [], {}, 1),
    "hard sigmoid": ("HardSigmoid", [normal(20)], [], {"alpha": 0.3, "beta": 0.4}, 1),
    "prelu": ("PRelu", [normal(2, 3, 4)], [normal(3, 1, seed=1)], {}, 1),
    "clip NaN": ("Clip", [_f(np.nan, -3, 0.5, 9)], [np.float32(0), np.float32(6)], {}, 1),
    "maximum NaN": ("Max", [_f(np.nan, 1, 2), _f(1, np.nan, 3)], [], {}, 1),
    "minimum NaN": ("Min", [_f(np.nan, 1, 2), _f(1, np.nan, 3)], [], {}, 1),
    "integer division": ("Div", [np.array([7, 9, 8], np.int32), np.array([2, 4, 3], np.int32)], [], {}, 1),
    "fmod": ("Mod", [_f(-5.5, 5.5, 4), _f(2, -2, 3)], [], {"fmod": 1}, 1),
    "pow": ("Pow", [np.abs(normal(3, 4)) + 0.1, normal(4, seed=1)], [], {}, 1),
    "where": ("Where", [np.array([[True], [False]]), normal(2, 3), normal(3, seed=1)], [], {}, 1),
    "reduce mean": ("ReduceMean", [normal(2, 3, 4)], [_i(0, 2)], {"keepdims": 0}, 1),
    "reduce l2": ("ReduceL2", [normal(2, 3, 4)], [_i(1)], {"keepdims": 1}, 1),
    "reduce log sum exp": ("ReduceLogSumExp", [normal(2, 3, 4)], [_i(2)], {"keepdims": 1}, 1),
    "argmax ties": ("ArgMax", [_f(1, 3, 3, 2).reshape(1, 4)], [], {"axis": 1, "keepdims": 0}, 1),
    "cumsum": ("CumSum", [normal(3, 4)], [np.int64(1)], {}, 1),
    "cumsum exclusive": ("CumSum", [normal(3, 4)], [np.int64(0)], {"exclusive": 1}, 1),
    "top k": ("TopK", [normal(3, 6)], [_i(2)], {"axis": 1}, 2),
    "softmax": ("Softmax", [normal(2, 3, 4)], [], {"axis": 1}, 1),
    "log softmax": ("LogSoftmax", [normal(2, 3, 4)], [], {"axis": -1}, 1),
    "matmul": ("MatMul", [normal(2, 1, 3, 4), normal(5, 4, 6, seed=1)], [], {}, 1),
    "gemm": ("Gemm", [normal(4, 3)], [normal(5, 4, seed=1), normal(5, seed=2)],
             {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}, 1),
    "einsum": ("Einsum", [normal(2, 3, 4), normal(4, 5, seed=1)], [], {"equation": "bij,jk->bki"}, 1),
    "conv": ("Conv", [normal(2, 4, 9, 8)], [normal(6, 2, 3, 2, seed=1), normal(6, seed=2)],
             {"strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2], "group": 2}, 1),
    "conv 1d": ("Conv", [normal(2, 4, 9)], [normal(3, 4, 3, seed=1)], {"strides": [2], "pads": [1, 1]}, 1),
    "conv transpose": ("ConvTranspose", [normal(1, 4, 5, 6)], [normal(4, 3, 3, 3, seed=1)],
                       {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}, 1),
    "layer norm": ("LayerNormalization", [normal(3, 8)], [normal(8, seed=1), normal(8, seed=2)], {"epsilon": 1e-3}, 1),
    "instance norm": ("InstanceNormalization", [normal(2, 3, 4, 5)], [normal(3, seed=1), normal(3, seed=2)], {}, 1),
    "batch norm": ("BatchNormalization", [normal(2, 3, 4)],
                   [normal(3, seed=1), normal(3, seed=2), normal(3, seed=3), np.abs(normal(3, seed=4)) + 0.5], {}, 1),
    "max pool": ("MaxPool", [normal(1, 2, 9, 8)], [],
                 {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1], "ceil_mode": 1}, 1),
    "average pool": ("AveragePool", [normal(1, 2, 9, 8)], [],
                     {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 1, 0, 0]}, 1),
    "average pool with padding": ("AveragePool", [normal(1, 2, 9, 8)], [],
                                  {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 1, 0, 0],
                                   "count_include_pad": 1}, 1),
    "global average pool": ("GlobalAveragePool", [normal(2, 3, 4, 5)], [], {}, 1),
    "transpose": ("Transpose", [normal(2, 3, 4)], [], {"perm": [2, 0, 1]}, 1),
    "slice backwards": ("Slice", [normal(6, 7)], [_i(5, -1), _i(0, -6), _i(0, 1), _i(-2, -1)], {}, 1),
    "split": ("Split", [normal(7, 2)], [_i(2, 4, 1)], {"axis": 0}, 3),
    "tile": ("Tile", [normal(2, 3)], [_i(2, 3)], {}, 1),
    "expand": ("Expand", [normal(3, 1)], [_i(2, 3, 4)], {}, 1),
    "pad edge": ("Pad", [normal(3, 4)], [_i(1, 0, 2, 3)], {"mode": "edge"}, 1),
    "pad reflect": ("Pad", [normal(3, 5)], [_i(1, 0, 2, 3)], {"mode": "reflect"}, 1),
    "gather": ("Gather", [normal(5, 3)], [_i(4, 0, 2)], {"axis": 0}, 1),
    "gather elements": ("GatherElements", [normal(3, 4)], [_i(0, 2, 1, 0).reshape(1, 4)], {"axis": 0}, 1),
    "gather nd": ("GatherND", [normal(3, 4, 2)], [_i(0, 1, 2, 3).reshape(2, 2)], {}, 1),
    "gather nd batched": ("GatherND", [normal(2, 4, 3)], [_i(1, 3).reshape(2, 1)], {"batch_dims": 1}, 1),
    "scatter nd": ("ScatterND", [normal(5, 3)], [_i(4, 1).reshape(2, 1), normal(2, 3, seed=1)], {}, 1),
    "scatter elements": ("ScatterElements", [normal(3, 4)], [_i(0, 2, 1, 0).reshape(1, 4), normal(1, 4, seed=1)],
                         {"axis": 0}, 1),
    "one hot": ("OneHot", [_i(0, 2, 1)], [np.int64(4), _f(0, 1)], {"axis": -1}, 1),
    "trilu": ("Trilu", [normal(4, 5)], [np.int64(1)], {"upper": 1}, 1),
    "depth to space": ("DepthToSpace", [normal(1, 8, 3, 4)], [], {"blocksize": 2}, 1),
    "resize nearest": ("Resize", [normal(1, 2, 4, 5)], [None, None, _i(1, 2, 8, 7)],
                       {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, 1),
    "resize linear": ("Resize", [normal(1, 2, 4, 5)], [None, None, _i(1, 2, 9, 7)], {"mode": "linear"}, 1),
    "resize corners": ("Resize", [normal(1, 2, 4, 5)], [None, None, _i(1, 2, 9, 7)],
                       {"mode": "linear", "coordinate_transformation_mode": "align_corners"}, 1),
}  # fmt: skip


def _model(operator: str, inputs: Sequence[np.ndarray], constants: Sequence[Any], attrs: dict, outputs: int) -> Any:
    names = [f"x{i}" for i in range(len(inputs))]
    extra = ["" if c is None else f"c{i}" for i, c in enumerate(constants)]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(operator, [*names, *extra], results, **attrs)
    graph = helper.make_graph(
        [node],
        "case",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for n, x in zip(names, inputs, strict=True)
        ],
        [helper.make_tensor_value_info(r, TensorProto.UNDEFINED, None) for r in results],
        [numpy_helper.from_array(np.asarray(c), n) for n, c in zip(extra, constants, strict=True) if n],
    )
    for value in graph.output:
        value.ClearField("type")
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return onnx.shape_inference.infer_shapes(model)


def _runtime(model: Any, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {f"x{i}": x for i, x in enumerate(inputs)})


@pytest.mark.parametrize("name", CASES)
def test_operator_equals_onnxruntime(name: str) -> None:
    operator, inputs, constants, attrs, outputs = CASES[name]
    model = _model(operator, inputs, constants, attrs, outputs)
    expected = _runtime(model, inputs)
    module = relax.transform.FoldConstant()(from_onnx(model))
    got = evaluate(graph_of(module), inputs)
    assert len(got) == len(expected)
    for ours, theirs in zip(got, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)
