"""dot and convolution: axes brought into the order of a batched matrix product."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...dtypes import DType
from ...graph_ir.graph import GraphTensor
from .movement import pad, reverse
from .scope import Handler, Step
from .syntax import DimLabels, PadRange, Window, WindowDimension


def _dot(step: Step) -> GraphTensor:
    if len(step.operands) != 2:
        raise step.unsupported("a sparse or scaled dot")
    a, b = (step.cast(x, step.dtype) for x in step.tensors())
    left, batch, rows = _side(step, a, "lhs")
    right, _, columns = _side(step, b, "rhs")
    product = _product(step, left, right, len(batch))
    return step.reshaped(product, (*batch, *rows, *columns))


_Matrix = tuple[GraphTensor, bool]
"""[batch.., free, contracted], or with the last two swapped where the flag is set."""


def _side(
    step: Step, x: GraphTensor, side: str
) -> tuple[_Matrix, tuple[int, ...], tuple[int, ...]]:
    """(matrix, batch sizes, free sizes) of one operand."""
    dims = x.details.plain_dims
    batch: tuple[int, ...] = step.attribute(f"{side}_batch_dims", ())
    inner: tuple[int, ...] = step.attribute(f"{side}_contracting_dims", ())
    free = tuple(i for i in range(len(dims)) if i not in batch and i not in inner)
    # Contracted axes that come first stay there: the product reads a transposed matrix as well.
    swapped = (*batch, *inner, *free) == tuple(range(len(dims))) and bool(free) and bool(inner)
    order = (*batch, *inner, *free) if swapped else (*batch, *free, *inner)
    sizes = [math.prod(dims[i] for i in group) for group in (free, inner)]
    outer = tuple(dims[i] for i in batch)
    matrix = step.reshaped(
        step.transposed(x, order), (*outer, *(sizes[::-1] if swapped else sizes))
    )
    return (matrix, swapped), outer, tuple(dims[i] for i in free)


def _product(step: Step, left: _Matrix, right: _Matrix, batch: int) -> GraphTensor:
    (a, a_swapped), (b, b_swapped) = left, right
    return step.make("matmul_core", a, b, transpose_a=a_swapped, transpose_b=not b_swapped)


def _convolution(step: Step) -> GraphTensor:
    """Every window of the padded input gathered into a row, times the kernel as a matrix."""
    x, w = (step.cast(t, step.dtype) for t in step.tensors())
    labels = step.typed("dim_labels", DimLabels)
    windows = step.attribute("window", Window(())).dimensions
    spatial = [str(i) for i in range(len(windows))]
    x = step.transposed(x, [labels.lhs.index(c) for c in ("b", *spatial, "f")])
    w = step.transposed(w, [labels.rhs.index(c) for c in (*spatial, "i", "o")])
    w = reverse(step, w, tuple(i for i, window in enumerate(windows) if window.reversal))
    sizes = [step.shape.dims[labels.output.index(c)] for c in spatial]
    rows = _rows(step, _padded(step, x, windows, step.dtype), windows, sizes)
    batches = step.attribute("batch_group_count", 1)
    groups = step.attribute("feature_group_count", 1)
    product = _grouped_product(step, rows, w, len(windows), batches, groups)
    order = ["b", *spatial, "f"]
    return step.transposed(product, [order.index(c) for c in labels.output])


def _padded(
    step: Step, x: GraphTensor, windows: Sequence[WindowDimension], dtype: DType
) -> GraphTensor:
    edges = (PadRange(w.low, w.high, w.base_dilation - 1) for w in windows)
    return pad(step, x, step.constant(0, dtype), (PadRange(0, 0), *edges, PadRange(0, 0)))


def _rows(
    step: Step, x: GraphTensor, windows: Sequence[WindowDimension], sizes: Sequence[int]
) -> GraphTensor:
    """[batch, out.., kernel.., features]: each spatial axis becomes (position, place in the window)."""
    rank = len(windows)
    for i, (window, size) in enumerate(zip(windows, sizes, strict=True)):
        places = np.arange(size)[:, None] * window.stride
        places = places + np.arange(window.size)[None, :] * window.window_dilation
        x = step.make("gather", x, step.constant(places), axis=1 + 2 * i)
    order = [0, *range(1, 1 + 2 * rank, 2), *range(2, 2 + 2 * rank, 2), 1 + 2 * rank]
    return step.transposed(x, order)


def _grouped_product(
    step: Step, rows: GraphTensor, w: GraphTensor, rank: int, batches: int, groups: int
) -> GraphTensor:
    """[batch, out.., output features] of rows [batch, out.., kernel.., features] and w [kernel.., in, out]."""
    dims = rows.details.plain_dims
    batch, out, kernel, features = dims[0], dims[1 : 1 + rank], dims[1 + rank : -1], dims[-1]
    inner, outer = w.details.plain_dims[-2:]
    count = batches * groups
    if count == 1:
        matrix = step.reshaped(rows, (batch * math.prod(out), math.prod(kernel) * features))
        product = step.make(
            "matmul_core", matrix, step.reshaped(w, (math.prod(kernel) * inner, outer))
        )
        return step.reshaped(product, (batch, *out, outer))
    # The group axis goes first on both sides; it comes from the batch or from the features.
    split = (batches, batch // batches, *out, *kernel, groups, features // groups)
    cells = step.reshaped(rows, split)
    last = len(split) - 1
    grouped = step.transposed(cells, [0, last - 1, *range(1, last - 1), last])
    places, depth = batch // batches * math.prod(out), math.prod(kernel) * inner
    matrices = step.reshaped(grouped, (count, places, depth))
    kernels = step.reshaped(w, (depth, count, outer // count))
    product = step.make("matmul_core", matrices, step.transposed(kernels, (1, 0, 2)))
    joined = step.transposed(product, (1, 0, 2))
    return step.reshaped(joined, (batch // batches, *out, outer))


CONTRACTION: dict[str, Handler] = {"dot": _dot, "convolution": _convolution}
"""Opcode to handler."""
