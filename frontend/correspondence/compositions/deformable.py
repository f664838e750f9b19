"""Deformable convolutions: every window element is read at a computed point between pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ....base.dtypes import S64
from ....base.records import dataclass
from ....graph_ir.ir.graph import Array
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...grid_sample import sample_at
from ...op_builder import OpBuilder
from .windows import Padding, biased


@dataclass(frozen=True)
class Deformed:
    """`offset_groups` parts of the channels have points of their own."""

    strides: Sequence[int]
    dilations: Sequence[int]
    padding: Padding
    groups: int
    offset_groups: int


def deformable_convolution(
    node: OpBuilder,
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    how: Deformed,
) -> Tensor:
    """[N, O, out...] of x [N, C, sizes...] and weight [O, C / groups, kernel...].

    offset [N, offset groups * kernel * axes, out...] moves the points of the windows, the first axis first, and mask
    [N, offset groups * kernel, out...] multiplies what is read there.
    """
    out = _checked(node, x, weight, offset, mask, how)
    wide = x.details.dtype.accumulator
    many, kernel = how.offset_groups, weight.details.plain_dims[2:]
    n, c, *sizes = x.details.plain_dims
    elements, points = math.prod(kernel), math.prod(out)
    own = node.reshaped(node.converted(offset, wide), (n, many, elements, len(sizes), points))
    own = node.transposed(own, (3, 0, 4, 1, 2))  # [axes, N, points, offset groups, elements]
    coordinates = []
    for axis in range(len(sizes)):
        moved = node.reshaped(node.sliced(own, 0, axis, 1), (n, points, many, elements))
        regular = _regular(axis, out, kernel, how)
        coordinates.append(node.helper("add", moved, node.constant(regular, wide)))
    rows = node.reshaped(x, (n, many, c // many, math.prod(sizes)))
    rows = node.reshaped(
        node.transposed(rows, (0, 1, 3, 2)), (n * many * math.prod(sizes), c // many)
    )
    first = np.arange(n * many).reshape(n, 1, many, 1) * math.prod(sizes)
    read = sample_at(node, rows, node.constant(first, S64), sizes, coordinates)
    if mask is not None:
        factors = node.reshaped(node.converted(mask, wide), (n, many, elements, points))
        factors = node.transposed(factors, (0, 3, 1, 2))
        read = node.helper("mul", read, node.reshaped(factors, (n, points, many, elements, 1)))
    y = _contract(node, node.converted(read, x.details.dtype), weight, how.groups)
    return biased(node, node.reshaped(y, (n, weight.details.plain_dims[0], *out)), bias)


def _checked(
    node: OpBuilder, x: Tensor, weight: Tensor, offset: Tensor, mask: Tensor | None, how: Deformed
) -> tuple[int, ...]:
    """The sizes of the result. Raise UserError if anything does not fit."""
    dims, kernel = x.details.plain_dims, weight.details.plain_dims[2:]
    rank, channels = len(dims), dims[1] if len(dims) > 1 else 0
    fits = rank > 2 and weight.details.rank == rank and how.groups > 0 and how.offset_groups > 0
    fits = fits and weight.details.plain_dims[1] * how.groups == channels
    if not fits or weight.details.plain_dims[0] % how.groups or channels % how.offset_groups:
        raise node.rule(
            "X must be [N, C, sizes], W [O, C / group, kernel], group must divide O and offset_group C",
            f"{x.details}, {weight.details}, {how.groups} and {how.offset_groups}",
        )
    before, after = how.padding
    out = tuple(
        (dims[i + 2] + before[i] + after[i] - how.dilations[i] * (k - 1) - 1) // how.strides[i] + 1
        for i, k in enumerate(kernel)
    )
    elements = how.offset_groups * math.prod(kernel)
    for what, given, count in (
        ("offset", offset, elements * len(kernel)),
        ("mask", mask, elements),
    ):
        wanted = (dims[0], count, *out)
        if given is not None and given.details.plain_dims != wanted:
            raise node.rule(f"{what} must have shape {list(wanted)}", str(given.details))
    return out


def _regular(axis: int, out: Sequence[int], kernel: Sequence[int], how: Deformed) -> Array:
    """Coordinates along an axis of the window elements where nothing is moved, [1, points, 1, elements]."""
    step, gap = how.strides[axis], how.dilations[axis]
    starts = np.arange(out[axis]) * step - how.padding[0][axis]
    steps, elements = (
        np.moveaxis(np.indices(n), 0, -1)[..., axis].reshape(-1) for n in (out, kernel)
    )
    return (starts[steps][:, None] + elements * gap).reshape(1, math.prod(out), 1, -1)


def _contract(node: OpBuilder, read: Tensor, weight: Tensor, groups: int) -> Tensor:
    """[N, O, points] of what was read, [N, points, offset groups, elements, channels of each]."""
    n, points, many, elements, width = read.details.plain_dims
    o, c, *_ = weight.details.plain_dims
    if groups == 1:  # rows in the order in which they were read, and weights that can be packed
        matrix = node.reshaped(weight, (o, many, width, elements))
        matrix = node.reshaped(node.transposed(matrix, (0, 1, 3, 2)), (o, c * elements))
        rows = node.reshaped(read, (n * points, c * elements))
        y = node.make("matmul_core", rows, matrix, transpose_b=True)
        return node.transposed(node.reshaped(y, (n, points, o)), (0, 2, 1))
    columns = node.transposed(read, (0, 2, 4, 3, 1))
    columns = node.reshaped(columns, (n, groups, c * elements, points))
    matrix = node.reshaped(weight, (groups, o // groups, c * elements))
    return node.make("matmul_core", matrix, columns)
