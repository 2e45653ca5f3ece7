"""Built-in convolution models: one block, ResNet-18 (He et al., 2015) and MobileNetV2 (Sandler et al., 2018)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._net import Net

Sizes = Mapping[str, int]

MOBILENET_STAGES = (  # expansion, output channels, repeats, stride of the first
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def conv_bn_relu(net: Net, sizes: Sizes, x: Any) -> Any:
    """3x3 convolution without bias, BatchNorm, ReLU."""
    channels = sizes["channels"]
    return net("nn.relu", net.batch_norm(net.conv(x, channels, channels, 3), channels))


def resnet18(net: Net, sizes: Sizes, x: Any) -> Any:
    """Stem, eight basic blocks in four stages, global average, classifier."""
    width = sizes["width"]
    x = net("nn.relu", net.batch_norm(net.conv(x, 3, width, 7, stride=2), width))
    x = net("nn.max_pool2d", x, pool_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1])
    inner = width
    for stage in range(4):
        for block in range(2):
            outer = width << stage
            x = _basic_block(net, x, inner, outer, stride=2 if stage and not block else 1)
            inner = outer
    return _classify(net, x, inner, sizes["classes"])


def mobilenet_v2(net: Net, sizes: Sizes, x: Any) -> Any:
    """Stem, seventeen inverted residual blocks with linear bottlenecks, 1x1 head, global average, classifier."""
    inner = _scaled(32, sizes)
    x = _conv_bn_relu6(net, x, 3, inner, 3, stride=2)
    for expansion, channels, repeats, first_stride in MOBILENET_STAGES:
        outer = _scaled(channels, sizes)
        for block in range(repeats):
            x = _inverted_residual(net, x, inner, outer, expansion, first_stride if block == 0 else 1)
            inner = outer
    head = _scaled(1280, sizes)
    return _classify(net, _conv_bn_relu6(net, x, inner, head, 1), head, sizes["classes"])


def _basic_block(net: Net, x: Any, inner: int, outer: int, stride: int) -> Any:
    y = net("nn.relu", net.batch_norm(net.conv(x, inner, outer, 3, stride), outer))
    y = net.batch_norm(net.conv(y, outer, outer, 3), outer, gain=0.4)  # small, so that eight sums stay of order one
    if stride != 1 or inner != outer:
        x = net.batch_norm(net.conv(x, inner, outer, 1, stride), outer, gain=0.7)
    return net("nn.relu", net("add", y, x))


def _scaled(channels: int, sizes: Sizes) -> int:
    """The channel count at the width given by ``width`` (32 is the standard width 1.0)."""
    return max(4, channels * sizes["width"] // 32)


def _conv_bn_relu6(net: Net, x: Any, inner: int, outer: int, kernel: int, stride: int = 1, groups: int = 1) -> Any:
    y = net.batch_norm(net.conv(x, inner, outer, kernel, stride, groups), outer)
    return net("clip", y, min=0.0, max=6.0)


def _inverted_residual(net: Net, x: Any, inner: int, outer: int, expansion: int, stride: int) -> Any:
    hidden = inner * expansion
    y = _conv_bn_relu6(net, x, inner, hidden, 1) if expansion != 1 else x
    y = _conv_bn_relu6(net, y, hidden, hidden, 3, stride, groups=hidden)
    y = net.batch_norm(net.conv(y, hidden, outer, 1), outer, gain=0.7)
    return net("add", x, y) if stride == 1 and inner == outer else y


def _classify(net: Net, x: Any, channels: int, classes: int) -> Any:
    pooled = net("nn.adaptive_avg_pool2d", x, output_size=[1, 1])
    return net.linear(net("reshape", pooled, shape=(1, channels)), channels, classes)
