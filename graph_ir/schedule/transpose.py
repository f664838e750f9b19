"""Choice of transposes and reorders that run through register tiles, and of the tile."""

from __future__ import annotations

from ...base.dims import is_known
from ...base.dtypes import BOOL
from ...base.records import dataclass
from ...targets.isa import Target
from ..ops.movement import Reorder, Transpose
from ..rewriting.kernel_group import KernelGroup

MAX_LANES = 16
"""Rows of a register tile: as many registers are in use at once."""

MAX_WOVEN = 3
"""Two shuffles make a vector of three rows, such as the channels of a photograph; of five, four do."""

PART_BYTES = 16
"""Bytes of the parts in which vectors are transposed, which the lanes of a tile must fill."""


@dataclass(frozen=True)
class TransposeTiles:
    """A permutation of axes with all that need not be apart merged.

    `dims`: of the result; `strides`: of the source along each of them, in elements; `along`: the axis of the result
    along which the source is contiguous, not the last. `lanes`: rows and columns of a register tile. `strip`: columns
    of the result that one strip has, a multiple of `lanes`. `size`, `line`: bytes of an element and of a cache line.
    `woven`: number of columns that, if no power of two, are interleaved by shuffles of any lanes.
    """

    dims: tuple[int, ...]
    strides: tuple[int, ...]
    along: int
    lanes: int
    strip: int
    size: int
    line: int
    woven: int = 0

    @property
    def rows(self) -> int:
        """Size of the axis along which the source is contiguous."""
        return self.dims[self.along]

    @property
    def best_rows(self) -> int:
        """Return the number of rows of the result that are written together: few, so that few lines and pages are open
        at once.

        Where rows of the source begin inside cache lines, or a tile reads less than one, twice as many: 1024 x 1024
        floats take 0.21 ms in blocks of 16 rows, 0.33 in 32 and 0.49 in all; 8 x 768 x 196 take 0.12, 0.11 and 0.21.
        """
        whole = self.strides[-1] * self.size % self.line == 0
        whole = whole and MAX_LANES * self.size >= self.line
        return min(MAX_LANES if whole else 2 * MAX_LANES, self.rows)


def transpose_tiles_of(group: KernelGroup, target: Target) -> TransposeTiles | None:
    """The tiles of a group that is one permutation of the axes of one tensor; None for others, and for plain copies."""
    (op, *more), (y, *_) = group.ops, group.outputs
    if more or not isinstance(op, Transpose | Reorder) or y.details.dtype == BOOL:
        return None
    x = op.inputs[0].details
    if x.format.is_blocked or y.details.format.is_blocked:
        return None
    if not is_known(*x.plain_dims) or x.is_empty:
        return None
    perm = op.perm if isinstance(op, Transpose) else tuple(range(x.rank))
    source = tuple(x.format.order.index(perm[axis]) for axis in y.details.format.order)
    dims, strides = permuted(y.details.physical_dims, source)
    if len(dims) < 2 or 1 not in strides[:-1]:
        return None
    size, line = x.dtype.size, target.machine.cache_line
    lanes = _lanes(size, target)
    strip = max(lanes, line // size)
    # SSE2 has no instruction that moves bytes anywhere.
    woven = MAX_WOVEN if target.table.vector_bits > 128 else 0
    return TransposeTiles(dims, strides, strides.index(1), lanes, strip, size, line, woven)


def _lanes(size: int, target: Target) -> int:
    """Return the lanes of a tile: a vector's, but at most half of the registers, so that two steps of a
    transpose fit."""
    table = target.table
    most = max(min(MAX_LANES, table.registers // 2), PART_BYTES // size)
    return min(table.vector_bits // 8 // size, most)


def permuted(
    dims: tuple[int, ...], source: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(sizes of the result, strides of the source along them), axes of size 1 dropped and neighbors merged.

    `source[i]`: which axis of the source axis i of the result is.
    """
    sizes = dict(zip(source, dims, strict=True))
    stride, strides = 1, dict[int, int]()
    for axis in reversed(range(len(dims))):
        strides[axis] = stride
        stride *= sizes[axis]
    found: list[tuple[int, int]] = []
    for axis, size in zip(source, dims, strict=True):
        if size == 1:
            continue
        if found and found[-1][1] == strides[axis] * size:
            found[-1] = found[-1][0] * size, strides[axis]
        else:
            found.append((size, strides[axis]))
    return tuple(size for size, _ in found), tuple(step for _, step in found)
