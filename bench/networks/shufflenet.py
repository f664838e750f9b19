"""ShuffleNet (Zhang et al. 2017) at half width with four groups: grouped 1x1, channel shuffle, depthwise 3x3."""

from __future__ import annotations

from .net import RESIDUAL_GAIN, Net

GROUPS = 4
STAGES = ((136, 4), (272, 8), (544, 4))


def shufflenet(image: int = 224, width: float = 1.0) -> Net:
    """Three stages, each entered through a block of stride 2 that concatenates."""
    net = Net("shufflenet", image, width)
    x = net.conv_norm_relu("x", net.wide(24), 3, stride=2)
    x = net.pool(x, "MaxPool", 3, 2, (1, 1))
    for channels, count in STAGES:
        for block in range(count):
            x = _unit(net, x, net.wide(channels), 1 if block else 2)
    net.result = net.classify(x)
    return net


def _unit(net: Net, x: str, channels: int, stride: int) -> str:
    made = channels - net.shape(x)[1] if stride == 2 else channels
    y = net.relu(net.norm(net.conv(x, made, groups=GROUPS, bias=False)))
    y = _shuffled(net, y)
    y = net.norm(net.conv(y, made, 3, stride, groups=made, bias=False), 1.0)
    gain = RESIDUAL_GAIN if stride == 1 else 1.4
    y = net.norm(net.conv(y, made, groups=GROUPS, bias=False), gain)
    if stride == 1:
        return net.relu(net.pair("Add", y, x))
    return net.relu(net.concat([y, net.pool(x, "AveragePool", 3, 2, (1, 1))]))


def _shuffled(net: Net, x: str) -> str:
    """Channels shuffled so that every group of the next layer reads from every group of the previous one."""
    _, channels, height, width = net.shape(x)
    x = net.reshape(x, (1, GROUPS, channels // GROUPS, height, width), keep=1)
    return net.reshape(net.transpose(x, (0, 2, 1, 3, 4)), (1, channels, height, width), keep=1)
