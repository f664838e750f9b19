"""Attention as the CPU's kernels have it, whose second output is of training, and the softmax it is made of."""

from __future__ import annotations

import re

from ..correspondence.reading import Pair
from ..torch_calls.call import Value
from ..torch_calls.op_table import READS
from .node import Node


def _read_kernel(node: Node, name: str) -> list[Value]:
    """Read an attention kernel, repeating shared heads of keys. Inference does not need the log of the sums."""
    heads = [node.tensor_of(x).details.plain_dims[-3:-2] for x in ("query", "key")]
    node.bound = {**node.bound, "enable_gqa": heads[0] != heads[1]}
    found = READS["attention"](node, name)
    return [found, None]


def _read_encoder_layer(node: Node, name: str) -> Value:
    """Read an encoder layer like PNNX, which numbers the weights elsewhere in their names."""
    node.bound = {
        re.sub(r"(norm|ffn)_(\w+)_(\d)", r"\1\3_\2", key): x for key, x in node.bound.items()
    }
    node.argument("embed_dim")
    return READS["encoder_layer"](node, name)


PAIRS = {"attention_kernel": Pair(_read_kernel), "encoder_layer_kernel": Pair(_read_encoder_layer)}
