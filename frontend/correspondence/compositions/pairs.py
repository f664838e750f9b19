"""Probabilities of classes from those of pairs of classes."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from ....base.dtypes import BOOL, S64
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder, like
from .control import CountedLoop, Round


def coupled_probabilities(node: OpBuilder, first: Tensor, classes: int) -> Tensor:
    """[rows, classes] of `first` [rows, pairs], the probability of the first of two classes given that it is one.

    The second method of Wu, Lin and Weng, by the iteration of LIBSVM with its end, so that all programs agree.
    """
    rows, dtype = first.details.plain_dims[0], first.details.dtype
    eps = 0.005 / classes

    def step(build: OpBuilder, _: Tensor, state: list[Tensor], fixed: list[Tensor]) -> Round:
        before, matrix = state[0], fixed[0]
        wide = build.reshaped(before, (rows, 1, classes))
        contracted = _summed(build, build.helper("mul", matrix, wide), 2, False)
        whole = _summed(build, build.helper("mul", before, contracted), 1)
        gap = build.helper("abs", build.helper("sub", contracted, whole))
        error = build.helper("reduce_max", gap, axes=(1,), keep_dims=True)
        moves = build.helper("ge", error, build.constant(eps, dtype))
        after = _rounds(build, [before, contracted, whole], matrix, classes)
        going = build.helper("reduce_any", moves, axes=(0, 1), keep_dims=False)
        return Round([build.helper("select", moves, after, before)], going=going)

    start = node.constant(1 / classes, dtype)
    start = node.helper("broadcast", start, shape=(rows, classes))
    loop = CountedLoop(node, max(100, classes), node.constant(True, BOOL))
    return loop.make([start], [_pairwise_terms(node, first, classes)], step)[0]


def _rounds(node: OpBuilder, state: list[Tensor], matrix: Tensor, classes: int) -> Tensor:
    """The probabilities after each class was set in turn so that the rest fits best, and all made to sum to 1."""

    def step(build: OpBuilder, t: Tensor, state: list[Tensor], fixed: list[Tensor]) -> Round:
        found, contracted, whole = state
        row = build.helper("gather", fixed[0], build.helper("reshape", t, shape=(1,)), axis=1)
        row = build.reshaped(row, found.details.plain_dims)
        here = build.helper("eq", build.constant(np.arange(classes), S64), t)
        zero, one, two = (like(build, value, found) for value in (0, 1, 2))
        own = _summed(build, build.helper("select", here, row, zero), 1)
        is_at = _summed(build, build.helper("select", here, contracted, zero), 1)
        share = build.helper("div", build.helper("sub", whole, is_at), own)
        scale = build.helper("add", share, one)
        moved = build.helper("add", found, build.helper("select", here, share, zero))
        doubled = build.helper(
            "add", build.helper("mul", share, own), build.helper("mul", two, is_at)
        )
        whole = build.helper("add", whole, build.helper("mul", share, doubled))
        whole = build.helper("div", whole, build.helper("mul", scale, scale))
        contracted = build.helper("add", contracted, build.helper("mul", share, row))
        return Round(
            [build.helper("div", moved, scale), build.helper("div", contracted, scale), whole]
        )

    return CountedLoop(node, classes).make(state, [matrix], step)[0]


def _summed(node: OpBuilder, x: Tensor, axis: int, keep: bool = True) -> Tensor:
    return node.helper("reduce_sum", x, axes=(axis,), keep_dims=keep)


def _pairwise_terms(node: OpBuilder, first: Tensor, classes: int) -> Tensor:
    """[rows, classes, classes]: -r[j, i] r[i, j], and on the diagonal the sums of r[j, i]^2 over j."""
    rows, pairs = first.details.plain_dims
    table = np.full((classes, classes), 2 * pairs)  # what follows both: zeros
    for number, (i, j) in enumerate(combinations(range(classes), 2)):
        table[i, j], table[j, i] = number, pairs + number
    second = node.helper("sub", like(node, 1, first), first)
    both = node.helper("concat", first, second, axis=1)
    both = node.helper("pad", both, before=(0, 0), after=(0, 1))
    won, lost = (
        node.reshaped(
            node.helper("gather", both, node.constant(seen.reshape(-1), S64), axis=1),
            (rows, classes, classes),
        )
        for seen in (table, table.T)
    )
    squares = _summed(node, node.helper("square", lost), 2)
    contracted = node.helper("neg", node.helper("mul", won, lost))
    return node.helper("select", node.constant(np.eye(classes), BOOL), squares, contracted)
