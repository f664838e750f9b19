"""Cost and blocking of convolutions by patches of plain images (`templates.convolution_patches`)."""

from __future__ import annotations

import math

from .convolution_gemm import ConvolutionGemm
from .cost import MatmulBlocking, gemm_cycles

MAX_COLUMNS = 64
"""Maximum columns of a window, each of which has a separate loop."""

COPY_CYCLES = 2.0
"""Cycles of a vector of patches: loaded from any address and stored; an element apart, two loads and a shuffle more
(fitted to first layers on Zen 5)."""


def fits_patches(p: ConvolutionGemm, rows: int = 1) -> bool:
    """Return whether patches can run a convolution, and those of `rows` rows of results stay in half of L2.

    Only of fewer channels than a vector has elements: of more, a pixel is whole vectors where they are last.
    """
    g, kernel = p.geometry, p.kernel
    if g.channels >= p.target.lanes(kernel.a):
        return False
    same = kernel.a == kernel.b == kernel.accumulator and kernel.k_group == 1
    if not same or g.is_dynamic or g.is_pointwise or g.kernel[1] > MAX_COLUMNS:
        return False
    return patch_bytes(p, rows) <= p.target.l2_bytes // 2


def patch_bytes(p: ConvolutionGemm, rows: int) -> int:
    """Return the bytes of the patches of `rows` rows of results."""
    return p.geometry.terms * patch_stride(rows * p.geometry.result[1]) * p.kernel.a.size


def patch_stride(pixels: int) -> int:
    """Elements from a term to the next: an odd number of cache lines of f32, so that terms lie in different sets."""
    return (-(-pixels // 16) | 1) * 16


def patch_cycles(p: ConvolutionGemm, blocking: MatmulBlocking) -> float:
    """Cycles until the last thread is done: register tiles, the copies of patches, and their way from L2."""
    g, target = p.geometry, p.target
    rows = min(blocking.m_block, g.result[0])
    pixels, lanes = rows * g.result[1], target.lanes(p.kernel.a)
    cycles = gemm_cycles(g.outputs, pixels, blocking.tile, target, p.kernel)
    vectors = rows * math.ceil(g.result[1] / lanes)
    strided = 2.0 if g.strides[1] > 1 else 1.0
    task = g.groups * g.terms * (cycles + vectors * COPY_CYCLES * strided)
    if (size := patch_bytes(p, rows)) > target.l1_bytes:
        task += g.groups * size / target.machine.l2_bytes_per_cycle
    tasks = g.batch * math.ceil(g.result[0] / rows)
    return math.ceil(tasks / p.cores) * (task + target.machine.band_cycles)
