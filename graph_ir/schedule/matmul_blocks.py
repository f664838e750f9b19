"""Matmuls whose operands and result all lie in blocks of 16 by 16: `MK16m16k, KN16n16k -> MN16m16n`.

They lose against a plain A and C with B in panels, because the blocks of B are packed into panels in every run, so that
they are taken only where they are requested (`-X layout=blocked`, `b=blocked`).
"""

from __future__ import annotations

from ...base.dims import is_known
from ...targets.isa import GemmTile, Microkernel, Target
from ..ir.format import Format
from ..ops.matmul import MatmulCore
from .cost import Gemm
from .format_choice import FormatChoice
from .matmul_tile import extra_bytes
from .panels import BLOCK
from .register_tile import highest_tile


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
    return highest_tile(BLOCK // lanes, kernel, target, BLOCK)


def runs_blocks(op: MatmulCore, kernel: Microkernel, target: Target) -> bool:
    """Return whether a microkernel can multiply blocks: padding of A may hold anything, and NaN times zero is
    no zero."""
    is_even = not op.contraction.a.is_float or op.sizes[2] % kernel.k_group == 0
    return is_known(*op.sizes) and is_even and block_tile(kernel, target) is not None
