"""Matmuls whose operands and result all lie in blocks of 16 by 16: `MK16m16k, KN16n16k -> MN16m16n`.

They lose against a plain A and C with B in panels, because the blocks of B are packed into panels in every run, so that
they are taken only where they are requested (`-X layout=blocked`, `b=blocked`).
"""

from __future__ import annotations

import math

from ...base.dims import is_known
from ...targets.isa import GemmTile, Microkernel, Target
from ...targets.microkernels import rows_that_fit
from ..ir.format import Format
from ..ops.matmul import MatmulCore
from .format_choice import FormatChoice
from .gemm import Gemm
from .matmul_tile import MatmulBlocking, extra_bytes, pick_blocking
from .panels import BLOCK
from .register_tile import tile_of


def blocked_matmul_choice(
    op: MatmulCore, plain: tuple[Format, ...], gemm: Gemm, requested: bool
) -> FormatChoice | None:
    """The blocked layouts of A, B and C, whose `plain` ones are given; None for what has no code for them.

    `requested`: somebody requested them by the name of the op.
    """
    tile = block_tile(gemm.kernel, gemm.target)
    if tile is None or not runs_blocks(op, gemm.kernel, gemm.target):
        return None
    a, b, c = plain
    m_axis, k_axis = _last(a.rank, op.transpose_a)
    n_axis, kb_axis = reversed(_last(b.rank, op.transpose_b))
    formats = (_blocked(a, m_axis, k_axis), _blocked(b, kb_axis, n_axis, (n_axis, kb_axis)))
    result = _blocked(c, c.rank - 2, c.rank - 1)
    transposed = 2.0 * op.inputs[1].details.typical.size_bytes
    return FormatChoice(formats, (result,), extra_bytes(gemm, tile) + transposed, not requested)


def _last(rank: int, transposed: bool) -> tuple[int, int]:
    """The axes of a matrix that stand for its rows and columns as they are multiplied."""
    return (rank - 1, rank - 2) if transposed else (rank - 2, rank - 1)


def _blocked(fmt: Format, outer: int, inner: int, blocks: tuple[int, ...] = ()) -> Format:
    """Batch axes, then blocks by `outer` and `inner` axis, then what is in a block, in the order of `blocks`."""
    batch = tuple(range(fmt.rank - 2))
    order = (*batch, outer, inner, *(blocks or (outer, inner)))
    return Format(fmt.axes, order, (0,) * fmt.rank + (BLOCK, BLOCK))


def block_tile(kernel: Microkernel, target: Target) -> GemmTile | None:
    """The register tile of a block, as high as the registers allow; None where one is not a multiple of the vector."""
    lanes = target.lanes(kernel.accumulator)
    if kernel.converts_a or BLOCK % lanes or BLOCK % kernel.k_group:
        return None
    vectors = BLOCK // lanes
    heights = [tile.rows for tile in kernel.tiles if tile.vectors == vectors]
    highest = max(*heights, rows_that_fit(vectors, target), 1)
    return tile_of(min(highest, BLOCK), vectors, kernel)


def runs_blocks(op: MatmulCore, kernel: Microkernel, target: Target) -> bool:
    """Return whether a microkernel can multiply blocks: padding of A may hold anything, and NaN times zero is
    no zero."""
    is_even = not op.contraction.a.is_float or op.sizes[2] % kernel.k_group == 0
    return is_known(*op.sizes) and is_even and block_tile(kernel, target) is not None


def pick_blocked(gemm: Gemm, tile: GemmTile, holds_sums: bool) -> MatmulBlocking:
    """Whole blocks; all of k at once where the result cannot hold sums."""
    found = pick_blocking(gemm, tile)
    m_block, k_block = (_whole(x) for x in (found.m_block, found.k_block))
    if not holds_sums:
        k_block = _whole(gemm.k)
    return MatmulBlocking(tile, m_block, k_block, found.n_groups)


def _whole(size: int) -> int:
    return math.ceil(size / BLOCK) * BLOCK
