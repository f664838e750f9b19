"""Matrix products: nn.Linear, F.linear, torch.matmul and its relatives, einsum."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...graph_ir.ir.graph import GraphTensor
from ..einsum import einsum
from .builder import Builder
from .scope import Handler, Node, Value


def _linear_module(node: Node) -> Value:
    x = node.tensor_of()
    dtype = x.details.dtype
    has_bias = node.attr_bool("bias", True)
    rows = node.reshaped(x, (1, *x.details.plain_dims)) if x.details.rank == 1 else x
    weight = node.weight("weight", dtype)
    sizes = tuple(
        node.attr_int(n, s)
        for n, s in zip(("out_features", "in_features"), weight.details.plain_dims, strict=False)
    )
    if weight.details.plain_dims != sizes or len(sizes) != 2:
        wanted = ",".join(str(node.attr_int(n, -1)) for n in ("out_features", "in_features"))
        raise node.rule(f"weight must have shape [{wanted}]", str(weight.details))
    product = _product(node, rows, weight)
    if has_bias:
        product = _biased(node, product, node.weight("bias", dtype))
    return node.reshaped(product, (*x.details.plain_dims[:-1], sizes[0]))


def _linear(node: Node) -> Value:
    x, weight = node.tensor_of(), node.tensor_of("weight")
    dtype = x.details.dtype
    if weight.details.rank != 2:
        raise node.rule("weight must be a matrix", str(weight.details))
    rows = node.reshaped(x, (1, *x.details.plain_dims)) if x.details.rank == 1 else x
    product = _product(node, rows, node.converted(weight, dtype))
    bias = node.optional("bias", dtype)
    product = product if bias is None else _biased(node, product, bias)
    return node.reshaped(product, (*x.details.plain_dims[:-1], weight.details.plain_dims[0]))


def _product(node: Node, rows: GraphTensor, weight: GraphTensor) -> GraphTensor:
    if not rows.details.rank:
        raise node.rule("the input must have axes", str(rows.details))
    return node.make("matmul_core", rows, weight, transpose_b=True)


def _biased(node: Node, product: GraphTensor, bias: GraphTensor) -> GraphTensor:
    size = product.details.plain_dims[-1]
    if bias.details.plain_dims not in ((size,), ()):
        raise node.rule(f"bias must have shape [{size}]", str(bias.details))
    return node.helper("add", product, bias)


def matmul(b: Builder, x: GraphTensor, y: GraphTensor) -> GraphTensor:
    """torch.matmul: a vector is a row on the left, a column on the right, and that axis is removed again."""
    x_dims, y_dims = x.details.plain_dims, y.details.plain_dims
    if not x_dims or not y_dims:
        raise b.rule("inputs must not be scalars", f"{x.details} and {y.details}")
    x = b.reshaped(x, (1, *x_dims)) if len(x_dims) == 1 else x
    y = b.reshaped(y, (*y_dims, 1)) if len(y_dims) == 1 else y
    product = b.make("matmul_core", x, y)
    dims = list(product.details.plain_dims)
    if len(y_dims) == 1:
        dims.pop()
    if len(x_dims) == 1:
        dims.pop(len(dims) - (1 if len(y_dims) == 1 else 2))
    return b.reshaped(product, dims)


def _matmul(ranks: tuple[int, int] | None, right: str) -> Handler:
    """A product of tensors of fixed ranks, or of any where `ranks` is None."""

    def run(node: Node) -> Value:
        x, y = node.tensor_of(), node.tensor_of(right)
        if ranks is not None and (x.details.rank, y.details.rank) != ranks:
            raise node.rule(
                f"inputs must have {ranks[0]} and {ranks[1]} axes", f"{x.details} and {y.details}"
            )
        return matmul(node, x, y)

    return Handler(run, ("input", right))


def _added(names: tuple[str, str], rank: int) -> Handler:
    """beta * input + alpha * (a @ b)."""

    def run(node: Node) -> Value:
        a, b = (node.tensor_of(name) for name in names)
        if a.details.rank != rank or b.details.rank != rank:
            raise node.rule(
                f"{names[0]} and {names[1]} must have {rank} axes", f"{a.details} and {b.details}"
            )
        product = scaled(node, node.make("matmul_core", a, b), node.attr_float("alpha", 1))
        beta = node.attr_float("beta", 1)
        node.argument("input")
        if beta == 0:  # the input is then not read, not even its NaN
            return product
        added = scaled(node, node.tensor_of("input", product.details.dtype), beta)
        dims = product.details.plain_dims
        if not _fits(added.details.plain_dims, dims):
            raise node.rule(f"input must broadcast to {list(dims)}", str(added.details))
        return node.helper("add", product, added)

    return Handler(run, ("input", *names))


def _fits(dims: Sequence[int], target: Sequence[int]) -> bool:
    try:
        return tuple(np.broadcast_shapes(tuple(dims), tuple(target))) == tuple(target)
    except ValueError:
        return False


def scaled(b: Builder, x: GraphTensor, factor: float) -> GraphTensor:
    """X times a number; x itself for 1. UserError for an integer tensor and a fractional factor."""
    if factor == 1:
        return x
    dtype = x.details.dtype
    if not dtype.is_float and not float(factor).is_integer():
        raise b.rule(f"a factor of {dtype} tensors must be whole", str(factor))
    return b.helper("mul", x, b.constant(factor, dtype))


# einsum


def _einsum(node: Node) -> Value:
    equation = node.text("equation")
    if not equation:
        raise node.rule("equation must be given", "nothing")
    operands = [x for x in node.values if isinstance(x, GraphTensor)]
    if len(operands) != len(node.values):
        raise node.rule(
            "all operands must be tensors", f"{len(node.values) - len(operands)} others"
        )
    return einsum(node, equation, operands)


HANDLERS: dict[str, Handler] = {
    "nn.Linear": Handler(_linear_module),
    "F.linear": Handler(_linear, ("input", "weight", "bias")),
    "torch.matmul": _matmul(None, "other"),
    "Tensor.matmul": _matmul(None, "other"),
    "torch.mm": _matmul((2, 2), "mat2"),
    "torch.bmm": _matmul((3, 3), "mat2"),
    "torch.mv": _matmul((2, 1), "vec"),
    "torch.dot": _matmul((1, 1), "other"),
    "torch.addmm": _added(("mat1", "mat2"), 2),
    "torch.baddbmm": _added(("batch1", "batch2"), 3),
    "torch.einsum": Handler(_einsum, ("*",)),
}
"""Operators of this family."""
