"""DenseNet-121 (Huang et al. 2016): every layer reads all previous results of its block."""

from __future__ import annotations

from .net import Net

BLOCKS = (6, 12, 24, 16)
GROWTH, BOTTLENECK = 32, 128


def densenet121(image: int = 224, width: float = 1.0, blocks: tuple[int, ...] = BLOCKS) -> Net:
    """Dense blocks of `blocks` layers with transitions that halve channels and size."""
    net = Net("densenet121", image, width)
    x = net.conv_norm_relu("x", net.wide(64), 7, stride=2)
    x = net.pool(x, "MaxPool", 3, 2, (1, 1))
    for block, count in enumerate(blocks):
        if block:
            x = net.conv(net.relu(net.norm(x)), net.shape(x)[1] // 2, bias=False)
            x = net.pool(x, "AveragePool", 2, 2)
        for _ in range(count):
            y = net.conv(net.relu(net.norm(x)), net.wide(BOTTLENECK), bias=False)
            y = net.conv(net.relu(net.norm(y)), net.wide(GROWTH), 3, bias=False)
            x = net.concat([x, y])
    net.result = net.classify(net.relu(net.norm(x)))
    return net
