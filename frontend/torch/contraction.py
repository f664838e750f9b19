"""Matrix products of ATen."""

from __future__ import annotations

from ..correspondence.compositions.contraction import linear
from ..correspondence.reading import Pair
from ..torch_calls.call import Value
from .node import Node


def _read_linear(node: Node, _: str) -> Value:
    return linear(node, node.tensor_of(), node.tensor_of("weight"), node.optional("bias"))


PAIRS = {"linear": Pair(_read_linear)}
"""Functions that rows name after `by`."""
