"""The error that rounding of partial sums may cause in ops that sum many terms.

Each addition rounds its partial sum by at most u (half a unit in the last place) of it, in either direction. The error
of K additions is normally distributed with standard deviation sqrt(K) * u * (root mean square of the partial sums). For
a matmul the partial sums are measured: the matmul is computed in blocks of K. For other sums they are
estimated from the result, from the squares of the terms (the drift of partial sums of either sign) and from their
magnitudes, because each vector lane may collect terms of one sign.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ..base.dtypes import F64, DType
from ..graph_ir.ir.computation import Reduction
from ..graph_ir.ir.graph import Array, Op
from ..graph_ir.ir.op_kinds import FusibleOp
from ..graph_ir.ops.cached_attention import CachedAttention
from ..graph_ir.ops.convolution import Convolution
from ..graph_ir.ops.cumulative import Cumulative
from ..graph_ir.ops.matmul import GroupedMatmul, MatmulCore
from ..graph_ir.ops.matmul_nbits import MatmulNBits
from ..graph_ir.ops.reduce import Reduce
from ..graph_ir.ops.scatter import Scatter
from ..graph_ir.ops.winograd import WinogradConvolution

DEVIATIONS = 6.0
"""Rounding errors of this many standard deviations do not occur by chance."""

DEVIATION = DEVIATIONS / math.sqrt(3)
"""The same of an error even between -1 and 1."""

BLOCKS = 16
"""Number of partial sums of a matmul that are measured."""

ANYTHING = 1e300
"""The error of a result of which rounding leaves nothing."""

LANES = 8
"""Least number of independent partial sums where the order of summation is free."""

_LINEAR = ("reduce_sum", "reduce_mean", "sum_pool")


_SUMMING = (FusibleOp, CachedAttention, GroupedMatmul, Cumulative, Scatter)


def sum_noise(op: Op, inputs: Sequence[Array], outputs: Sequence[Array]) -> list[Array]:
    """Six standard deviations of the rounding of the op's sums, per output element; 0 for an op that sums nothing."""
    details = op.outputs[0].details
    if not details.dtype.is_float or not isinstance(op, _SUMMING):
        return [np.zeros(()) for _ in outputs]
    with np.errstate(all="ignore"):
        found = _noise(op, list(inputs), outputs[0].astype(np.float64))
    noise = np.where(np.isfinite(found), found, 0.0)
    # The reference itself sums in float64: an op that does so too has the same error again.
    return [noise * 2 if details.dtype.accumulator == F64 else noise]


def _noise(op: Op, inputs: list[Array], y: Array) -> Array:
    unit = unit_roundoff(op.outputs[0].details.dtype.accumulator)
    if not isinstance(op, FusibleOp):
        return _of_loops(op, inputs, y, unit)
    if isinstance(op, WinogradConvolution):
        # With all terms positive: the worst-case base of relative errors.
        scale = op.error_scale(*inputs)
        return np.asarray(unit * math.sqrt(inputs[0].shape[1] + 24) * scale)
    if isinstance(op, MatmulNBits):
        return _of_packed(op, inputs, unit)
    terms = _terms(op)
    if op.op_name == "reduce_l2":
        return _of_root(terms, op.outputs[0].details.dtype.accumulator, y)
    if terms <= 1:
        return np.zeros(())
    deviation = DEVIATION * unit  # of an error even between -u and u
    worst = min(deviation * math.sqrt(terms), terms * unit)
    if op.op_name == "reduce_log_sum":
        return _of_logarithm(op, inputs[0], y.shape, worst)
    if isinstance(op, MatmulCore):
        wander = _root_of_squares(op, inputs)
        sums = _partial_sums(op, inputs) + wander / math.sqrt(BLOCKS)
        if op.activation_bits:
            return _of_rounded_rows(op, inputs) + worst * sums
    elif _is_linear(op):
        wander = _root_of_squares(op, inputs)
        sizes = np.abs(op.reference([np.abs(x) for x in inputs])[0].astype(np.float64))
        sums = _wandering(np.square(wander), y, sizes)
    else:  # powers, whose partial sums rise to the result; and each factor of a multiplication rounds it once
        return np.asarray(deviation * math.sqrt(terms) * np.abs(y))
    deviations = deviation * wander  # rounded too where there is no fused multiply-add
    return np.asarray(_winograd_factor(op) * (worst * sums + deviations))


def _of_loops(op: Op, inputs: list[Array], y: Array, unit: float) -> Array:
    """Return the rounding of ops with a separate loop nest."""
    if isinstance(op, GroupedMatmul):
        return _of_groups(op, inputs, unit)
    if isinstance(op, CachedAttention):
        return _of_attention(op, inputs, y, unit)
    if isinstance(op, Cumulative):
        return _of_scan(op, inputs[0].astype(np.float64), y, unit)
    assert isinstance(op, Scatter)
    return _of_scatter(op, inputs, y)


