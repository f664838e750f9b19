"""PyTorch functions with names of NumPy: stacks, flat views, membership."""

from __future__ import annotations

import math

from ....base.dims import Size, maximum
from ....base.dtypes import F64, S64
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder, like
from .axes import diag_embed, differences, mesh_grid
from .indexing import positions, wrapped
from .movement import flatten_range, flip, stack
from .order import sort
from .reduction import lp_norm


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


def ravel(node: OpBuilder, x: Tensor) -> Tensor:
    """All elements as a vector."""
    return flatten_range(node, x)


def take(node: OpBuilder, x: Tensor, index: Tensor) -> Tensor:
    """Elements at indices into all of x, negative ones counted from the back."""
    flat = flatten_range(node, x)
    at = wrapped(node, node.converted(index, S64), (x.details.elements,))
    return node.make("gather", flat, node.reshaped(at, index.details.plain_dims), axis=0)


def reverse_axis(node: OpBuilder, x: Tensor, axis: int = 0) -> Tensor:
    """X with the elements of one axis in reverse order."""
    return flip(node, x, (axis,))


def is_in(node: OpBuilder, x: Tensor, values: Tensor, invert: bool = False) -> Tensor:
    """Return whether each element is one of the values, or none of them if `invert`."""
    each = node.reshaped(x, (*x.details.plain_dims, 1))
    equal = node.helper("eq", each, flatten_range(node, values))
    found = node.helper("reduce_any", equal, axes=(x.details.rank,), keep_dims=False)
    return node.make("not", found) if invert else found


def is_close(
    node: OpBuilder,
    x: Tensor,
    y: Tensor,
    rtol: float = 1e-5,
    atol: float = 1e-8,
    equal_nan: bool = False,
) -> Tensor:
    """|x - y| <= atol + rtol * |y|, or equal; NaN to NaN if `equal_nan`."""
    wide = x if x.details.dtype.is_float else node.converted(x, F64)
    other = node.converted(y, wide.details.dtype)
    away = node.helper("abs", node.helper("sub", wide, other))
    part = node.helper("mul", node.helper("abs", other), like(node, rtol, wide))
    near = node.helper("le", away, node.helper("add", part, like(node, atol, wide)))
    finite = node.helper("lt", away, like(node, math.inf, wide))
    close = node.helper("or", node.helper("and", near, finite), node.helper("eq", wide, other))
    if not equal_nan:
        return close
    both = node.helper("and", node.helper("isnan", wide), node.helper("isnan", other))
    return node.make("or", close, both)


def float_power(node: OpBuilder, x: Tensor, exponent: Tensor) -> Tensor:
    """The power in f64."""
    return node.make("pow", node.converted(x, F64), node.converted(exponent, F64))


def sorted_rows(node: OpBuilder, x: Tensor) -> Tensor:
    """The elements of the first axis in order (torch.msort)."""
    return sort(node, x, 0)[0]


def diagonal_of_all(node: OpBuilder, x: Tensor, offset: int = 0) -> Tensor:
    """A matrix whose diagonal are all elements of x (torch.diagflat)."""
    return diag_embed(node, flatten_range(node, x), offset)


def cartesian_prod(node: OpBuilder, *vectors: Tensor) -> Tensor:
    """Rows of one element of each vector, those of the last first."""
    grids = [flatten_range(node, grid) for grid in mesh_grid(node, vectors)]
    return grids[0] if len(grids) == 1 else stack(node, *grids, at=1)


def vandermonde(
    node: OpBuilder, x: Tensor, count: Size | None = None, increasing: bool = False
) -> Tensor:
    """Columns of powers of a vector, from 0 or down to 0."""
    size = x.details.elements if count is None else count
    powers = node.converted(positions(node, size, 1, 2), x.details.dtype)
    table = node.helper("pow", node.reshaped(x, (x.details.elements, 1)), powers)
    return table if increasing else flip(node, table, (1,))


def trapezoids(
    node: OpBuilder, y: Tensor, spacing: Tensor, at: int = -1, running: bool = False
) -> Tensor:
    """The integral along an axis by trapezoids between points, whose distance or positions are given."""
    axis, size = node.axis(at, y.details.rank), y.details.plain_dims[node.axis(at, y.details.rank)]
    later, earlier = (node.sliced(y, axis, begin, maximum(size - 1, 0)) for begin in (1, 0))
    total = node.helper("add", later, earlier)
    if spacing.details.rank == 1 and y.details.rank > 1:
        spacing = node.reshaped(spacing, [size if i == axis else 1 for i in range(y.details.rank)])
    wide = differences(node, spacing, 1, axis) if spacing.details.rank else spacing
    areas = node.helper("mul", node.helper("mul", total, like(node, 0.5, y)), wide)
    if running:
        return node.make("cum_sum", areas, axis=axis)
    return node.make("reduce_sum", areas, axes=(axis,), keep_dims=False)


def norm_of_difference(node: OpBuilder, x: Tensor, y: Tensor, p: float = 2.0) -> Tensor:
    """The p-norm of all elements of x - y (torch.dist)."""
    return lp_norm(node, node.helper("sub", x, y), p, None, False)
