"""dot: permutes axes into the order of a batched matrix product."""

from __future__ import annotations

import math

from ...graph_ir.ir.graph import GraphTensor
from .scope import Handler, Step


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
    # Leading contracted axes stay there: the product also reads transposed matrices.
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


CONTRACTION: dict[str, Handler] = {"dot": _dot}
"""Opcode to handler."""
