"""Blocking and predicted cycles of windows over channels-last images: depthwise convolution and pooling."""

from __future__ import annotations

import math

from ...base.contraction import accumulator_of
from ...base.dtypes import F32, S16, DType
from ...targets.isa import Microkernel, Target
from ...targets.machines import Machine
from ..ir.schedule import Schedule
from ..nest.convolution_geometry import ConvolutionGeometry

PIECES_PER_THREAD = 4
"""Pieces of rows a thread gets, so that one that starts late does not hold up the rest."""


MULTIPLICATION = 1.5
"""A multiplication and an addition of s32, with a conversion, as multiples of a multiply-add of f32."""

HALF_WIDENING = 1.14
"""Time of a depthwise convolution of 16-bit floats over that of f32, in which it multiplies: conversions cost more than
the bytes save (measured: 1.13 to 1.36 in f16, 1.27 to 2.36 in bf16, on Sapphire Rapids with 512-bit vectors)."""


def pick_blocking(
    g: ConvolutionGeometry, target: Target, threads: int, dtype: DType = F32
) -> Schedule:
    """The schedule that the cost model takes; the image has elements of `dtype`, here and below."""
    is_parallel = threads > 1 and worth_threads(g, target, dtype)
    pieces = min(g.result[0], threads * PIECES_PER_THREAD) if is_parallel else 1
    rows = -(-g.result[0] // pieces)
    channels = min(channels_per_slice(g, target, dtype), g.groups)
    pixels, split = pixels_per_block(g, target.machine), "parallel" if is_parallel else "serial"
    return Schedule.of("windows", np=pixels, nc=channels, rows=rows, split=split)


def pixels_per_block(g: ConvolutionGeometry, machine: Machine) -> int:
    """Return the number of results per tile, in blocks of about equal size.

    As many independent sums as hide the latency of a multiply-add; elements they share are loaded once.
    """
    blocks = -(-g.result[1] // (machine.fma_per_cycle * machine.fma_latency))
    return -(-g.result[1] // blocks)


def window_cycles(g: ConvolutionGeometry, target: Target, dtype: DType = F32) -> float:
    """Cycles on one core: an operation per element of each window, or the bytes of image and result."""
    vectors = g.batch * math.ceil(g.groups / target.lanes(accumulator_of(dtype, dtype)))
    operations = vectors * math.prod(g.result) * math.prod(g.kernel) / target.machine.fma_per_cycle
    moved = g.batch * g.groups * dtype.size * (math.prod(g.image) + math.prod(g.result))
    return max(operations, moved / target.machine.image_bytes_per_cycle)


def depthwise_cycles(g: ConvolutionGeometry, kernel: Microkernel, target: Target) -> float:
    """Cycles on one core of a depthwise convolution of the types of a microkernel.

    By dot products (`templates.dot_windows`): words of columns, which neighboring results share, and terms, whose
    sums are apart where they are made in pairs. Half of the instructions run beside the others: vectors of integers
    have twice the ports of multiply-adds.
    """
    plain = window_cycles(g, target, kernel.a)
    rows, columns = g.kernel
    if kernel.accumulator.is_float:
        return plain if kernel.a == F32 else window_cycles(g, target) * HALF_WIDENING
    if kernel.k_group == 1 or rows == 1:
        return plain * MULTIPLICATION
    groups = math.ceil(rows / kernel.k_group)
    merged = rows + 2 * (rows - groups)  # loads, shifts and unions of a column
    dots = groups * columns * (2 if kernel.copied_a == S16 else 1)
    instructions = merged * min(g.strides[1], columns) + dots
    return plain * instructions / (2 * math.prod(g.kernel))


def worth_threads(g: ConvolutionGeometry, target: Target, dtype: DType = F32) -> bool:
    """Return whether the windows take long enough for several threads."""
    return window_cycles(g, target, dtype) >= target.machine.parallel_cycles


def channels_per_slice(g: ConvolutionGeometry, target: Target, dtype: DType = F32) -> int:
    """Channels per slice, such that the rows read for one row of results take half of L1; slices are about equal.

    All of them where most rows are read once, and where slices of less than two cache lines would be needed: memory is
    best read in order.
    """
    lanes = target.lanes(accumulator_of(dtype, dtype))
    pixels = min(g.span(0, 1), g.image[0]) * g.image[1]
    most = target.l1_bytes // 2 // (pixels * dtype.size)
    least = 2 * target.machine.cache_line  # of a pixel
    if 2 * g.strides[0] > g.kernel[0] or most * dtype.size < least:
        return g.groups
    most = max(most, lanes)
    slices = -(-g.groups // most)
    return -(-g.groups // (slices * lanes)) * lanes
