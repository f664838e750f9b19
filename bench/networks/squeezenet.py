"""SqueezeNet 1.1 (Iandola et al. 2016): squeeze to few channels, then expand by parallel 1x1 and 3x3 convolutions."""

from __future__ import annotations

from .net import CLASSES, Net

SQUEEZED = ((16, 16), (32, 32), (48, 48, 64, 64))
"""Channels each fire module squeezes to; a pool precedes every group."""


def squeezenet(image: int = 224, width: float = 1.0) -> Net:
    """Eight fire modules."""
    net = Net("squeezenet", image, width)
    x = net.relu(net.conv("x", net.wide(64), 3, stride=2, pad=0))
    for group in SQUEEZED:
        x = net.pool(x, "MaxPool", 3, 2)
        for channels in group:
            x = _fire(net, x, net.wide(channels), net.wide(4 * channels))
    x = net.relu(net.conv(x, CLASSES))
    net.result = net.act(net.global_pool(x), "Softmax", axis=1)
    return net


def _fire(net: Net, x: str, squeezed: int, expanded: int) -> str:
    x = net.relu(net.conv(x, squeezed))
    return net.concat([net.relu(net.conv(x, expanded)), net.relu(net.conv(x, expanded, 3))])
