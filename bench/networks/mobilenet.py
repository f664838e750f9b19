"""MobileNetV2 (Sandler et al. 2018) and MobileNetV3-Large (Howard et al. 2019)."""

from __future__ import annotations

from collections.abc import Callable

from .net import CLASSES, RESIDUAL_GAIN, Net

# (expansion, channels, blocks, stride of the first)
V2_BLOCKS = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip
# (kernel, expanded, channels, squeeze and excite, hard swish, stride)
V3_BLOCKS = (
    (3, 16, 16, 0, 0, 1), (3, 64, 24, 0, 0, 2), (3, 72, 24, 0, 0, 1), (5, 72, 40, 1, 0, 2), (5, 120, 40, 1, 0, 1),
    (5, 120, 40, 1, 0, 1), (3, 240, 80, 0, 1, 2), (3, 200, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1), (3, 184, 80, 0, 1, 1),
    (3, 480, 112, 1, 1, 1), (3, 672, 112, 1, 1, 1), (5, 672, 160, 1, 1, 2), (5, 960, 160, 1, 1, 1),
    (5, 960, 160, 1, 1, 1),
)  # fmt: skip

Activation = Callable[[str], str]


def mobilenet_v2(image: int = 224, width: float = 1.0) -> Net:
    """Inverted residuals: expand by 1x1, ReLU6, depthwise 3x3, ReLU6, project."""
    net = Net("mobilenet_v2", image, width)
    x = net.relu6(net.norm(net.conv("x", net.wide(32), 3, stride=2, bias=False)))
    for expansion, channels, count, first in V2_BLOCKS:
        for block in range(count):
            expanded = net.shape(x)[1] * expansion
            stride = 1 if block else first
            x = _inverted(net, x, expanded, net.wide(channels), 3, stride, net.relu6, False)
    x = net.relu6(net.norm(net.conv(x, net.wide(1280), bias=False)))
    net.result = net.classify(x)
    return net


def mobilenet_v3(image: int = 224, width: float = 1.0) -> Net:
    """Inverted residuals with squeeze-and-excite, hard swish where channels are many."""
    net = Net("mobilenet_v3", image, width)

    def hard_swish(x: str) -> str:
        return net.act(x, "HardSwish")

    x = hard_swish(net.norm(net.conv("x", net.wide(16), 3, stride=2, bias=False)))
    for kernel, expanded, channels, excite, swish, stride in V3_BLOCKS:
        act = hard_swish if swish else net.relu
        sizes = net.wide(expanded), net.wide(channels)
        x = _inverted(net, x, *sizes, kernel, stride, act, bool(excite))
    x = hard_swish(net.norm(net.conv(x, net.wide(960), bias=False)))
    x = hard_swish(net.dense(net.global_pool(x), net.wide(1280)))
    net.result = net.act(net.dense(x, CLASSES), "Softmax", axis=1)
    return net


def _inverted(
    net: Net, x: str, expanded: int, channels: int, kernel: int, stride: int, act: Activation,
    excite: bool,
) -> str:  # fmt: skip
    """One block; the sum with its input where the shapes agree."""
    y = x
    if expanded != net.shape(x)[1]:
        y = act(net.norm(net.conv(y, expanded, bias=False)))
    y = act(net.norm(net.conv(y, expanded, kernel, stride, groups=expanded, bias=False)))
    if excite:
        y = _excited(net, y)
    y = net.conv(y, channels, bias=False)
    if net.shape(x) != net.shape(y):
        return net.norm(y, 1.0)
    return net.pair("Add", x, net.norm(y, RESIDUAL_GAIN))


def _excited(net: Net, x: str) -> str:
    """Every channel times a factor in [0, 1] computed from the means of all."""
    channels = net.shape(x)[1]
    squeezed = max(8, channels // 4 // 8 * 8)
    y = net.relu(net.conv(net.global_pool(x), squeezed))
    factor = net.act(net.conv(y, channels), "HardSigmoid", alpha=1 / 6, beta=0.5)
    return net.pair("Mul", x, factor)
