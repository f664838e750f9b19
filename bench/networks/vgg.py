"""VGG-19 (Simonyan and Zisserman 2014): 3x3 convolutions and three large dense layers."""

from __future__ import annotations

from .net import CLASSES, Net

STAGES = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))


def vgg19(image: int = 224, width: float = 1.0) -> Net:
    """Sixteen convolutions, three dense layers."""
    net = Net("vgg19", image, width)
    x = "x"
    for channels, count in STAGES:
        for _ in range(count):
            x = net.relu(net.conv(x, net.wide(channels), 3))
        x = net.pool(x, "MaxPool", 2, 2)
    for outputs in (4096, 4096):
        x = net.relu(net.dense(x, net.wide(outputs)))
    net.result = net.act(net.dense(x, CLASSES), "Softmax", axis=1)
    return net
