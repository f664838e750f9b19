"""AlexNet (Krizhevsky et al. 2012, Caffe's form with two groups) and ZFNet (Zeiler and Fergus 2013)."""

from __future__ import annotations

from .net import CLASSES, Net


def alexnet(image: int = 224, width: float = 1.0) -> Net:
    """Five convolutions, three of them in two groups, and three dense layers."""
    net = Net("alexnet", image, width)
    x = net.relu(net.conv("x", net.wide(96), 11, stride=4, pad=0))
    x = net.pool(_lrn(net, x, 1e-4, 1.0), "MaxPool", 3, 2)
    x = net.relu(net.conv(x, net.wide(256), 5, groups=2))
    x = net.pool(_lrn(net, x, 1e-4, 1.0), "MaxPool", 3, 2)
    for outputs, groups in ((384, 1), (384, 2), (256, 2)):
        x = net.relu(net.conv(x, net.wide(outputs), 3, groups=groups))
    return _dense_layers(net, net.pool(x, "MaxPool", 3, 2, (0, 1)), 4096, 4096)


def zfnet(image: int = 224, width: float = 1.0) -> Net:
    """Five convolutions, 512 channels at the end, and three dense layers."""
    net = Net("zfnet", image, width)
    x = "x"
    for outputs, kernel in ((96, 7), (256, 5)):
        x = net.relu(net.conv(x, net.wide(outputs), kernel, stride=2, pad=0))
        x = net.pool(_lrn(net, x, 5e-4, 2.0), "MaxPool", 3, 2)
    for _ in range(3):
        x = net.relu(net.conv(x, net.wide(512), 3))
    return _dense_layers(net, net.pool(x, "MaxPool", 2, 2), 4096, 1024)


def _lrn(net: Net, x: str, alpha: float, bias: float) -> str:
    return net.act(x, "LRN", size=5, alpha=alpha, beta=0.75, bias=bias)


def _dense_layers(net: Net, x: str, *outputs: int) -> Net:
    for count in outputs:
        x = net.relu(net.dense(x, net.wide(count)))
    net.result = net.act(net.dense(x, CLASSES), "Softmax", axis=1)
    return net
