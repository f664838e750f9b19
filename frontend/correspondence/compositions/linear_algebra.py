"""Operators of formats that use matrix factorizations."""

from __future__ import annotations

import numpy as np

from ....base.dtypes import BOOL, S32, DType
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder


def outputs(node: OpBuilder, op_name: str, *inputs: Tensor) -> list[Tensor]:
    """Return all results of an op that the node's main op needs."""
    return node.graph.make(op_name, inputs, {}, f"{node.name}.{op_name}").outputs


def swapped(node: OpBuilder, x: Tensor) -> Tensor:
    """Return matrices transposed."""
    rank = x.details.rank
    return node.transposed(x, (*range(rank - 2), rank - 1, rank - 2))


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
    *outer, size = x.details.plain_dims
    if not size:
        return node.constant(np.zeros(outer), S32)
    number = node.helper("arg_max", node.converted(x, S32), axis=-1, keep_dims=False)
    counted = node.helper("add", node.converted(number, S32), node.constant(1, S32))
    found = node.helper("reduce_any", x, axes=(-1,), keep_dims=False)
    return node.helper("select", found, counted, node.constant(0, S32))


def pivot_signs(node: OpBuilder, pivots: Tensor, dtype: DType) -> Tensor:
    """Return -1 for each exchange of two rows, 1 for each pivot that stays."""
    own = node.constant(np.arange(pivots.details.plain_dims[-1]), S32)
    moved = node.helper("ne", pivots, own)
    return node.helper("select", moved, node.constant(-1, dtype), node.constant(1, dtype))


def determinant(node: OpBuilder, x: Tensor) -> Tensor:
    """Determinants of matrices [.., n, n]: the pivots multiplied, with a sign for each exchange of rows."""
    dtype, size = x.details.dtype, x.details.plain_dims[-1]
    if not size:
        return node.constant(np.ones(x.details.plain_dims[:-2]), dtype)
    factors, pivots, _ = outputs(node, "lu", x)
    terms = node.helper("mul", diagonal(node, factors), pivot_signs(node, pivots, dtype))
    return node.make("reduce_prod", terms, axes=(-1,), keep_dims=False)


def inverse(node: OpBuilder, x: Tensor) -> Tensor:
    """Inverse of matrices [.., n, n]. Singular ones give values that are not finite."""
    factors, _, order = outputs(node, "lu", x)
    return substituted(node, factors, node.converted(permutation(node, order), x.details.dtype))


def permutation(node: OpBuilder, order: Tensor) -> Tensor:
    """Return matrices of bools, true at (k, order[k])."""
    numbers = node.constant(np.arange(order.details.plain_dims[-1]), S32)
    return node.helper("eq", node.reshaped(order, (*order.details.plain_dims, 1)), numbers)


def identity_like(node: OpBuilder, x: Tensor) -> Tensor:
    """Return bools in the shape of matrices [.., n, n], true on the diagonal."""
    ones = node.constant(np.eye(x.details.plain_dims[-1]), BOOL)
    nowhere = node.helper("ne", node.converted(x, BOOL), node.converted(x, BOOL))
    return node.helper("or", nowhere, ones)


def solution(node: OpBuilder, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return x with a @ x = b, for matrices b with the batch of a, and the LU factors of a."""
    factors, _, order = outputs(node, "lu", a)
    zeros = node.constant(np.zeros(b.details.plain_dims[-2:]), S32)
    index = node.helper("add", node.reshaped(order, (*order.details.plain_dims, 1)), zeros)
    rows = node.helper("gather_elements", b, index, axis=b.details.rank - 2)
    return substituted(node, factors, rows), factors


def substituted(node: OpBuilder, factors: Tensor, rows: Tensor) -> Tensor:
    """Return the solution of the systems of both LU factors, for rows that are exchanged already."""
    half = node.helper("triangular_solve", factors, rows, lower=True, unit_diagonal=True)
    return node.make("triangular_solve", factors, half)
