"""ResNet-18 and ResNet-50 (He et al. 2015, the form with stride in the 3x3 of a bottleneck)."""

from __future__ import annotations

from .net import RESIDUAL_GAIN, Net

STAGES = (64, 128, 256, 512)


def resnet18(image: int = 224, width: float = 1.0) -> Net:
    """Two basic blocks per stage."""
    return _resnet(Net("resnet18", image, width), (2, 2, 2, 2), bottleneck=False)


def resnet50(image: int = 224, width: float = 1.0) -> Net:
    """3, 4, 6, 3 bottleneck blocks."""
    return _resnet(Net("resnet50", image, width), (3, 4, 6, 3), bottleneck=True)


def _resnet(net: Net, blocks: tuple[int, ...], bottleneck: bool) -> Net:
    x = net.conv_norm_relu("x", net.wide(64), 7, stride=2)
    x = net.pool(x, "MaxPool", 3, 2, (1, 1))
    for stage, (channels, count) in enumerate(zip(STAGES, blocks, strict=True)):
        for block in range(count):
            stride = 2 if stage and not block else 1
            branch = _bottleneck if bottleneck else _basic
            x = _residual(net, x, branch(net, x, net.wide(channels), stride), stride)
    net.result = net.classify(x)
    return net


def _bottleneck(net: Net, x: str, channels: int, stride: int) -> str:
    y = net.conv_norm_relu(x, channels)
    y = net.conv_norm_relu(y, channels, 3, stride)
    return net.norm(net.conv(y, 4 * channels, bias=False), RESIDUAL_GAIN)


def _basic(net: Net, x: str, channels: int, stride: int) -> str:
    y = net.conv_norm_relu(x, channels, 3, stride)
    return net.norm(net.conv(y, channels, 3, bias=False), RESIDUAL_GAIN)


def _residual(net: Net, x: str, branch: str, stride: int) -> str:
    """The sum, with the shortcut projected where shapes differ."""
    if net.shape(x) != net.shape(branch):
        x = net.norm(net.conv(x, net.shape(branch)[1], stride=stride, bias=False), 1.0)
    return net.relu(net.pair("Add", branch, x))
