"""The encoder of Whisper (Radford et al. 2022), tiny: two convolutions over frames of a spectrogram, then blocks."""

from __future__ import annotations

from .net import Net, window_positions
from .transformer import attention, feed_forward


def whisper_encoder(
    frames: int = 3000, bands: int = 80, hidden: int = 384, heads: int = 6, blocks: int = 4
) -> Net:
    """x: f32[1,bands,frames], of which the second convolution keeps every other frame."""
    net = Net.of_rows("whisper", 1, bands, frames)
    x = net.gelu(_convolved(net, "x", hidden, 1))
    x = net.gelu(_convolved(net, x, hidden, 2))
    x = net.transpose(x, (0, 2, 1))
    x = net.pair("Add", x, net.random(*net.shape(x)[1:]))
    for _ in range(blocks):
        x = net.pair("Add", x, attention(net, net.layer_norm(x), heads))
        x = net.pair("Add", x, feed_forward(net, net.layer_norm(x)))
    net.result = net.layer_norm(x)
    return net


def _convolved(net: Net, x: str, outputs: int, stride: int) -> str:
    """A convolution of width 3 along the frames."""
    batch, channels, frames = net.shape(x)
    weight = net.random(outputs, channels, 3, scale=(3 * channels) ** -0.5)
    shape = (batch, outputs, window_positions(frames, 3, stride, 2))
    geometry = {"kernel_shape": [3], "strides": [stride], "pads": [1, 1]}
    return net.node("Conv", [x, weight, net.random(outputs)], shape, **geometry)
