"""Encoders: BERT-base (Devlin et al. 2018) from its embedded tokens on, and ViT-S/16 (Dosovitskiy et al. 2020)."""

from __future__ import annotations

import numpy as np

from .net import CLASSES, Net

BERT_HIDDEN, BERT_HEADS = 768, 12
VIT_HIDDEN, VIT_HEADS, VIT_PATCH = 384, 6, 16
BLOCKS = 12
EXPANSION = 4
"""How much wider the feed-forward part is inside."""


def bert(
    blocks: int = BLOCKS, tokens: int = 128, hidden: int = BERT_HIDDEN, heads: int = BERT_HEADS
) -> Net:
    """Blocks that normalise after each residual sum."""
    net = Net.of_rows("bert", 1, tokens, hidden)
    x = "x"
    for _ in range(blocks):
        x = net.layer_norm(net.pair("Add", x, _attention(net, x, heads)))
        x = net.layer_norm(net.pair("Add", x, _feed_forward(net, x)))
    net.result = x
    return net


def vit(
    image: int = 224, hidden: int = VIT_HIDDEN, heads: int = VIT_HEADS, blocks: int = BLOCKS
) -> Net:
    """Patches and a class token through blocks that normalise first; the class token is classified."""
    net = Net("vit", image)
    x = net.conv("x", hidden, VIT_PATCH, VIT_PATCH, pad=0)
    count = (image // VIT_PATCH) ** 2
    x = net.transpose(net.reshape(x, (1, hidden, count)), (0, 2, 1))
    x = net.concat([net.random(1, 1, hidden), x], axis=1)
    x = net.pair("Add", x, net.random(1, count + 1, hidden))
    for _ in range(blocks):
        x = net.pair("Add", x, _attention(net, net.layer_norm(x), heads))
        x = net.pair("Add", x, _feed_forward(net, net.layer_norm(x)))
    first = net.constant(np.array(0, np.int64))
    token = net.node("Gather", [net.layer_norm(x), first], (1, hidden), axis=1)
    net.result = net.linear(token, CLASSES)
    return net


def _attention(net: Net, x: str, heads: int) -> str:
    batch, tokens, hidden = net.shape(x)
    size = hidden // heads

    def head(perm: tuple[int, ...]) -> str:
        return net.transpose(net.reshape(net.linear(x, hidden), (batch, tokens, heads, size)), perm)

    q, k, v = head((0, 2, 1, 3)), head((0, 2, 3, 1)), head((0, 2, 1, 3))
    scale = net.constant(np.array(size**0.5, np.float32))
    weights = net.act(net.pair("Div", net.product(q, k, tokens), scale), "Softmax", axis=-1)
    mixed = net.transpose(net.product(weights, v, size), (0, 2, 1, 3))
    return net.linear(net.reshape(mixed, (batch, tokens, hidden)), hidden)


def _feed_forward(net: Net, x: str) -> str:
    hidden = net.shape(x)[-1]
    return net.linear(net.gelu(net.linear(x, EXPANSION * hidden)), hidden)
