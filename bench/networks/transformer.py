"""Encoders: BERT-base (Devlin et al. 2018) from its embedded tokens on or from their ids, and ViT-S/16
(Dosovitskiy et al. 2020)."""

from __future__ import annotations

import numpy as np

from .net import CLASSES, Net

BERT_HIDDEN, BERT_HEADS = 768, 12
VIT_HIDDEN, VIT_HEADS, VIT_PATCH = 384, 6, 16
BLOCKS = 12
EXPANSION = 4
"""Ratio of the width inside the feed-forward part to the hidden size."""


def bert(
    blocks: int = BLOCKS, tokens: int = 128, hidden: int = BERT_HIDDEN, heads: int = BERT_HEADS
) -> Net:
    """Blocks that normalize after each residual sum."""
    net = Net.of_rows("bert", 1, tokens, hidden)
    x = "x"
    for _ in range(blocks):
        x = net.layer_norm(net.pair("Add", x, attention(net, x, heads)))
        x = net.layer_norm(net.pair("Add", x, feed_forward(net, x)))
    net.result = x
    return net


def text_encoder(
    name: str, blocks: int, hidden: int, heads: int, vocabulary: int = 1000, positions: int = 512
) -> Net:
    """A text model as exporters write it: `ids` and `mask`, s64[B,S], to the last hidden states [B,S,hidden].

    Shapes are those of one batch and two tokens, but no node depends on them.
    """
    net = Net.of_integers(name, ids=(1, 2), mask=(1, 2))
    words = net.node("Gather", [net.random(vocabulary, hidden, scale=1.0), "ids"], (1, 2, hidden))
    x = net.layer_norm(net.pair("Add", words, _positions(net, positions, hidden)))
    mask = _added_mask(net)
    for _ in range(blocks):
        x = net.layer_norm(net.pair("Add", x, attention(net, x, heads, mask)))
        x = net.layer_norm(net.pair("Add", x, feed_forward(net, x)))
    net.result = x
    return net


def _positions(net: Net, most: int, hidden: int) -> str:
    """The first S rows of a table: S is computed from the shape of `ids`."""
    axis, zero, one = (net.constant(np.array(v, np.int64)) for v in ([1], [0], [1]))
    length = net.node("Gather", [net.node("Shape", ["ids"], (2,)), axis], (1,))
    rows = net.node("Slice", [net.random(most, hidden), zero, length, zero, one], (2, hidden))
    return net.node("Unsqueeze", [rows, zero], (1, 2, hidden))


def _added_mask(net: Net) -> str:
    """0 where `mask` is 1 and -10000 where it is 0, [B,1,1,S]."""
    from onnx import TensorProto

    one, least = (net.constant(np.array(v, np.float32)) for v in (1, -10000))
    axes = net.constant(np.array([1, 2], np.int64))
    wide = net.node("Unsqueeze", ["mask", axes], (1, 1, 1, 2))
    shown = net.node("Cast", [wide], (1, 1, 1, 2), to=TensorProto.FLOAT)
    hidden = net.node("Sub", [one, shown], (1, 1, 1, 2))
    return net.pair("Mul", hidden, least)


def vit(
    image: int = 224, hidden: int = VIT_HIDDEN, heads: int = VIT_HEADS, blocks: int = BLOCKS
) -> Net:
    """Patches and a class token through blocks that normalize first; the class token is classified."""
    net = Net("vit", image)
    x = net.conv("x", hidden, VIT_PATCH, VIT_PATCH, pad=0)
    count = (image // VIT_PATCH) ** 2
    x = net.transpose(net.reshape(x, (1, hidden, count)), (0, 2, 1))
    x = net.concat([net.random(1, 1, hidden), x], axis=1)
    x = net.pair("Add", x, net.random(1, count + 1, hidden))
    for _ in range(blocks):
        x = net.pair("Add", x, attention(net, net.layer_norm(x), heads))
        x = net.pair("Add", x, feed_forward(net, net.layer_norm(x)))
    first = net.constant(np.array(0, np.int64))
    token = net.node("Gather", [net.layer_norm(x), first], (1, hidden), axis=1)
    net.result = net.linear(token, CLASSES)
    return net


def attention(net: Net, x: str, heads: int, mask: str = "") -> str:
    """Self-attention of x with three projections; `mask` is added to the scores, [B,1,1,S]."""
    batch, tokens, hidden = net.shape(x)
    size = hidden // heads

    def head(perm: tuple[int, ...]) -> str:
        shape = (batch, tokens, heads, size)
        return net.transpose(net.reshape(net.linear(x, hidden), shape, keep=2), perm)

    q, k, v = head((0, 2, 1, 3)), head((0, 2, 3, 1)), head((0, 2, 1, 3))
    scale = net.constant(np.array(size**0.5, np.float32))
    scores = net.pair("Div", net.matmul(q, k, tokens), scale)
    weights = net.act(net.pair("Add", scores, mask) if mask else scores, "Softmax", axis=-1)
    mixed = net.transpose(net.matmul(weights, v, size), (0, 2, 1, 3))
    return net.linear(net.reshape(mixed, (batch, tokens, hidden), keep=2), hidden)


def feed_forward(net: Net, x: str) -> str:
    """Two linear layers with a gelu between them."""
    hidden = net.shape(x)[-1]
    return net.linear(net.gelu(net.linear(x, EXPANSION * hidden)), hidden)
