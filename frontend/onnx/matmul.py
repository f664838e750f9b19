"""Matrix products: MatMul, Gemm and Einsum as `matmul_core` and surrounding ops."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from ...graph_ir.ir.graph import GraphTensor, Op
from ..correspondence.reading import Pair
from ..einsum import einsum
from ..op_builder import Value
from .export import Exporter
from .scope import Handler, NodeContext


def product(node: NodeContext, a: GraphTensor, b: GraphTensor) -> GraphTensor:
    """ONNX's matrix product: vectors are treated as a row or a column, and that axis is removed again."""
    a_dims, b_dims = a.details.plain_dims, b.details.plain_dims
    if not a_dims or not b_dims:
        raise node.rule("inputs must not be scalars", f"{a.details} and {b.details}")
    if len(a_dims) == 1:
        a = node.reshaped(a, (1, *a_dims))
    if len(b_dims) == 1:
        b = node.reshaped(b, (*b_dims, 1))
    result = node.make("matmul_core", a, b)
    dims = list(result.details.plain_dims)
    if len(b_dims) == 1:
        dims.pop()
    if len(a_dims) == 1:
        dims.pop(len(dims) - (1 if len(b_dims) == 1 else 2))
    return node.reshaped(result, dims)


def _read_matmul(node: NodeContext, _: str) -> Value:
    return product(node, node.tensor(0), node.tensor(1))


def _read_gemm(node: NodeContext, _: str) -> Value:
    a, b = node.tensor(0), node.tensor(1)
    if a.details.rank != 2 or b.details.rank != 2:
        raise node.rule("A and B must be matrices", f"{a.details} and {b.details}")
    attrs = {
        "transpose_a": node.attr_bool("transA"),
        "transpose_b": node.attr_bool("transB"),
    }
    result = node.make("matmul_core", a, b, **attrs)
    result = _scaled(node, result, node.attr_float("alpha"), "alpha")
    if not node.has(2):
        return result
    bias = _scaled_bias(node, node.attr_float("beta"))
    dims = result.details.plain_dims
    try:
        fits = np.broadcast_shapes(bias.details.plain_dims, dims) == dims
    except ValueError:
        fits = False
    if not fits:
        raise node.rule(
            f"C must broadcast to {list(dims)}", f"C of shape {list(bias.details.plain_dims)}"
        )
    return node.helper("add", result, bias)


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
    return node.helper("mul", x, node.constant(factor, dtype))


def _einsum(node: NodeContext) -> Value:
    return einsum(node, node.attr_text("equation"), node.tensors())


def _write_product(e: Exporter, op: Op, op_type: str) -> None:
    """Gemm if matrices are transposed; stacks of matrices and integers use separate Transpose nodes."""
    product, values = cast(Any, op), e.values(op)
    turned = [product.transpose_a, product.transpose_b]
    if product.dtype is not None:
        op_type = "MatMulInteger"
    elif op_type == "Gemm":
        e.node(op, op_type, values, transA=int(turned[0]), transB=int(turned[1]))
        return
    for i, x in enumerate(op.inputs):
        if turned[i]:
            rank = x.details.rank
            perm = (*range(rank - 2), rank - 1, rank - 2)
            values[i] = e.part(op, "Transpose", [values[i]], perm=perm)
    e.node(op, op_type, values)


PAIRS = {"gemm": Pair(_read_gemm, _write_product), "matmul": Pair(_read_matmul, _write_product)}
"""Functions that rows name after `by`."""

HANDLERS: dict[str, Handler] = {"Einsum": _einsum}
