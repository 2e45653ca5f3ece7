"""Built-in models compute what PyTorch computes with the same weights."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from imported import (
    Attention,
    Encoder,
    LlamaBlock,
    MobileNetV2,
    ResNet18,
    adopt,
    bindings,
    conv_bn,
    operators,
    run_tvm,
    weights,
)
from torch import nn

from workbench.errors import InputError
from workbench.models import Model, builtin_models, load, zoo
from workbench.tvm_seam import relax

SHAPES = {
    "gelu": [(2048, 2048)],
    "elementwise_chain": [(2048, 2048)] * 2,
    "bias_gelu": [(256, 1024)],
    "swiglu": [(128, 512)],
    "residual_layernorm": [(1024, 768)] * 2,
    "conv_bn_relu": [(1, 64, 56, 56)],
    "qkv": [(256, 512)],
    "attention": [(1, 8, 512, 64)] * 3,
    "mha": [(1, 256, 512)],
    "encoder": [(1, 256, 512)],
    "pool_add": [(1, 16, 64, 64)],
    "llama_block": [(1, 128, 1024)],
    "mobilenet_v2": [(1, 3, 224, 224)],
    "resnet18": [(1, 3, 224, 224)],
}


class BiasGelu(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.layer(x))


class SwiGLU(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(16, 24, bias=False), nn.Linear(16, 24, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.gate(x)) * self.up(x)


class ResidualLayerNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(24)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.norm(x + y)


class ConvBnRelu(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = conv_bn(8, 8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.layers(x))


class Qkv(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(layer(x) for layer in self.layers)


TWINS = {
    "bias_gelu": (BiasGelu, {"rows": 8, "inner": 16, "outer": 24}),
    "swiglu": (SwiGLU, {"rows": 8, "inner": 16, "outer": 24}),
    "residual_layernorm": (ResidualLayerNorm, {"rows": 8, "cols": 24}),
    "conv_bn_relu": (ConvBnRelu, {"channels": 8, "size": 10}),
    "qkv": (Qkv, {"rows": 8, "dim": 16}),
    "mha": (lambda: Attention(32, 4), {"seq": 12, "dim": 32, "heads": 4}),
    "encoder": (lambda: Encoder(32, 4, 48), {"seq": 12, "dim": 32, "heads": 4, "ffn": 48}),
    "llama_block": (
        lambda: LlamaBlock(32, 4, 2, 8, 48),
        {"seq": 12, "dim": 32, "heads": 4, "kv_heads": 2, "head_dim": 8, "ffn": 48},
    ),
    "resnet18": (lambda: ResNet18(8, 10), {"size": 32, "classes": 10, "width": 8}),
    "mobilenet_v2": (lambda: MobileNetV2(10), {"size": 32, "classes": 10}),
}


def assert_equal_to(model: Model, expected: object, inputs: list[np.ndarray]) -> None:
    results = expected if isinstance(expected, tuple) else (expected,)
    actual = run_tvm(model, inputs)
    assert len(actual) == len(results)
    for got, wanted in zip(actual, results, strict=True):
        scale = float(wanted.abs().max())
        np.testing.assert_allclose(got, wanted.detach().numpy(), rtol=1e-4, atol=2e-6 * max(scale, 1.0))


@pytest.mark.parametrize("name", TWINS)
def test_a_builtin_model_equals_its_pytorch_twin(name: str) -> None:
    make, sizes = TWINS[name]
    model = zoo.build(name, **sizes)
    twin = adopt(make(), model)
    inputs = model.example_inputs(seed=3)
    with torch.no_grad():
        expected = twin(*map(torch.from_numpy, inputs))
    assert_equal_to(model, expected, inputs)
    out = expected[0] if isinstance(expected, tuple) else expected
    assert 0.1 < float(out.std()) < 10  # seeded weights keep activations of order one, however deep the model


def test_models_without_weights_equal_their_formulas() -> None:
    model = zoo.build("gelu", rows=16, cols=16)
    (x,) = model.example_inputs()
    assert_equal_to(model, F.gelu(torch.from_numpy(x), approximate="tanh"), [x])
    model = zoo.build("elementwise_chain", rows=16, cols=16)
    x, y = model.example_inputs()
    assert_equal_to(model, torch.sigmoid(torch.from_numpy(x + y)) * torch.from_numpy(y), [x, y])
    model = zoo.build("attention", heads=2, seq=8, dim=16)
    q, k, v = model.example_inputs()
    expected = F.scaled_dot_product_attention(*map(torch.from_numpy, (q, k, v)))
    assert_equal_to(model, expected, [q, k, v])
    model = zoo.build("pool_add", channels=2, size=8)
    (x,) = model.example_inputs()
    pooled = F.max_pool2d(torch.cat([torch.from_numpy(x) + float(i) for i in range(9)], 1), 2, 2)
    assert_equal_to(model, (pooled + 1.0, pooled + 2.0), [x])


@pytest.mark.parametrize("name", SHAPES)
def test_standard_shapes_and_canonical_form(name: str) -> None:
    model = load(name)
    assert [spec.shape for spec in model.inputs] == SHAPES[name]
    assert {spec.dtype for spec in model.inputs + model.outputs} == {"float32"}
    relax.analysis.well_formed(model.module)  # raises otherwise
    for binding in bindings(model):
        assert isinstance(binding.value, relax.Call | relax.TupleGetItem)
    assert model.check.ok is None
    assert model.check.framework == "none"


def test_standard_structures() -> None:
    assert operators(load("resnet18")).count("nn.conv2d") == 20
    assert operators(load("mobilenet_v2")).count("nn.conv2d") == 52
    parameters = sum(array.size for array in weights(load("mobilenet_v2")))
    running = sum(b.value.args[3].ty.shape[0].value * 2 for b in bindings(load("mobilenet_v2")) if _is_norm(b))
    assert parameters - running == 3_504_872  # the parameter count that the paper's authors publish: 3.5 million
    parameters = sum(array.size for array in weights(load("resnet18")))
    running = sum(b.value.args[3].ty.shape[0].value * 2 for b in bindings(load("resnet18")) if _is_norm(b))
    assert parameters - running == 11_689_512


def _is_norm(binding: relax.VarBinding) -> bool:
    return isinstance(binding.value, relax.Call) and binding.value.op.name == "relax.nn.batch_norm"


def test_the_list_of_builtin_models_imports_no_tvm() -> None:
    code = "import sys; from workbench.models import builtin_models; print(len(builtin_models()), 'tvm' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["14", "False"]
    assert list(builtin_models()) == list(SHAPES)
    assert "x[1, 256, 512]" in builtin_models()["encoder"]


def test_wrong_names_and_sizes_are_refused() -> None:
    with pytest.raises(InputError, match="no built-in model 'enkoder'; choose one of gelu"):
        zoo.build("enkoder")
    with pytest.raises(InputError, match=r"size 'depth'.*seq, dim, heads, ffn"):
        zoo.build("encoder", depth=3)
    with pytest.raises(InputError, match="size 'seq' cannot be 0"):
        zoo.build("encoder", seq=0)
    with pytest.raises(InputError, match=r"batch 4 .* fixed size 1"):
        load("encoder", batch=4)
    assert load("encoder", batch=1).fingerprint == load("encoder").fingerprint
