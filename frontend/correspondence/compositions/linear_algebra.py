"""What formats ask of the factors of matrices."""

from __future__ import annotations

import numpy as np

from ....base.dtypes import BOOL, S32
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder


def diagonal(node: OpBuilder, x: Tensor) -> Tensor:
    """[.., min(m, n)] of matrices [.., m, n]."""
    *outer, rows, columns = x.details.plain_dims
    size = min(rows, columns)
    square = node.sliced(node.sliced(x, len(outer), 0, size), len(outer) + 1, 0, size)
    ones = node.constant(np.eye(size), BOOL)
    only = node.helper("select", ones, square, node.constant(0, x.details.dtype))
    return node.helper("reduce_sum", only, axes=(-1,), keep_dims=False)


def first_true(node: OpBuilder, x: Tensor) -> Tensor:
    """The number, counted from 1, of the first true element of the last axis, 0 where there is none: s32."""
    number = node.helper("arg_max", node.converted(x, S32), axis=-1, keep_dims=False)
    counted = node.helper("add", node.converted(number, S32), node.constant(1, S32))
    found = node.helper("reduce_any", x, axes=(-1,), keep_dims=False)
    return node.helper("select", found, counted, node.constant(0, S32))


def determinant(node: OpBuilder, x: Tensor) -> Tensor:
    """Of matrices [.., n, n]: the product of the pivots, with a sign for each exchange of rows."""
    dtype, size = x.details.dtype, x.details.plain_dims[-1]
    if not size:
        return node.constant(np.ones(x.details.plain_dims[:-2]), dtype)
    factors, pivots, _ = node.graph.make("lu", [x], {}, f"{node.name}.lu").outputs
    moved = node.helper("ne", pivots, node.constant(np.arange(size), S32))
    signs = node.helper("select", moved, node.constant(-1, dtype), node.constant(1, dtype))
    terms = node.helper("mul", diagonal(node, factors), signs)
    return node.make("reduce_prod", terms, axes=(-1,), keep_dims=False)


def inverse(node: OpBuilder, x: Tensor) -> Tensor:
    """Of matrices [.., n, n]: both factors' systems solved for the exchanged rows of the identity.

    Singular ones give what is not finite.
    """
    factors, _, order = node.graph.make("lu", [x], {}, f"{node.name}.lu").outputs
    numbers = node.constant(np.arange(x.details.plain_dims[-1]), S32)
    rows = node.reshaped(order, (*order.details.plain_dims, 1))
    exchanged = node.converted(node.helper("eq", rows, numbers), x.details.dtype)
    half = node.helper("triangular_solve", factors, exchanged, lower=True, unit_diagonal=True)
    return node.make("triangular_solve", factors, half)
