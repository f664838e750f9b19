"""U-Net (Ronneberger et al. 2015), padded, with batch normalization and nearest-neighbor upsampling."""

from __future__ import annotations

import numpy as np

from .net import Net

CHANNELS = (32, 64, 128, 256, 512)


def unet(image: int = 256, width: float = 1.0) -> Net:
    """Five levels; a mask of one channel as large as the image."""
    net = Net("unet", image, width)
    x, skips = "x", []
    for level, channels in enumerate(CHANNELS):
        if level:
            skips.append(x)
            x = net.pool(x, "MaxPool", 2, 2)
        x = _double(net, x, net.wide(channels))
    for skip in reversed(skips):
        x = net.concat([skip, net.conv(upsampled(net, x), net.shape(skip)[1], 3)])
        x = _double(net, x, net.shape(skip)[1])
    net.result = net.act(net.conv(x, 1), "Sigmoid")
    return net


def _double(net: Net, x: str, channels: int) -> str:
    return net.conv_norm_relu(net.conv_norm_relu(x, channels, 3), channels, 3)


def upsampled(net: Net, x: str) -> str:
    """Every pixel as 2 x 2."""
    batch, channels, height, width = net.shape(x)
    scales = net.constant(np.array([1, 1, 2, 2], np.float32))
    attrs = {"mode": "nearest", "nearest_mode": "floor"}
    shape = (batch, channels, 2 * height, 2 * width)
    mode = {"coordinate_transformation_mode": "asymmetric"}
    return net.node("Resize", [x, "", scales], shape, **attrs, **mode)
