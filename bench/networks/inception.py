"""Inception v1 (GoogLeNet, Szegedy et al. 2014) and v2 (Ioffe and Szegedy 2015, with batch normalization)."""

from __future__ import annotations

from .net import Net

# (1x1, 3x3 reduced, 3x3, 5x5 reduced, 5x5, pooled); None is a pool of stride 2
V1_BLOCKS = (
    (64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), None,
    (192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64),
    (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128), None,
    (256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128),
)  # fmt: skip
# (1x1, 3x3 reduced, 3x3, double 3x3 reduced, double 3x3, pooled); without 1x1 the block has stride 2
V2_BLOCKS = (
    (64, 64, 64, 64, 96, 32), (64, 64, 96, 64, 96, 64), (0, 128, 160, 64, 96, 0),
    (224, 64, 96, 96, 128, 128), (192, 96, 128, 96, 128, 128), (160, 128, 160, 128, 160, 96),
    (96, 128, 192, 160, 192, 96), (0, 128, 192, 192, 256, 0),
    (352, 192, 320, 160, 224, 128), (352, 192, 320, 192, 224, 128),
)  # fmt: skip


def inception_v1(image: int = 224, width: float = 1.0) -> Net:
    """Nine blocks of four branches."""
    net = Net("inception_v1", image, width)
    x = net.relu(net.conv("x", net.wide(64), 7, stride=2))
    x = _lrn(net, net.pool(x, "MaxPool", 3, 2))
    x = net.relu(net.conv(x, net.wide(64)))
    x = _lrn(net, net.relu(net.conv(x, net.wide(192), 3)))
    x = net.pool(x, "MaxPool", 3, 2)
    for block in V1_BLOCKS:
        x = _block_v1(net, x, *block) if block else net.pool(x, "MaxPool", 3, 2)
    net.result = net.classify(x)
    return net


def _lrn(net: Net, x: str) -> str:
    return net.act(x, "LRN", size=5, alpha=1e-4, beta=0.75, bias=1.0)


def _block_v1(
    net: Net, x: str, one: int, r3: int, three: int, r5: int, five: int, pooled: int
) -> str:
    def layer(y: str, outputs: int, kernel: int = 1) -> str:
        return net.relu(net.conv(y, net.wide(outputs), kernel))

    pool = net.pool(x, "MaxPool", 3, 1, (1, 1))
    return net.concat(
        [
            layer(x, one),
            layer(layer(x, r3), three, 3),
            layer(layer(x, r5), five, 5),
            layer(pool, pooled),
        ]
    )


def inception_v2(image: int = 224, width: float = 1.0) -> Net:
    """Ten blocks; 5x5 is two 3x3 in a row."""
    net = Net("inception_v2", image, width)
    x = net.conv_norm_relu("x", net.wide(64), 7, stride=2)
    x = net.pool(x, "MaxPool", 3, 2, (0, 1))
    x = net.conv_norm_relu(net.conv_norm_relu(x, net.wide(64)), net.wide(192), 3)
    x = net.pool(x, "MaxPool", 3, 2, (0, 1))
    for block in V2_BLOCKS:
        x = _block_v2(net, x, *block)
    net.result = net.classify(x)
    return net


def _block_v2(
    net: Net, x: str, one: int, r3: int, three: int, rd: int, double: int, pooled: int
) -> str:
    def layer(y: str, outputs: int, kernel: int = 1, stride: int = 1) -> str:
        return net.conv_norm_relu(y, net.wide(outputs), kernel, stride)

    last = 1 if one else 2
    parts = [layer(x, one)] if one else []
    parts.append(layer(layer(x, r3), three, 3, last))
    parts.append(layer(layer(layer(x, rd), double, 3), double, 3, last))
    if one:
        pool = net.pool(x, "AveragePool", 3, 1, (1, 1), count_include_pad=1)
        return net.concat([*parts, layer(pool, pooled)])
    return net.concat([*parts, net.pool(x, "MaxPool", 3, 2, (0, 1))])