def _of_packed(op: MatmulNBits, inputs: list[Array], unit: float) -> Array:
    """Sums of X * Q and of X per group, which the zero point is subtracted from: both of the size of all of Q. Rows of
    f32 may be in fixed point, whose step is at most 2^-22 of the largest of a group."""
    scale, minimum = (np.abs(one).astype(np.float64) for one in op.scales(inputs))
    zero, centered = inputs[3].astype(np.float64), op.levels(inputs)
    rows = np.abs(op.rows(inputs))
    magnitudes = np.abs(centered + zero[..., None]) + np.abs(zero[..., None])
    both = (magnitudes * scale[..., None] + minimum[..., None]).reshape(*scale.shape[:-1], -1)
    terms = op.sizes[2]
    share = (math.sqrt(op.group) + 2) / math.sqrt(terms)
    deviation = DEVIATION
    found = np.asarray(deviation * unit * share * op.multiplied(inputs, rows, both))
    if op.part("x_scale") is not None:
        return found
    lost = (
        2.0**-23 * deviation * _largest_and_lengths(op, inputs, rows, centered * scale[..., None])
    )
    # Or weights become a panel of floats, and all terms are added one after another.
    squares = np.sqrt(op.multiplied(inputs, np.square(rows), np.square(op.weights(inputs))))
    in_panels = deviation * unit * (math.sqrt(terms) + 1) * squares
    return np.asarray(np.maximum(found + lost, in_panels))


def _largest_and_lengths(op: MatmulNBits, inputs: list[Array], rows: Array, scaled: Array) -> Array:
    """The largest of each group of X times the length of its weights, over all groups as errors add up: [m, n]."""
    largest = np.max(rows.reshape(len(rows), -1, op.group), axis=2)
    squares = np.sum(np.square(scaled), axis=-1)
    return np.asarray(np.sqrt(op.multiplied(inputs, np.square(largest), squares)))


def _of_groups(op: GroupedMatmul, inputs: list[Array], unit: float) -> Array:
    """Return the rounding like that of other matmuls: the drift of terms of either sign, and their size if there is
    one sign."""
    a, b, expert = inputs
    terms = max(a.shape[1], 1)
    wander = np.sqrt(op.reference([np.square(a), np.square(b), expert])[0].astype(np.float64))
    size = op.reference([np.abs(a), np.abs(b), expert])[0].astype(np.float64) / math.sqrt(3)
    deviation = DEVIATION * unit
    worst = min(deviation * math.sqrt(terms), terms * unit)
    return np.asarray(worst * np.maximum(wander, size) + deviation * wander)


def _of_attention(op: CachedAttention, inputs: list[Array], y: Array, unit: float) -> Array:
    """A score moves its power by the share that the score moves, and the result by that times the value less the
    result; sums of powers and of values times powers round as those of other matmuls."""
    deviation, found = DEVIATION * unit, np.zeros(y.shape)
    for b, one in enumerate(op.sequences(inputs)):
        squares = np.einsum("thd,hsd->hts", np.square(one.q), np.square(one.keys))
        moved = (math.sqrt(one.q.shape[2]) + 2) * abs(op.scale) * np.sqrt(squares) + 2
        values, root = one.values, math.sqrt(one.values.shape[1]) + 1
        weighted, terms = np.square(one.powers * moved), np.square(one.powers)
        first, second = (np.einsum("hts,hsd->thd", weighted, x) for x in (values**2, values))
        apart = first - 2 * y[b] * second + np.square(y[b]) * weighted.sum(-1).T[..., None]
        sums = np.sqrt(np.einsum("hts,hsd->thd", terms, values**2)) + np.abs(y[b]) / math.sqrt(3)
        found[b] = deviation * (np.sqrt(np.maximum(apart, 0)) + root * sums)
    return found


def _of_scan(op: Cumulative, x: Array, y: Array, unit: float) -> Array:
    """Return the rounding of running sums, whose partial sums are results too; cumulative products count as powers."""
    deviation = DEVIATION * unit
    if op.combine == "mul":
        return np.asarray(deviation * math.sqrt(x.shape[op.axis]) * np.abs(y))

    def so_far(terms: Array) -> Array:
        ordered = np.flip(terms, op.axis) if op.reverse else terms
        found = np.cumsum(ordered, op.axis)
        return np.flip(found, op.axis) if op.reverse else found

    counts, squares, sizes = map(so_far, (np.ones_like(x), np.square(x), np.abs(x)))
    sums = _wandering(squares, y, sizes)
    return np.asarray(np.minimum(deviation * np.sqrt(counts), counts * unit) * sums)


def _of_scatter(op: Scatter, inputs: list[Array], y: Array) -> Array:
    """Each update that is added or multiplied rounds the element to the type of the data."""
    if op.reduction not in ("add", "mul"):
        return np.zeros(())
    indices, data, updates = inputs
    deviation = DEVIATION * unit_roundoff(op.outputs[0].details.dtype)
    if op.reduction == "mul":
        return np.asarray(deviation * math.sqrt(indices.size) * np.abs(y))
    counts, sizes = (
        op.reference([indices, *both])[0].astype(np.float64)
        for both in (
            (np.zeros_like(data), np.ones_like(updates)),
            (np.abs(data), np.abs(updates)),
        )
    )
    return np.asarray(deviation * np.sqrt(counts) * sizes)


