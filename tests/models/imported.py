"""Helpers of the model tests: run an imported module, and PyTorch twins of the built-in models."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from workbench.models import Model
from workbench.tvm_seam import GenericConst, relax, tvm

torch.set_num_threads(2)


def run_tvm(model: Model, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The module as imported, compiled by TVM without fusion or schedules."""
    executable = tvm.compile(
        model.module, tvm.target.Target({"kind": "llvm"}), relax_pipeline=relax.get_pipeline("default_build")
    )
    machine = relax.VirtualMachine(executable, tvm.cpu())
    out = machine["main"](*[tvm.runtime.tensor(x) for x in inputs])
    return [t.numpy() for t in ([out] if isinstance(out, tvm.runtime.Tensor) else out)]


def bindings(model: Model) -> list[relax.VarBinding]:
    (block,) = model.module["main"].body.blocks
    return list(block.bindings)


def operators(model: Model) -> list[str]:
    return [b.value.op.name.removeprefix("relax.") for b in bindings(model) if isinstance(b.value, relax.Call)]


def weights(model: Model) -> Iterator[np.ndarray]:
    """Weights in the order in which operators read them; scalars, tables and masks are no weights."""
    for binding in bindings(model):
        if not isinstance(binding.value, relax.Call):
            continue
        for arg in binding.value.args:
            if isinstance(arg, GenericConst):
                array = arg.value.numpy()
                if array.ndim and not (array.ndim == 4 and array.shape[:2] == (1, 1)):
                    yield array


def adopt(module: nn.Module, model: Model) -> nn.Module:
    """Gives the module the model's weights; its layers must be defined in the order in which they are used."""
    source = weights(model)

    def take(tensor: torch.Tensor, transpose: bool = False) -> None:
        array = next(source)
        tensor.data.copy_(torch.from_numpy(np.array(array.T if transpose else array)))

    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            take(layer.weight, transpose=True)
            if layer.bias is not None:
                take(layer.bias)
        elif isinstance(layer, nn.Conv2d | nn.RMSNorm):
            take(layer.weight)
        elif isinstance(layer, nn.LayerNorm):
            take(layer.weight)
            take(layer.bias)
        elif isinstance(layer, nn.BatchNorm2d):
            for tensor in (layer.weight, layer.bias, layer.running_mean, layer.running_var):
                take(tensor)
    assert next(source, None) is None
    return module.eval()


class Attention(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, dim = x.shape
        q, k, v = (
            layer(x).view(batch, seq, self.heads, dim // self.heads).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        scores = q @ k.transpose(-1, -2) * (1 / math.sqrt(dim // self.heads))
        return self.out((torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, seq, dim))


class Encoder(nn.Module):
    def __init__(self, dim: int, heads: int, ffn: int) -> None:
        super().__init__()
        self.attention, self.norm1 = Attention(dim, heads), nn.LayerNorm(dim)
        self.up, self.down, self.norm2 = nn.Linear(dim, ffn), nn.Linear(ffn, dim), nn.LayerNorm(dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class LlamaBlock(nn.Module):
    """Rotary positions by complex numbers, key and value heads by repeat_interleave, PyTorch's own attention."""

    def __init__(self, dim: int, heads: int, kv_heads: int, head_dim: int, ffn: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.norm1 = nn.RMSNorm(dim, eps=1e-6)
        self.q = nn.Linear(dim, heads * head_dim, bias=False)
        self.k = nn.Linear(dim, kv_heads * head_dim, bias=False)
        self.v = nn.Linear(dim, kv_heads * head_dim, bias=False)
        self.out = nn.Linear(heads * head_dim, dim, bias=False)
        self.norm2 = nn.RMSNorm(dim, eps=1e-6)
        self.gate = nn.Linear(dim, ffn, bias=False)
        self.up = nn.Linear(dim, ffn, bias=False)
        self.down = nn.Linear(ffn, dim, bias=False)

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        seq, half = x.shape[-2], self.head_dim // 2
        frequency = 10000.0 ** (-torch.arange(0, self.head_dim, 2, dtype=torch.float64) / self.head_dim)
        angle = torch.outer(torch.arange(seq, dtype=torch.float64), frequency)
        turned = torch.complex(x[..., :half].double(), x[..., half:].double()) * torch.polar(
            torch.ones_like(angle), angle
        )
        return torch.cat([turned.real, turned.imag], -1).float()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, seq, _ = x.shape
        h = self.norm1(x)
        q, k, v = (
            layer(h).view(batch, seq, count, self.head_dim).transpose(1, 2)
            for layer, count in ((self.q, self.heads), (self.k, self.kv_heads), (self.v, self.kv_heads))
        )
        q, k = self.rotate(q), self.rotate(k)
        k, v = (t.repeat_interleave(self.heads // self.kv_heads, dim=1) for t in (k, v))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, seq, -1))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def conv_bn(inner: int, outer: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(inner, outer, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outer))


class BasicBlock(nn.Module):
    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = conv_bn(inner, outer, 3, stride), conv_bn(outer, outer, 3)
        self.shortcut = conv_bn(inner, outer, 1, stride) if stride != 1 or inner != outer else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))


class ResNet18(nn.Module):
    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.stem = conv_bn(3, width, 7, 2)
        widths = [width, width, 2 * width, 2 * width, 4 * width, 4 * width, 8 * width, 8 * width]
        inners = [width, *widths[:-1]]
        strides = [1, 1, 2, 1, 2, 1, 2, 1]
        self.blocks = nn.Sequential(*map(BasicBlock, inners, widths, strides))
        self.classifier = nn.Linear(8 * width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.stem(x)), 3, 2, 1)
        return self.classifier(torch.flatten(F.adaptive_avg_pool2d(self.blocks(x), 1), 1))


class InvertedResidual(nn.Module):
    def __init__(self, inner: int, outer: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inner * expansion
        self.residual = stride == 1 and inner == outer
        layers: list[nn.Module] = [] if expansion == 1 else [conv_bn(inner, hidden, 1), nn.ReLU6()]
        layers += [conv_bn(hidden, hidden, 3, stride, hidden), nn.ReLU6(), conv_bn(hidden, outer, 1)]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


class MobileNetV2(nn.Module):
    """Table 2 of the paper at width 1.0."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        blocks, inner = [], 32
        for t, c, n, s in [
            (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
        ]:  # fmt: skip
            for i in range(n):
                blocks.append(InvertedResidual(inner, c, s if i == 0 else 1, t))
                inner = c
        self.features = nn.Sequential(conv_bn(3, 32, 3, 2), nn.ReLU6(), *blocks, conv_bn(320, 1280, 1), nn.ReLU6())
        self.classifier = nn.Linear(1280, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x).mean([2, 3]))
