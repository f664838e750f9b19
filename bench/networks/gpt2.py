"""GPT-2 (Radford et al. 2019): a decoder over a whole prompt, from ids to the scores of the next tokens."""

from __future__ import annotations

import numpy as np

from .net import Net
from .transformer import EXPANSION


def gpt2(
    tokens: int = 128, hidden: int = 768, heads: int = 12, blocks: int = 12, vocabulary: int = 50257
) -> Net:
    """Blocks that normalize first, with Q, K and V from one matmul; `ids`: s64[1,tokens]."""
    net = Net.of_integers("gpt2", ids=(1, tokens))
    net.given["ids"] = np.random.default_rng(1).integers(0, vocabulary, (1, tokens))
    words = net.random(vocabulary, hidden, scale=0.5)
    x = net.node("Gather", [words, "ids"], (1, tokens, hidden))
    x = net.pair("Add", x, net.random(1, tokens, hidden))
    visible = net.constant(np.tril(np.ones((1, 1, tokens, tokens), np.bool_)))
    for _ in range(blocks):
        x = net.pair("Add", x, _causal_attention(net, net.layer_norm(x), heads, visible))
        inner = _tanh_gelu(net, _rows(net, net.layer_norm(x), EXPANSION * hidden))
        x = net.pair("Add", x, _rows(net, inner, hidden))
    head = net.transpose(words, (1, 0))
    net.result = net.matmul(net.layer_norm(x), head, vocabulary)
    return net


def _rows(net: Net, x: str, outputs: int) -> str:
    """Add a Gemm over the rows of all sequences stacked, as PyTorch's Conv1D is exported."""
    batch, tokens, terms = net.shape(x)
    flat = net.reshape(x, (batch * tokens, terms))
    weight = net.random(terms, outputs, scale=terms**-0.5)
    inputs = [flat, weight, net.random(outputs)]
    matmul = net.node("Gemm", inputs, (batch * tokens, outputs))
    return net.reshape(matmul, (batch, tokens, outputs))


def _causal_attention(net: Net, x: str, heads: int, visible: str) -> str:
    batch, tokens, hidden = net.shape(x)
    size = hidden // heads
    together = _rows(net, x, 3 * hidden)
    sizes = net.constant(np.array([hidden] * 3, np.int64))
    parts = net.nodes("Split", [together, sizes], [(batch, tokens, hidden)] * 3, axis=2)

    def head(part: str, perm: tuple[int, ...]) -> str:
        return net.transpose(net.reshape(part, (batch, tokens, heads, size)), perm)

    q, k, v = map(head, parts, ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)))
    scale, least = (
        net.constant(np.array(value, np.float32)) for value in (size**0.5, np.finfo(np.float32).min)
    )
    scores = net.pair("Div", net.matmul(q, k, tokens), scale)
    seen = net.node("Where", [visible, scores, least], net.shape(scores))
    mixed = net.matmul(net.act(seen, "Softmax", axis=-1), v, size)
    joined = net.reshape(net.transpose(mixed, (0, 2, 1, 3)), (batch, tokens, hidden))
    return _rows(net, joined, hidden)


def _tanh_gelu(net: Net, x: str) -> str:
    """x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, node by node as exporters write it."""
    three, small, root, one, half = (
        net.constant(np.array(value, np.float32))
        for value in (3.0, 0.044715, (2 / np.pi) ** 0.5, 1.0, 0.5)
    )
    cubic = net.pair("Add", x, net.pair("Mul", net.pair("Pow", x, three), small))
    curve = net.pair("Add", net.act(net.pair("Mul", cubic, root), "Tanh"), one)
    return net.pair("Mul", net.pair("Mul", x, half), curve)
