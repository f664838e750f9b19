"""Matrix products of ATen."""

from __future__ import annotations

from ..correspondence.compositions.contraction import linear, scaled
from ..correspondence.reading import Pair
from ..torch_calls.call import Value
from .node import Node, Read


def _read_linear(node: Node, _: str) -> Value:
    return linear(node, node.tensor_of(), node.tensor_of("weight"), node.optional("bias"))


def _read_batch_sum(node: Node) -> Value:
    """beta * self + alpha * (the sum of the products of a batch)."""
    x = node.tensor_of()
    product = node.helper("matmul_core", node.tensor_of("batch1"), node.tensor_of("batch2"))
    total = node.helper("reduce_sum", product, axes=(0,), keep_dims=False)
    total = scaled(node, total, node.number("alpha", 1))
    beta = node.number("beta", 1)
    return node.make("add", scaled(node, x, beta), total) if beta else total


HANDLERS: dict[str, Read] = {"addbmm": _read_batch_sum}
"""Operators of this family."""

PAIRS = {"linear": Pair(_read_linear)}
"""Functions that rows name after `by`."""
