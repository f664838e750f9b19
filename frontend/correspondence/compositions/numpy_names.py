"""PyTorch functions with names of NumPy: stacks, flat views, membership."""

from __future__ import annotations

import itertools

import numpy as np

from ....base.dims import Size
from ....base.dtypes import S64
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder, like
from .axes import diagonal
from .indexing import positions, wrapped
from .movement import flatten_range, flip


def with_axes(node: OpBuilder, x: Tensor, rank: int) -> Tensor:
    """X with at least `rank` axes: new ones of 1 element come first, but the third last."""
    dims = x.details.plain_dims
    if len(dims) >= rank:
        return x
    if rank == 3 and dims:
        return node.reshaped(x, (*(1,) * (2 - len(dims)), *dims, 1))
    return node.reshaped(x, (*(1,) * (rank - len(dims)), *dims))


def stack_columns(node: OpBuilder, *tensors: Tensor) -> Tensor:
    """Tensors joined along the second axis; vectors are columns."""
    wide = [node.reshaped(x, (x.details.elements, 1)) if x.details.rank < 2 else x for x in tensors]
    return node.make("concat", *wide, axis=1)


def stack_along(node: OpBuilder, *tensors: Tensor, axis: int = 0) -> Tensor:
    """Tensors joined along the first, second or third axis, which they get; vectors along their own if `axis` is 1."""
    wide = [with_axes(node, x, 1 if axis == 1 else max(axis + 1, 2)) for x in tensors]
    return node.make("concat", *wide, axis=min(axis, wide[0].details.rank - 1))


def take(node: OpBuilder, x: Tensor, index: Tensor) -> Tensor:
    """Elements at indices into all of x, negative ones counted from the back."""
    flat = flatten_range(node, x)
    at = wrapped(node, node.converted(index, S64), (x.details.elements,))
    return node.make("gather", flat, node.reshaped(at, index.details.plain_dims), axis=0)


def covariance(
    node: OpBuilder,
    x: Tensor,
    counts: Tensor | None = None,
    weights: Tensor | None = None,
    correction: int = 1,
) -> Tensor:
    """[rows, rows] of the rows of x, or [] of a vector: covariances over the columns, by weights."""
    rows = x if x.details.rank > 1 else node.reshaped(x, (1, x.details.elements))
    one, given = like(node, 1, x), [w for w in (counts, weights) if w is not None]
    share = node.helper("broadcast", one, shape=(rows.details.plain_dims[1],))
    for w in given:
        share = node.helper("mul", share, w)
    total = node.helper("reduce_sum", share, axes=(0,), keep_dims=False)
    less = like(node, correction, x)
    if weights is not None:
        spread = node.helper(
            "reduce_sum", node.helper("mul", share, weights), axes=(0,), keep_dims=False
        )
        less = node.helper("mul", less, node.helper("div", spread, total))
    part = node.helper("div", node.helper("mul", rows, share), total)
    mean = node.helper("reduce_sum", part, axes=(1,), keep_dims=True)
    away = node.helper("sub", rows, mean)
    sums = node.helper("matmul_core", away, node.helper("mul", away, share), transpose_b=True)
    norm = node.helper("max", node.helper("sub", total, less), like(node, 0, x))
    found = node.helper("div", sums, norm)
    return found if x.details.rank > 1 else node.reshaped(found, ())


def correlation(node: OpBuilder, x: Tensor) -> Tensor:
    """Covariances of rows over their standard deviations, from -1 to 1."""
    found = covariance(node, x)
    if x.details.rank < 2:
        return node.make("div", found, found)
    deviation = node.helper("sqrt", diagonal(node, found))
    columns = node.reshaped(deviation, (*deviation.details.plain_dims, 1))
    found = node.helper("div", node.helper("div", found, columns), deviation)
    return node.make("clamp", found, min=-1.0, max=1.0)


def combinations(node: OpBuilder, x: Tensor, size: int = 2, repeats: bool = False) -> Tensor:
    """Rows of `size` elements of a vector in their order, each once or repeated."""
    choose = itertools.combinations_with_replacement if repeats else itertools.combinations
    rows = [*choose(range(x.details.elements), size)]
    index = np.array(rows, np.int64).reshape(len(rows), size)
    return node.make("gather", x, node.constant(index, S64), axis=0)


def vandermonde(
    node: OpBuilder, x: Tensor, count: Size | None = None, increasing: bool = False
) -> Tensor:
    """Columns of powers of a vector, from 0 or down to 0."""
    size = x.details.elements if count is None else count
    powers = node.converted(positions(node, size, 1, 2), x.details.dtype)
    table = node.helper("pow", node.reshaped(x, (x.details.elements, 1)), powers)
    return table if increasing else flip(node, table, (1,))
