"""Det and com.microsoft's Inverse by elimination, with the largest element of each column as pivot; CDist."""

from __future__ import annotations

import numpy as np

from ...base.dtypes import S64
from ...graph_ir.ir.graph import GraphTensor
from ..correspondence.compositions.arithmetic import distances
from ..correspondence.compositions.control import CountedLoop, Round
from ..op_builder import OpBuilder, Value
from .scope import Handler, NodeContext

_LARGEST = 32
"""Rows of a matrix whose determinant is wanted: each is a step of its own in the graph."""


def _square(node: NodeContext) -> tuple[list[int], int]:
    """The outer sizes of the input, and the rows of each matrix."""
    details = node.details(0)
    *batch, rows, columns = details.plain_dims if details.rank > 1 else (0, -1)
    if rows != columns:
        raise node.rule("the last two axes must be square", str(details))
    return batch, rows


def _determinant(node: NodeContext) -> Value:
    x, (batch, rows) = node.tensor(0), _square(node)
    if rows > _LARGEST:
        raise node.unsupported(f"a matrix of more than {_LARGEST} rows, {x.details},")
    count = int(np.prod(batch))
    left, found = node.reshaped(x, (count, rows, rows)), None
    for size in range(rows, 0, -1):
        left, factor = _eliminated(node, left, count, size)
        found = factor if found is None else node.helper("mul", found, factor)
    if found is None:
        return node.constant(np.ones(batch), x.details.dtype)
    return node.reshaped(found, tuple(batch))


def _eliminated(
    node: NodeContext, left: GraphTensor, count: int, size: int
) -> tuple[GraphTensor, GraphTensor]:
    """Matrices without the first column and its pivot's row, and the signed pivots [count, 1, 1]."""
    dtype = left.details.dtype
    column, first = node.sliced(left, 2, 0, 1), node.sliced(left, 1, 0, 1)
    zero, one = node.constant(0.0, dtype), node.constant(1.0, dtype)
    best = node.helper("arg_max", node.helper("abs", column), axis=1, keep_dims=True)
    numbers = node.constant(np.arange(size).reshape(1, size, 1), best.details.dtype)
    is_best = node.helper("eq", best, numbers)
    masked = node.helper("select", is_best, left, zero)
    row = node.helper("reduce_sum", masked, axes=(1,), keep_dims=True)
    pivot = node.sliced(row, 2, 0, 1)
    is_first = node.sliced(is_best, 1, 0, 1)
    signed = node.helper("select", is_first, pivot, node.helper("neg", pivot))
    if size == 1:
        return left, signed
    swapped = node.helper("select", is_best, first, left)  # the pivot's row becomes the first
    rest = node.sliced(node.sliced(swapped, 1, 1, size - 1), 2, 1, size - 1)
    below = node.sliced(node.sliced(swapped, 1, 1, size - 1), 2, 0, 1)
    divisor = node.helper("select", node.helper("eq", pivot, zero), one, pivot)
    share = node.helper("div", below, divisor)
    taken = node.helper("mul", share, node.sliced(row, 2, 1, size - 1))
    return node.helper("sub", rest, taken), signed


def _inverse(node: NodeContext) -> Value:
    """By a loop over the columns of [matrix, identity]; a singular matrix gives what is not finite."""
    x, (batch, rows) = node.tensor(0), _square(node)
    if not x.details.elements:
        return x
    wide = x.details.dtype.accumulator
    count = int(np.prod(batch))
    left = node.reshaped(node.converted(x, wide), (count, rows, rows))
    right = node.constant(np.broadcast_to(np.eye(rows), (count, rows, rows)), wide)
    both = node.helper("concat", left, right, axis=2)

    def step(
        build: OpBuilder, t: GraphTensor, state: list[GraphTensor], fixed: list[GraphTensor]
    ) -> Round:
        return Round([_cleared(build, state[0], t)])

    done = CountedLoop(node, rows).make([both], [], step)[0]
    found = node.sliced(done, 2, rows, rows)
    return node.converted(node.reshaped(found, x.details.plain_dims), x.details.dtype)


def _cleared(build: OpBuilder, both: GraphTensor, t: GraphTensor) -> GraphTensor:
    """Matrices [count, rows, columns] whose column t is 1 in row t and else 0."""
    dtype, rows = both.details.dtype, both.details.plain_dims[1]
    numbers = build.constant(np.arange(rows).reshape(1, rows, 1), S64)
    one = build.helper("reshape", t, shape=(1,))
    column = build.helper("gather", both, one, axis=2)
    size = build.helper("abs", column)
    is_left = build.helper("ge", numbers, t)
    size = build.helper("select", is_left, size, build.constant(-1, dtype))
    best = build.converted(build.helper("arg_max", size, axis=1, keep_dims=True), S64)
    is_best, is_here = build.helper("eq", best, numbers), build.helper("eq", numbers, t)
    picked = build.helper("select", is_best, both, build.constant(0, dtype))
    row = build.helper("reduce_sum", picked, axes=(1,), keep_dims=True)
    row = build.helper("div", row, build.helper("gather", row, one, axis=2))
    other = build.helper("gather", both, one, axis=1)
    swapped = build.helper("select", is_best, other, both)
    share = build.helper("gather", swapped, one, axis=2)
    rest = build.helper("sub", swapped, build.helper("mul", share, row))
    return build.helper("select", is_here, row, rest)


def _distances(node: NodeContext) -> Value:
    """Of all rows of one matrix to all of another."""
    a, b = node.tensor(0), node.tensor(1)
    if {a.details.rank, b.details.rank} != {2} or a.details.plain_dims[1] != b.details.plain_dims[
        1
    ]:
        rule = "both inputs must be matrices of as many columns"
        raise node.rule(rule, f"{a.details} and {b.details}")
    metric = node.attr_text("metric", "sqeuclidean")
    if metric == "euclidean":
        return distances(node, a, b)
    if metric != "sqeuclidean":
        raise node.rule("metric must be euclidean or sqeuclidean", f"'{metric}'")
    rows, columns = a.details.plain_dims
    gap = node.helper("sub", node.reshaped(a, (rows, 1, columns)), b)
    return node.make("reduce_sum_square", gap, axes=(2,), keep_dims=False)


HANDLERS: dict[str, Handler] = {
    "Det": _determinant,
    "com.microsoft::CDist": _distances,
    "com.microsoft::Inverse": _inverse,
}
