"""PyTorch modules and saved programs: equal to PyTorch, clean operators, clear errors."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from imported import Encoder, LlamaBlock, operators, run_tvm
from torch import nn

from workbench.errors import InputError, ModelError, SetupError, SymbolicShapeError, UnsupportedOperator
from workbench.measure.import_check import check_import
from workbench.models import Model, load, zoo


class Function(nn.Module):
    """A module out of a function."""

    def __init__(self, function: object, *layers: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.layers = nn.ModuleList(layers)

    def forward(self, *args: torch.Tensor) -> object:
        return self.function(*self.layers, *args)  # type: ignore[operator]


def assert_equals_pytorch(model: Model, run: bool = True) -> None:
    inputs = model.example_inputs(1)
    assert model.source_run is not None
    theirs = model.source_run(inputs)
    assert [a.shape for a in theirs] == [s.shape for s in model.outputs]
    assert [a.dtype.name for a in theirs] == [s.dtype for s in model.outputs]
    if run:
        for got, wanted in zip(run_tvm(model, inputs), theirs, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=2e-5)
    check = check_import(model, 1)
    assert (check.framework, check.ok) == ("pytorch", True), check


def _norm(features: int) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(features)
    nn.init.normal_(norm.running_mean)
    nn.init.uniform_(norm.running_var, 0.3, 3.0)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    return norm


R = torch.randn
CASES = {
    "encoder": (lambda: Encoder(32, 4, 64), (R(1, 8, 32),)),
    "llama": (lambda: nn.Sequential(nn.RMSNorm(16), nn.Linear(16, 8, bias=False), nn.SiLU()), (R(2, 3, 16),)),
    "conv_bn": (lambda: nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1, groups=3), _norm(6), nn.ReLU6()), (R(2, 3, 9, 9),)),
    "bn_without_weights": (lambda: nn.BatchNorm2d(3, affine=False), (R(2, 3, 4, 4),)),
    "conv1d": (lambda: nn.Conv1d(3, 4, 3, padding=2, dilation=2), (R(2, 3, 9),)),
    "pooling": (
        lambda: nn.Sequential(nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout()),
        (R(2, 3, 8, 8),),
    ),
    "select_and_slice": (lambda: Function(lambda x: (x[:, -1], x[..., 1:3], x[0])), (R(2, 3, 8),)),
    "addmm": (lambda: Function(lambda b, x, w: torch.addmm(b, x, w, alpha=2.0, beta=0.5)), (R(4), R(3, 5), R(5, 4))),
    "multihead": (lambda: nn.MultiheadAttention(16, 2, batch_first=True), (R(1, 4, 16),) * 3),
    "transformer_layer": (
        lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu"),
        (R(1, 4, 16),),
    ),
    "embedding": (lambda: nn.Embedding(8, 4), (torch.tensor([[1, 7, 0]]),)),
    "needs_decomposition": (lambda: Function(lambda x: torch.var(x, dim=-1, unbiased=False)), (R(3, 16),)),
}


@pytest.mark.parametrize("name", CASES)
def test_an_imported_module_equals_pytorch(name: str) -> None:
    torch.manual_seed(0)
    make, args = CASES[name]
    model = load(make(), args=args)
    assert "nn.attention" not in operators(model)
    assert "take" not in operators(model) or name == "embedding"
    assert_equals_pytorch(model)


def test_batch_norm_keeps_its_inference_form_with_the_given_epsilon() -> None:
    torch.manual_seed(0)
    model = load(nn.Sequential(nn.Conv2d(3, 6, 3, bias=False), _norm(6)), args=(R(1, 3, 8, 8),))
    assert operators(model) == ["nn.conv2d", "nn.batch_norm"]
    assert_equals_pytorch(model)


def test_the_encoder_arrives_as_the_builtin_one_is_spelled() -> None:
    model = load(Encoder(32, 4, 64), args=(R(1, 12, 32),))
    assert operators(model) == operators(zoo.build("encoder", seq=12, dim=32, heads=4, ffn=64))


ATTENTION = {
    "plain": lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
    "causal": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "scale": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3),
    "mask": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=torch.linspace(-2, 2, 5)[None]),
    "bool_mask": lambda q, k, v: F.scaled_dot_product_attention(
        q, k, v, attn_mask=torch.tensor([[True, False, True, True, False]])
    ),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_arrives_in_primitive_operators(name: str) -> None:
    torch.manual_seed(0)
    model = load(Function(ATTENTION[name]), args=(R(1, 2, 5, 8), R(1, 2, 5, 8), R(1, 2, 5, 8)))
    between = {"plain": [], "scale": [], "bool_mask": ["where"]}.get(name, ["add"])
    steps = [op for op in operators(model) if op not in ("reshape", "broadcast_to")]
    assert steps == ["permute_dims", "matmul", "multiply", *between, "nn.softmax", "matmul"]
    assert_equals_pytorch(model)


def test_grouped_query_attention_repeats_keys_and_values() -> None:
    torch.manual_seed(0)
    model = load(
        Function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True, is_causal=True)),
        args=(R(1, 4, 5, 8), R(1, 2, 5, 8), R(1, 2, 5, 8)),
    )
    assert operators(model).count("repeat") == 2
    assert_equals_pytorch(model)


def test_a_llama_block_keeps_rms_norm_and_silu_whole() -> None:
    torch.manual_seed(0)

    class Real(LlamaBlock):
        def rotate(self, x: torch.Tensor) -> torch.Tensor:
            half = self.head_dim // 2
            angle = torch.outer(torch.arange(x.shape[-2]).float(), 10000.0 ** (-torch.arange(half).float() / half))
            cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)
            return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin

    model = load(Real(32, 4, 2, 8, 48), args=(R(1, 6, 32),))
    assert operators(model).count("nn.rms_norm") == 2
    assert operators(model).count("nn.silu") == 1
    assert_equals_pytorch(model)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_narrow_and_wide_types_are_kept(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(64, 8), nn.RMSNorm(8)).to(dtype)
    model = load(net, args=(R(2, 3, 6, 6).to(dtype),))
    wanted = str(dtype).removeprefix("torch.")
    assert {str(b.var.ty.dtype) for b in model.module["main"].body.blocks[0].bindings} == {wanted}
    assert_equals_pytorch(model, run=False)  # TVM cannot compile every operator in these


def test_outputs_are_flattened_and_absent_ones_dropped() -> None:
    model = load(Function(lambda x: {"a": x + 1, "b": (x * 2, [x - 1, None]), "c": None}), args=(R(2, 3),))
    assert len(model.outputs) == 3
    assert_equals_pytorch(model)


def test_a_saved_program_and_its_symbolic_batch(tmp_path: Path) -> None:
    torch.manual_seed(0)
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(Encoder(32, 4, 64).eval(), (R(4, 8, 32),), dynamic_shapes=({0: batch},))
    path = tmp_path / "encoder.pt2"
    torch.export.save(program, str(path))
    with pytest.raises(SymbolicShapeError, match="has no size; give a size with --batch N"):
        load(str(path))
    model = load(path, batch=3)
    assert model.name == "encoder"
    assert model.inputs[0].shape == (3, 8, 32)
    assert_equals_pytorch(model)
    assert load(program, batch=3).fingerprint == model.fingerprint


def test_keyword_inputs_reach_the_source_framework_in_order() -> None:
    class Net(nn.Module):
        def forward(self, x: torch.Tensor, *, scale: torch.Tensor) -> torch.Tensor:
            return x / scale

    program = torch.export.export(Net(), (R(2, 3),), {"scale": R(2, 3)})
    assert_equals_pytorch(load(program))


def test_a_module_is_left_in_the_mode_in_which_it_came() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))
    net[2].eval()
    load(net, args=(R(2, 4),))
    assert [m.training for m in net] == [True, True, False]


def test_one_tensor_may_be_given_without_a_tuple() -> None:
    assert load(nn.ReLU(), args=R(2, 4)).inputs[0].shape == (2, 4)


def test_errors_name_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"example inputs are missing; give them as args="):
        load(nn.ReLU())
    with pytest.raises(InputError, match=r"args are example tensors of an nn.Module"):
        load("encoder", args=(R(1),))
    with pytest.raises(UnsupportedOperator, match=r"operator '_fft_r2c.default' at node '_fft_r2c'"):
        load(Function(lambda x: torch.fft.fft(x).abs()), args=(R(4, 8),))
    with pytest.raises(ModelError, match=r"torch.export cannot trace"):
        load(Function(lambda x: x if x.sum() > 0 else -x), args=(R(4),))
    with pytest.raises(ModelError, match="input 'args_1' is not a tensor but 3"):
        load(Function(lambda x, n: x * n), args=(R(4), 3))
    with pytest.raises(InputError, match="batch 9 was given, but the leading dimension is fixed at 4"):
        load(nn.ReLU(), args=(R(4, 4),), batch=9)
    net = nn.Linear(3, 2)
    net.weight.data[1, 1] = float("nan")
    with pytest.raises(ModelError, match=r"weight 'weight' \[2, 3\] holds NaN \(1 of 6 entries\)"):
        load(net, args=(R(1, 3),))


def test_broken_files_are_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no such file"):
        load(str(tmp_path / "missing.pt2"))
    broken = tmp_path / "broken.pt2"
    broken.write_bytes(b"no zip at all")
    with pytest.raises(ModelError, match=r"not a program saved by torch.export.save") as caught:
        load(str(broken))
    assert "\n" not in str(caught.value)


def test_a_missing_pytorch_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net.pt2").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(SetupError, match=r"needs PyTorch; run `pip install torch==2.13.0`"):
        load(str(tmp_path / "net.pt2"))


def test_one_tensor_given_for_two_inputs_stays_two_inputs() -> None:
    x = R(3, 4)
    module = Function(lambda a, b: a - 2 * b)
    model = load(module, args=(x, x))
    one, other = np.ones((3, 4), "float32"), np.full((3, 4), 5, "float32")
    np.testing.assert_array_equal(run_tvm(model, [one, other])[0], np.full((3, 4), -9, "float32"))
