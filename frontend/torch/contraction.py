"""Matmuls of ATen."""

from __future__ import annotations

from string import ascii_lowercase

from ...base.dtypes import S32, S64
from ..correspondence.compositions.contraction import grouped_matmul, linear, scaled
from ..correspondence.compositions.indexing import positions
from ..correspondence.reading import Pair
from ..einsum import einsum
from ..torch_calls.call import Value
from .node import Node, Read


def _read_linear(node: Node, _: str) -> Value:
    return linear(node, node.tensor_of(), node.tensor_of("weight"), node.optional("bias"))


def _read_batch_sum(node: Node) -> Value:
    """beta * self + alpha * (the sum of a batch of matmuls)."""
    x = node.tensor_of()
    matmul = node.helper("matmul_core", node.tensor_of("batch1"), node.tensor_of("batch2"))
    total = node.helper("reduce_sum", matmul, axes=(0,), keep_dims=False)
    total = scaled(node, total, node.number("alpha", 1))
    beta = node.number("beta", 1)
    return node.make("add", scaled(node, x, beta), total) if beta else total


def _read_three(node: Node) -> Value:
    """Multiply three tensors, each with axes of one element inserted, summed over some axes: `nn.Bilinear`."""
    tensors = [node.tensor_of(f"i{k}") for k in (1, 2, 3)]
    added = [node.attr_ints(f"expand{k}") for k in (1, 2, 3)]
    axes, summed = range(tensors[0].details.rank + len(added[0])), node.attr_ints("sumdim")
    node.argument("unroll_dim")  # how PyTorch computes it
    terms, (result,) = (
        ["".join(ascii_lowercase[i] for i in axes if i not in left) for left in lists]
        for lists in (added, [summed])
    )
    return einsum(node, f"{','.join(terms)}->{result}", tensors)


def _read_groups(node: Node) -> Value:
    """Rows times the matrix of their group: experts, whose rows end at `offs`."""
    a, b = node.tensor_of(), node.tensor_of("mat2" if node.has("mat2") else "weight")
    if (a.details.rank, b.details.rank) != (2, 3) or node.given("bias"):
        raise node.unsupported("other groups than of rows, or a bias")
    ends = node.converted(node.reshaped(node.tensor_of("offs"), (1, b.details.plain_dims[0])), S64)
    ended = node.helper("ge", positions(node, a.details.plain_dims[0], 0, 2), ends)
    expert = node.helper("reduce_sum", node.converted(ended, S64), axes=(1,), keep_dims=False)
    c = grouped_matmul(node, a, b, expert)
    return node.converted(c, node.dtype("out_dtype") or a.details.dtype)


HANDLERS: dict[str, Read] = {
    "_int_mm": lambda node: node.make(
        "matmul_core", node.tensor_of(), node.tensor_of("mat2"), dtype=S32
    ),
    "addbmm": _read_batch_sum,
    "_trilinear": _read_three,
    **dict.fromkeys(("_grouped_mm", "transformers::grouped_mm_fallback"), _read_groups),
}

PAIRS = {"linear": Pair(_read_linear)}
