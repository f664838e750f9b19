"""A YOLOv5-style detector: space to depth by slices, split blocks, two scales, boxes decoded on a grid."""

from __future__ import annotations

import numpy as np

from .net import Net
from .unet import upsampled

CLASSES = 80
ANCHORS = {
    16: ((10, 14), (23, 27), (37, 58)),
    32: ((81, 82), (135, 169), (344, 319)),
}
"""Anchor boxes: width and height in pixels, by the stride of the scale."""


def yolo(image: int = 320, width: float = 1.0) -> Net:
    """[1, boxes, 5 + classes]: center, size, confidence and class scores of every box."""
    net = Net("yolo", image, width)
    x = _silu(net, net.conv(_space_to_depth(net, "x"), net.wide(32), 3))
    for channels in (64, 128, 256):
        x = _split_block(net, _silu(net, net.conv(x, net.wide(channels), 3, stride=2)))
    fine = x
    x = _split_block(net, _silu(net, net.conv(x, net.wide(512), 3, stride=2)))
    x = _silu(net, net.conv(x, net.wide(256)))
    up = upsampled(net, _silu(net, net.conv(x, net.wide(128))))
    fine = _silu(net, net.conv(net.concat([fine, up]), net.wide(256), 3))
    coarse = _silu(net, net.conv(x, net.wide(512), 3))
    net.result = net.concat([_boxes(net, fine, 16), _boxes(net, coarse, 32)])
    return net


def _silu(net: Net, x: str) -> str:
    return net.pair("Mul", x, net.act(x, "Sigmoid"))


def _space_to_depth(net: Net, x: str) -> str:
    """The four pixels of each 2 x 2 as channels."""
    batch, channels, height, width = net.shape(x)
    shape = (batch, channels, height // 2, width // 2)
    ends, axes, steps = (
        net.constant(np.array(values, np.int64)) for values in ((height, width), (2, 3), (2, 2))
    )
    starts = [net.constant(np.array(start, np.int64)) for start in np.ndindex(2, 2)]
    return net.concat([net.node("Slice", [x, s, ends, axes, steps], shape) for s in starts])


def _split_block(net: Net, x: str) -> str:
    """Half of the channels pass by two convolutions whose result is added to them."""
    channels = net.shape(x)[1]
    half = (1, channels // 2, *net.shape(x)[2:])
    sizes = net.constant(np.array([channels // 2] * 2, np.int64))
    a, b = net.nodes("Split", [x, sizes], [half, half], axis=1)
    y = _silu(net, net.conv(_silu(net, net.conv(a, half[1])), half[1], 3))
    return _silu(net, net.conv(net.concat([net.pair("Add", a, y), b]), channels))


def _boxes(net: Net, x: str, stride: int) -> str:
    """The boxes of one scale, [1, boxes, 5 + classes]."""
    anchors, values = ANCHORS[stride], 5 + CLASSES
    x = net.conv(x, len(anchors) * values)
    *_, height, width = net.shape(x)
    x = net.reshape(x, (1, len(anchors), values, height, width), keep=1)
    x = net.act(net.transpose(x, (0, 1, 3, 4, 2)), "Sigmoid")
    lead = net.shape(x)[:-1]
    sizes = net.constant(np.array([2, 2, values - 4], np.int64))
    center, size, rest = net.nodes(
        "Split", [x, sizes], [(*lead, n) for n in (2, 2, values - 4)], axis=-1
    )
    rows, columns = np.indices((height, width)).astype(np.float32)
    grid = np.stack([columns, rows], -1)[None, None]
    # center = (2 s - 0.5 + grid) * stride; size = (2 s)^2 * anchor
    center = net.pair("Mul", center, net.constant(np.array(2.0 * stride, np.float32)))
    center = net.pair("Add", center, net.constant((grid - np.float32(0.5)) * np.float32(stride)))
    size = net.pair("Mul", net.pair("Mul", size, size), net.constant(_scaled(anchors)))
    boxes = net.concat([center, size, rest], axis=4)
    return net.reshape(boxes, (1, len(anchors) * height * width, values), keep=1)


def _scaled(anchors: tuple[tuple[int, int], ...]) -> np.ndarray:
    return 4 * np.array(anchors, np.float32)[None, :, None, None]
