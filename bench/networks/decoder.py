"""One step of decoders: a token after P others, whose keys and values are a cache (GPT-2, Radford et al. 2019; Llama,
Touvron et al. 2023), as exporters write them."""

from __future__ import annotations

import numpy as np

from .net import Net
from .transformer import EXPANSION, feed_forward

POSITIONS = 4096


def gpt2_step(name: str, blocks: int, hidden: int, heads: int, vocabulary: int = 1000) -> Net:
    """Learned positions, normalization before each part, every head with its own keys; [1,1,vocabulary]."""
    net = _step(name, blocks, heads, hidden // heads)
    x = net.node("Gather", [net.random(vocabulary, hidden, scale=1.0), "ids"], (1, 1, hidden))
    x = net.pair("Add", x, _row(net, net.random(POSITIONS, hidden), hidden))
    for block in range(blocks):
        q, k, v = (net.linear(net.layer_norm(x), hidden) for _ in "qkv")
        x = net.pair("Add", x, net.linear(_mixed(net, block, q, k, v, heads, heads), hidden))
        x = net.pair("Add", x, feed_forward(net, net.layer_norm(x)))
    net.result = net.linear(net.layer_norm(x), vocabulary)
    return net


def llama_step(
    name: str, blocks: int, hidden: int, heads: int, shared: int, vocabulary: int = 1000
) -> Net:
    """Rotary heads, `shared` heads of keys and values for all of queries, gated feed-forward; [1,1,vocabulary]."""
    size = hidden // heads
    net = _step(name, blocks, shared, size)
    angles = np.arange(POSITIONS)[:, None] / 10000 ** (np.arange(size) % (size // 2) * 2 / size)
    tables = [net.constant(f(angles).astype(np.float32)) for f in (np.cos, np.sin)]
    turn = [_row(net, table, size) for table in tables]
    x = net.node("Gather", [net.random(vocabulary, hidden, scale=1.0), "ids"], (1, 1, hidden))
    for block in range(blocks):
        y = _rms_norm(net, x)
        q, k, v = (net.linear(y, n * size) for n in (heads, shared, shared))
        mixed = _mixed(net, block, q, k, v, heads, shared, turn)
        x = net.pair("Add", x, net.linear(mixed, hidden))
        x = net.pair("Add", x, _gated(net, _rms_norm(net, x)))
    net.result = net.linear(_rms_norm(net, x), vocabulary)
    return net


def _step(name: str, blocks: int, heads: int, size: int) -> Net:
    net = Net.of_integers(name, ids=(1, 1))
    for block in range(blocks):
        for part in "kv":
            net.add_input(f"past_{block}_{part}", (1, heads, 2, size))
    return net


def _row(net: Net, table: str, width: int) -> str:
    """The row of a table for the token's position, the length of the cache: [1,1,width]."""
    axis = net.constant(np.array([2], np.int64))
    length = net.node("Gather", [net.node("Shape", ["past_0_k"], (4,)), axis], (1,))
    row = net.node("Gather", [table, length], (1, width))
    return net.reshape(row, (1, 1, width))


def _mixed(
    net: Net, block: int, q: str, k: str, v: str, heads: int, shared: int,
    turn: list[str] | None = None,
) -> str:  # fmt: skip
    """Attention of one token to the cache and itself, [1,1,hidden]; the longer cache is a result too."""
    size = net.shape(q)[2] // heads
    q = net.transpose(net.reshape(q, (1, 1, heads, size)), (0, 2, 1, 3))
    k, v = (net.transpose(net.reshape(x, (1, 1, shared, size)), (0, 2, 1, 3)) for x in (k, v))
    if turn:
        q, k = (_rotated(net, x, turn) for x in (q, k))
    keys, values = (
        net.concat([f"past_{block}_{part}", x], axis=2) for part, x in (("k", k), ("v", v))
    )
    net.others += [keys, values]
    if heads > shared:
        keys, values = (_repeated(net, x, heads // shared) for x in (keys, values))
    scores = net.matmul(q, net.transpose(keys, (0, 1, 3, 2)), net.shape(keys)[2])
    scale = net.constant(np.array(size**-0.5, np.float32))
    weights = net.node("Softmax", [net.pair("Mul", scores, scale)], net.shape(scores), axis=-1)
    mixed = net.transpose(net.matmul(weights, values, size), (0, 2, 1, 3))
    return net.reshape(mixed, (1, 1, heads * size))


def _repeated(net: Net, x: str, times: int) -> str:
    """Every head so often, as exporters write it: the number of keys is read from the shape."""
    _, heads, length, size = net.shape(x)
    axis, two = (net.constant(np.array(n, np.int64)) for n in ([2], [2]))
    wide = net.node("Unsqueeze", [x, two], (1, heads, 1, length, size))
    count = net.node("Gather", [net.node("Shape", [x], (4,)), axis], (1,))
    one, own, all_, group, last = (
        net.constant(np.array([n], np.int64)) for n in (1, heads, heads * times, times, size)
    )
    shape = net.node("Concat", [one, own, group, count, last], (5,), axis=0)
    many = net.node("Expand", [wide, shape], (1, heads, times, length, size))
    joined = net.node("Concat", [one, all_, count, last], (4,), axis=0)
    return net.node("Reshape", [many, joined], (1, heads * times, length, size))


def _rotated(net: Net, x: str, turn: list[str]) -> str:
    """x * cos + (x with its halves changed, the first negated) * sin."""
    size = net.shape(x)[3]
    zero, half, end, axis = (net.constant(np.array([n], np.int64)) for n in (0, size // 2, size, 3))
    shape = (*net.shape(x)[:3], size // 2)
    first = net.node("Slice", [x, zero, half, axis], shape)
    second = net.node("Slice", [x, half, end, axis], shape)
    other = net.concat([net.node("Neg", [second], shape), first], axis=3)
    return net.pair("Add", net.pair("Mul", x, turn[0]), net.pair("Mul", other, turn[1]))


def _rms_norm(net: Net, x: str) -> str:
    shape = net.shape(x)
    two, tiny = (net.constant(np.array(n, np.float32)) for n in (2, 1e-5))
    mean = net.node("ReduceMean", [net.pair("Pow", x, two)], (*shape[:-1], 1), axes=[-1])
    root = net.node("Sqrt", [net.pair("Add", mean, tiny)], net.shape(mean))
    return net.pair("Mul", net.pair("Div", x, root), net.random(shape[-1], offset=1.0))


def _gated(net: Net, x: str) -> str:
    hidden = net.shape(x)[-1]
    gate, up = (net.linear(x, EXPANSION * hidden * 2 // 3) for _ in range(2))
    silu = net.pair("Mul", gate, net.node("Sigmoid", [gate], net.shape(gate)))
    return net.linear(net.pair("Mul", silu, up), hidden)
