"""Swin Transformer, tiny (Liu et al. 2021): attention within windows of 7 x 7 tokens, shifted in every second block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .net import CLASSES, Net
from .transformer import EXPANSION

PATCH, WINDOW, HEAD = 4, 7, 32
DEPTHS = (2, 2, 6, 2)


def swin(image: int = 224, hidden: int = 96, depths: Sequence[int] = DEPTHS) -> Net:
    """Stages of half the height and width and twice the channels of those before; NHWC between the blocks."""
    net = Net("swin", image)
    patches = net.conv("x", hidden, PATCH, PATCH, pad=0)
    x = net.layer_norm(net.transpose(patches, (0, 2, 3, 1)))
    for stage, depth in enumerate(depths):
        x = _merged(net, x) if stage else x
        for block in range(depth):
            shift = WINDOW // 2 if block % 2 and net.shape(x)[1] > WINDOW else 0
            x = net.pair("Add", x, _window_attention(net, net.layer_norm(x), shift))
            inner = net.gelu(net.linear(net.layer_norm(x), EXPANSION * net.shape(x)[-1]))
            x = net.pair("Add", x, net.linear(inner, net.shape(x)[-1]))
    shape = (1, net.shape(x)[-1])
    mean = net.node("ReduceMean", [net.layer_norm(x)], shape, axes=[1, 2], keepdims=0)
    net.result = net.linear(mean, CLASSES)
    return net


def _merged(net: Net, x: str) -> str:
    """2 x 2 tokens become one of twice the channels."""
    batch, height, width, channels = net.shape(x)
    corners = [
        _sliced(net, x, (row, column), (height, width), (1, 2), 2)
        for column in (0, 1)
        for row in (0, 1)
    ]
    together = net.layer_norm(net.concat(corners, axis=3))
    weight = net.random(4 * channels, 2 * channels, scale=(4 * channels) ** -0.5)
    return net.matmul(together, weight, 2 * channels)


def _window_attention(net: Net, x: str, shift: int) -> str:
    """Q, K and V from one matmul, a bias for each pair of positions, and a mask where a shift joined two edges."""
    _, height, width, channels = net.shape(x)
    heads, tokens = channels // HEAD, WINDOW * WINDOW
    rolled = _rolled(net, x, shift) if shift else x
    rows, columns = height // WINDOW, width // WINDOW
    tiles = net.reshape(rolled, (1, rows, WINDOW, columns, WINDOW, channels))
    tiles = net.transpose(tiles, (0, 1, 3, 2, 4, 5))
    windows = net.reshape(tiles, (rows * columns, tokens, channels))
    together = net.linear(windows, 3 * channels)
    together = net.reshape(together, (rows * columns, tokens, 3, heads, HEAD))
    together = net.transpose(together, (2, 0, 3, 1, 4))
    shape = (rows * columns, heads, tokens, HEAD)
    q, k, v = (
        net.node("Gather", [together, net.constant(np.array(part, np.int64))], shape, axis=0)
        for part in range(3)
    )
    q = net.pair("Mul", q, net.constant(np.array(HEAD**-0.5, np.float32)))
    scores = net.matmul(q, net.transpose(k, (0, 1, 3, 2)), tokens)
    scores = net.pair("Add", scores, net.random(1, heads, tokens, tokens))
    if shift:
        scores = net.pair("Add", scores, net.constant(_edges(height, width, shift)))
    mixed = net.transpose(net.matmul(net.act(scores, "Softmax", axis=-1), v, HEAD), (0, 2, 1, 3))
    result = net.linear(net.reshape(mixed, (rows * columns, tokens, channels)), channels)
    tiles = net.reshape(result, (1, rows, columns, WINDOW, WINDOW, channels))
    image = net.reshape(net.transpose(tiles, (0, 1, 3, 2, 4, 5)), (1, height, width, channels))
    return _rolled(net, image, -shift) if shift else image


def _edges(height: int, width: int, shift: int) -> np.ndarray:
    """-100 between the positions of a window that are not neighbors in the image, [windows,1,tokens,tokens]."""
    regions = [
        np.digitize(np.arange(size), [size - WINDOW, size - shift]) for size in (height, width)
    ]
    region = regions[0][:, None] * 3 + regions[1]
    tiles = region.reshape(height // WINDOW, WINDOW, width // WINDOW, WINDOW).swapaxes(1, 2)
    windows = tiles.reshape(-1, 1, WINDOW * WINDOW)
    differs = windows[..., None] != windows[..., None, :]
    return np.where(differs, np.float32(-100), np.float32(0))


def _rolled(net: Net, x: str, shift: int) -> str:
    """Rows and columns rotated by `shift` towards the start, as `torch.roll` is exported."""
    for axis in (1, 2):
        size = net.shape(x)[axis]
        cut = shift % size
        parts = [_sliced(net, x, (cut,), (size,), (axis,)), _sliced(net, x, (0,), (cut,), (axis,))]
        x = net.concat(parts, axis=axis)
    return x


def _sliced(
    net: Net, x: str, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int], step: int = 1
) -> str:
    shape = list(net.shape(x))
    for start, end, axis in zip(starts, ends, axes, strict=True):
        shape[axis] = -(-(end - start) // step)
    values = (starts, ends, axes, [step] * len(axes))
    return net.node(
        "Slice", [x, *(net.constant(np.array(value, np.int64)) for value in values)], shape
    )
