"""Matmuls: MatMul, Gemm and Einsum as `matmul_core` and surrounding ops."""

from __future__ import annotations

from typing import Any, cast

from ...graph_ir.ir.graph import GraphTensor, Op
from ..correspondence.compositions.contraction import matmul, plus, scaled
from ..correspondence.reading import Pair
from ..op_builder import Value
from .export import Exporter
from .scope import NodeContext


def _read_matmul(node: NodeContext, _: str) -> Value:
    return matmul(node, node.tensor(0), node.tensor(1))


def read_gemm(node: NodeContext, _: str) -> GraphTensor:
    """Read a matmul of two matrices, scaled, and a bias."""
    a, b = node.tensor(0), node.tensor(1)
    if a.details.rank != 2 or b.details.rank != 2:
        raise node.rule("A and B must be matrices", f"{a.details} and {b.details}")
    attrs = {"transpose_a": node.attr_bool("transA"), "transpose_b": node.attr_bool("transB")}
    result = node.make("matmul_core", a, b, **attrs)
    result = scaled(node, result, node.attr_float("alpha"))
    if not node.has(2):
        return result
    return plus(node, result, _scaled_bias(node, node.attr_float("beta")))


def _scaled_bias(node: NodeContext, beta: float) -> GraphTensor:
    known = node.known(2)
    if known is None or beta == 1.0 or known.dtype.kind in "iu":
        return scaled(node, node.tensor(2), beta)
    return node.constant(known * known.dtype.type(beta), node.details(2).dtype)


def _write_matmul(e: Exporter, op: Op, op_type: str) -> None:
    """Gemm if matrices are transposed; stacks of matrices and integers use separate Transpose nodes."""
    contraction, values = cast(Any, op), e.values(op)
    transposes = [contraction.transpose_a, contraction.transpose_b]
    if contraction.dtype is not None:
        op_type = "MatMulInteger"
    elif op_type == "Gemm":
        e.node(op, op_type, values, transA=int(transposes[0]), transB=int(transposes[1]))
        return
    for i, x in enumerate(op.inputs):
        if transposes[i]:
            rank = x.details.rank
            perm = (*range(rank - 2), rank - 1, rank - 2)
            values[i] = e.part(op, "Transpose", [values[i]], perm=perm)
    e.node(op, op_type, values)


PAIRS = {"gemm": Pair(read_gemm, _write_matmul), "matmul": Pair(_read_matmul, _write_matmul)}