def _of_rounded_rows(op: MatmulCore, inputs: list[Array]) -> Array:
    """Return the loss of A where it may be rounded to s8: half of a 127th of the largest of a row, in
    either direction."""
    a, b = (x.astype(np.float64) for x in inputs)
    rows = a.swapaxes(-1, -2) if op.transpose_a else a
    columns = b.swapaxes(-1, -2) if op.transpose_b else b
    step = np.max(np.abs(rows), axis=-1, keepdims=True) / 127
    lengths = np.sqrt(np.sum(np.square(columns), axis=-2, keepdims=True))
    return np.asarray(DEVIATIONS / math.sqrt(12) * step * lengths)


def _of_root(terms: int, dtype: DType, y: Array) -> Array:
    """sqrt(s) moves by half of what s does, relatively. Squares that underflow are off by the smallest number each."""
    info: Any = ml_dtypes.finfo
    lost = terms * float(info(dtype.numpy).smallest_subnormal)
    rounding = DEVIATION * unit_roundoff(dtype) * math.sqrt(terms) * np.abs(y)
    underflow = np.minimum(math.sqrt(lost), lost / np.abs(y))
    return np.asarray(underflow + rounding / 2)


def _of_logarithm(op: FusibleOp, x: Array, shape: tuple[int, ...], worst: float) -> Array:
    """log(s) moves by the rounding of s relative to s, which is large where terms of both signs cancel; it may be
    anything where that leaves the sign of s open."""
    assert isinstance(op, Reduce)
    wide = x.astype(np.float64)
    total, squares, sizes = (
        np.sum(terms, axis=op.axes).reshape(shape)
        for terms in (wide, np.square(wide), np.abs(wide))
    )
    sums = _wandering(squares, total, sizes)
    moved = worst * sums / np.abs(total)
    return np.where(moved < 1, moved, ANYTHING)


def _wandering(squares: Array, total: Array, sizes: Array) -> Array:
    """Return the root mean square of partial sums: of terms of either sign by their squares, of one sign by their sum
    and, as each vector lane may collect one sign, by their sizes."""
    return np.asarray(np.sqrt(squares / 2 + np.square(total) / 3 + np.square(sizes / LANES) / 3))


def unit_roundoff(dtype: DType) -> float:
    """Half a unit in the last place of 1."""
    info: Any = ml_dtypes.finfo
    return float(info(dtype.numpy).eps) / 2


def _terms(op: FusibleOp) -> int:
    """The number of terms in each sum of the op, or of factors: K of a matmul, channels times taps of a convolution."""
    if isinstance(op, MatmulCore):
        return op.sizes[2]
    if isinstance(op, Convolution):
        return math.prod(op.inputs[1].details.plain_dims[1:])
    computation = op.computation()
    if isinstance(computation, Reduction) and computation.combine in ("add", "mul"):
        return math.prod(computation.extents)
    return 1


def _is_linear(op: Op) -> bool:
    return op.op_name in _LINEAR or isinstance(op, Convolution)


def _partial_sums(op: MatmulCore, inputs: list[Array]) -> Array:
    """Root mean square of the matmul's partial sums over its blocks of K."""
    a, b = (x.astype(np.float64) for x in inputs)
    a = a.swapaxes(-1, -2) if op.transpose_a else a
    b = b.swapaxes(-1, -2) if op.transpose_b else b
    k = a.shape[-1]
    block = math.ceil(k / BLOCKS)
    running: Array = np.zeros(())
    squares: Array = np.zeros(())
    starts = range(0, k, block)
    for start in starts:
        running = running + a[..., start : start + block] @ b[..., start : start + block, :]
        squares = squares + np.square(running)
    return np.asarray(np.sqrt(squares / len(starts)))


def _root_of_squares(op: Op, inputs: list[Array]) -> Array:
    """sqrt(sum of squared terms), the inputs scaled so that squares neither overflow nor vanish."""
    scales = [float(np.max(np.abs(x.astype(np.float64)), initial=0.0)) or 1.0 for x in inputs]
    scaled = [
        (x.astype(np.float64) / s).astype(x.dtype) for x, s in zip(inputs, scales, strict=True)
    ]
    (squares,) = op.reference([np.square(x) for x in scaled])
    root = np.sqrt(np.abs(squares.astype(np.float64))) * math.prod(scales)
    if op.op_name == "reduce_mean":  # the reference has divided squares by K once, not twice
        root = root / math.sqrt(_terms(op)) if isinstance(op, FusibleOp) else root
    return np.asarray(root)


def _winograd_factor(op: Op) -> float:
    """3 x 3 convolutions may run as Winograd convolutions, whose transforms add terms that they later subtract."""
    if isinstance(op, Convolution) and op.inputs[1].details.plain_dims[2:] == (3, 3):
        return WINOGRAD
    return 1.0


WINOGRAD = 12.0
"""Errors of F(4x4, 3x3) relative to those of the direct sum (measured: up to 9)."""
