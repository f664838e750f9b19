"""Matrix products: MatMul and Gemm as `matmul_core` plus what surrounds it."""

from __future__ import annotations

import numpy as np

from ...graph_ir.graph import GraphTensor
from .scope import Handler, NodeContext, Value


def _matmul(node: NodeContext) -> Value:
    a, b = node.tensor(0), node.tensor(1)
    a_dims, b_dims = a.details.plain_dims, b.details.plain_dims
    if not a_dims or not b_dims:
        raise node.rule("inputs must not be scalars", f"{a.details} and {b.details}")
    if len(a_dims) == 1:
        a = node.reshaped(a, (1, *a_dims))
    if len(b_dims) == 1:
        b = node.reshaped(b, (*b_dims, 1))
    product = node.make("matmul_core", [a, b])
    dims = list(product.details.plain_dims)
    if len(b_dims) == 1:
        dims.pop()
    if len(a_dims) == 1:
        dims.pop(len(dims) - (1 if len(b_dims) == 1 else 2))
    return node.reshaped(product, dims)


def _gemm(node: NodeContext) -> Value:
    a, b = node.tensor(0), node.tensor(1)
    if a.details.rank != 2 or b.details.rank != 2:
        raise node.rule("A and B must be matrices", f"{a.details} and {b.details}")
    attrs = {
        "transpose_a": bool(node.attr_int("transA", 0)),
        "transpose_b": bool(node.attr_int("transB", 0)),
    }
    product = node.make("matmul_core", [a, b], attrs)
    product = _scaled(node, product, node.attr_float("alpha", 1.0), "alpha")
    if not node.has(2):
        return product
    bias = _scaled_bias(node, node.attr_float("beta", 1.0))
    dims = product.details.plain_dims
    try:
        fits = np.broadcast_shapes(bias.details.plain_dims, dims) == dims
    except ValueError:
        fits = False
    if not fits:
        raise node.rule(
            f"C must broadcast to {list(dims)}", f"C of shape {list(bias.details.plain_dims)}"
        )
    return node.helper("add", [product, bias])


def _scaled_bias(node: NodeContext, beta: float) -> GraphTensor:
    known = node.known(2)
    if known is None or beta == 1.0 or known.dtype.kind in "iu":
        return _scaled(node, node.tensor(2), beta, "beta")
    return node.constant(known * known.dtype.type(beta), node.details(2).dtype)


def _scaled(node: NodeContext, x: GraphTensor, factor: float, what: str) -> GraphTensor:
    if factor == 1.0:
        return x
    dtype = x.details.dtype
    if not dtype.is_float and not factor.is_integer():
        raise node.unsupported(f"{what}={factor} with {dtype} inputs")
    return node.helper("mul", [x, node.constant(factor, dtype)])


HANDLERS: dict[str, Handler] = {"MatMul": _matmul, "Gemm": _gemm}
