"""Folding batch normalisation into a convolution's weights, against float64 and against the operators apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_models import assert_right, model_of, plan_of, tensor

from workbench.errors import KernelError
from workbench.graph import from_model
from workbench.kernels import lower
from workbench.models import Model
from workbench.tvm_seam import relax

R = relax.op


def const(array: np.ndarray) -> Any:
    return relax.const(array.astype("float32"), "float32")


def conv_bn(groups: int = 1, layout: str = "NCHW", escape: bool = False, weights_are_input: bool = False) -> Model:
    """conv2d, batch_norm with far from trivial statistics, relu; 8 channels in, 8 out."""
    rng = np.random.default_rng(7)
    per_group = 8 // groups
    weight = rng.standard_normal((8, per_group, 3, 3))
    gamma, beta, mean = rng.uniform(0.2, 3, 8), rng.standard_normal(8), rng.standard_normal(8) * 2
    variance = rng.uniform(0.05, 4, 8)
    kernel = "OIHW" if layout == "NCHW" else "HWIO"
    if layout == "NHWC":
        weight = weight.transpose(2, 3, 1, 0)
    shape = (1, 8, 6, 6) if layout == "NCHW" else (1, 6, 6, 8)

    def body(emit: Any, x: Any, *rest: Any) -> Any:
        w = rest[0] if rest else const(weight)
        conv = emit(R.nn.conv2d(x, w, padding=(1, 1), groups=groups, data_layout=layout, kernel_layout=kernel))
        axis = layout.index("C")
        statistics = [const(value) for value in (gamma, beta, mean, variance)]
        norm = emit(R.nn.batch_norm(conv, *statistics, axis=axis, epsilon=1e-3, training=False))
        result = emit(R.nn.relu(emit(relax.TupleGetItem(norm, 0))))
        return relax.Tuple([result, conv]) if escape else result

    inputs = [tensor("x", shape)] + ([tensor("w", weight.shape)] if weights_are_input else [])
    return model_of(inputs, body)


@pytest.mark.parametrize(("groups", "layout"), [(1, "NCHW"), (8, "NCHW"), (1, "NHWC")])
def test_folded_weights_give_the_same_result(groups: int, layout: str) -> None:
    model = conv_bn(groups, layout)
    graph = from_model(model)
    nodes = [node.id for node in graph.nodes]
    folded = lower(model, plan_of(graph, nodes, rewrite="fold_batchnorm"), "planned")
    [call] = folded.calls
    assert call.ops == ("nn.conv2d", "add", "nn.relu")
    assert call.nodes == tuple(nodes)
    assert_right(model, folded, model.example_inputs(1))


def test_weights_are_rounded_once_from_float64() -> None:
    model = conv_bn()
    graph = from_model(model)
    folded = lower(model, plan_of(graph, [node.id for node in graph.nodes], rewrite="fold_batchnorm"), "planned")
    binding = folded.module["main"].body.blocks[0].bindings[0]
    got_weight, got_shift = (argument.value.numpy() for argument in list(binding.value.args[1].fields)[1:])
    calls = [b.value for b in model.module["main"].body.blocks[0].bindings]
    weight = calls[0].args[1].value.numpy().astype(np.float64)
    gamma, beta, mean, variance = (a.value.numpy().astype(np.float64) for a in calls[1].args[1:5])
    scale = gamma / np.sqrt(variance + 1e-3)
    np.testing.assert_array_equal(got_weight, (weight * scale[:, None, None, None]).astype("float32"))
    np.testing.assert_array_equal(got_shift.ravel(), (beta - mean * scale).astype("float32"))


def test_the_operators_apart_keep_the_normalisation() -> None:
    model = conv_bn()
    graph = from_model(model)
    assert [call.ops for call in lower(model, plan_of(graph), "unfused").calls] == [
        ("nn.conv2d",),
        ("nn.batch_norm",),
        ("nn.relu",),
    ]
    assert_right(model, lower(model, plan_of(graph), "unfused"), model.example_inputs(1))


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (conv_bn(escape=True), "is read before its normalisation too"),
        (conv_bn(weights_are_input=True), "are no constants"),
        (model_of([tensor("x", (4, 4))], lambda emit, x: emit(R.exp(x))), "no nn.batch_norm"),
    ],
    ids=["convolution read elsewhere", "weights are an input", "nothing to fold"],
)
def test_what_cannot_be_folded_is_refused(model: Model, reason: str) -> None:
    graph = from_model(model)
    plan = plan_of(graph, [node.id for node in graph.nodes], rewrite="fold_batchnorm")
    with pytest.raises(KernelError, match=reason):
        lower(model, plan, "planned")
