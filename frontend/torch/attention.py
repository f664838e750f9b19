"""Attention as the CPU's kernels have it, whose second output is of training, and the softmax it is made of."""

from __future__ import annotations

from ..correspondence.reading import Pair
from ..torch_calls.call import Value
from ..torch_calls.op_table import READS
from .node import Node


def _read_kernel(node: Node, name: str) -> list[Value]:
    """The log of the sums is needed by nobody in inference; it is computed all the same if it is asked for."""
    found = READS["attention"](node, name)
    return [found, None]


PAIRS = {"attention_kernel": Pair(_read_kernel)}
"""Functions that rows name after `by`."""
