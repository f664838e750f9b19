"""Memory layouts: axis order with repeats plus block sizes, and their algebra.

A format is written with one capital letter per axis and `size + small letter` per inner block: `NCHW`, `NCHW16c`,
`MK16m16k`, `NK16n`. The letters in plain order (`axes`) say which axis each one is, so `NHWC` is a permutation of the
plain `NCHW`. Blocks of one axis nest from left to right: in `NK8k16n2k` k = (k_outer * 8 + k1) * 2 + k2. An axis whose
size is not a multiple of its blocks is padded up; padding has unspecified values and never affects a result.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from ...base.errors import UserError
from ...base.records import dataclass
from ...tensor_ir import builder as t
from ...tensor_ir.nodes import Expr

# Alphabets in plain order; a text uses the one with the same set of letters.
_ALPHABETS = (
    "MK",
    "KN",
    "MN",
    "NCW",
    "NCHW",
    "NCDHW",
    "OIW",
    "OIHW",
    "OIDHW",
    "GNK",
    "GOIW",
    "GOIHW",
)
_GENERIC = "ABDEFGIJLPQRSTUV"
_PIECE = re.compile(r"([A-Z])|([0-9]+)([a-z])")


@dataclass(frozen=True)
class Format:
    """A layout. `order[i]` is the plain axis of blocked dimension i, `blocks[i]` its size, 0 for an outer dimension.

    `axes` are the letters of the plain axes, for reading; layouts that differ in them alone are equal.
    """

    axes: str = field(compare=False)
    order: tuple[int, ...]
    blocks: tuple[int, ...]

    def __post_init__(self) -> None:
        outer = [axis for axis, block in zip(self.order, self.blocks, strict=True) if not block]
        if sorted(outer) != list(range(len(self.axes))):
            raise UserError(
                f"format '{self}' must name each of the axes {self.axes} once in capitals"
            )
        seen: set[int] = set()
        for axis, block in zip(self.order, self.blocks, strict=True):
            if (
                block and axis not in seen
            ):  # the outer part of an index is the quotient by its inner blocks
                raise UserError(
                    f"format '{self}' must name axis {self.axes[axis]} before its blocks"
                )
            seen.add(axis)

    def __str__(self) -> str:
        return (
            "scalar"
            if not self.order
            else "".join(
                f"{block}{self.axes[axis].lower()}" if block else self.axes[axis]
                for axis, block in zip(self.order, self.blocks, strict=True)
            )
        )

    @property
    def rank(self) -> int:
        """Number of plain axes."""
        return len(self.axes)

    @cached_property
    def is_plain(self) -> bool:
        """Return whether this is the row-major order of the plain axes."""
        return self.order == tuple(range(self.rank))

    @cached_property
    def is_blocked(self) -> bool:
        """Return whether any axis is split into blocks."""
        return any(self.blocks)

    def block_of(self, axis: int) -> int:
        """The block size of an axis over all its blocks: its stored size is a multiple of this."""
        return math.prod(b for a, b in zip(self.order, self.blocks, strict=True) if a == axis and b)

    def named(self, axes: str) -> Format:
        """The same layout with other letters."""
        return replace(self, axes=axes)

    def physical_dims(self, plain_dims: Sequence[int]) -> tuple[int, ...]:
        """Sizes of the array in memory, outermost first, for a tensor of `plain_dims`."""
        if not self.is_blocked:
            return tuple([plain_dims[axis] for axis in self.order])
        return tuple(
            block or -(-plain_dims[axis] // self.block_of(axis))
            for axis, block in zip(self.order, self.blocks, strict=True)
        )

    def is_padded(self, plain_dims: Sequence[int]) -> bool:
        """Return whether the array in memory has more elements than the tensor."""
        return any(size % self.block_of(axis) for axis, size in enumerate(plain_dims))

    def blocked_index(self, plain: Sequence[Expr]) -> tuple[Expr, ...]:
        """Index into the array in memory of the element at a plain index."""
        remaining = dict(enumerate(plain))
        result: list[Expr] = []
        for axis, block in zip(reversed(self.order), reversed(self.blocks), strict=True):
            if block:
                result.append(remaining[axis] % block)
                remaining[axis] = remaining[axis] // block
            else:
                result.append(remaining[axis])
        return tuple(reversed(result))

    def plain_index(self, blocked: Sequence[Expr]) -> tuple[Expr, ...]:
        """Plain index of the element at an index into the array in memory."""
        result: list[Expr] = [t.as_expr(0)] * self.rank
        for axis, block, index in zip(self.order, self.blocks, blocked, strict=True):
            result[axis] = result[axis] * (block or 1) + index
        return tuple(result)

    def pack(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Lay a plain array out in this format; padding is zero."""
        return np.asarray(self.arranged(array), order="C")

    def arranged(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Pack the array like `pack`, but as a view of the plain array if no padding is needed."""
        pads = [(0, -size % self.block_of(axis)) for axis, size in enumerate(array.shape)]
        padded = np.pad(array, pads) if any(after for _, after in pads) else array
        return padded.reshape(self._split(array.shape)).transpose(self._permutation())

    def steps(
        self, plain_dims: Sequence[int]
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Return what `arranged` does to a plain array: zeros behind each axis, the split axes, and their order."""
        pads = tuple(-size % self.block_of(axis) for axis, size in enumerate(plain_dims))
        return pads, tuple(self._split(plain_dims)), tuple(self._permutation())

    def unpack(
        self, array: np.ndarray[Any, Any], plain_dims: Sequence[int]
    ) -> np.ndarray[Any, Any]:
        """Inverse of `pack`: the plain array of `plain_dims`."""
        inverse = np.argsort(self._permutation())
        padded = [
            -(-size // self.block_of(axis)) * self.block_of(axis)
            for axis, size in enumerate(plain_dims)
        ]
        plain = array.reshape(self.physical_dims(plain_dims)).transpose(inverse).reshape(padded)
        return np.asarray(plain[tuple(slice(size) for size in plain_dims)], order="C")

    def is_view_of(self, other: Format, plain_dims: Sequence[int]) -> bool:
        """Return whether both formats store every element and all padding of a tensor of `plain_dims` at the
        same address."""
        return 0 in plain_dims or self._signature(plain_dims) == other._signature(plain_dims)

    def _axis_dims(self, axis: int) -> list[int]:
        return [i for i, a in enumerate(self.order) if a == axis]

    def _permutation(self) -> list[int]:
        """Position in the split array (axes in plain order, outer to inner) of each dimension in memory."""
        flat = [i for axis in range(self.rank) for i in self._axis_dims(axis)]
        return [flat.index(i) for i in range(len(self.order))]

    def _split(self, plain_dims: Sequence[int]) -> list[int]:
        dims = self.physical_dims(plain_dims)
        return [dims[i] for axis in range(self.rank) for i in self._axis_dims(axis)]

    def _signature(self, plain_dims: Sequence[int]) -> list[tuple[int, int]]:
        merged: list[tuple[int, int]] = []
        for axis, size in zip(self.order, self.physical_dims(plain_dims), strict=True):
            if size == 1:
                continue
            if merged and merged[-1][0] == axis:
                merged[-1] = (axis, merged[-1][1] * size)
            else:
                merged.append((axis, size))
        return merged


def _alphabet(letters: set[str]) -> str:
    for alphabet in _ALPHABETS:
        if set(alphabet) == letters:
            return alphabet
    for pair in ("MK", "KN", "MN"):
        if letters == set(matrix_axes(len(letters), pair)):
            return matrix_axes(len(letters), pair)
    generic = _GENERIC[: len(letters)]
    if set(generic) != letters:
        raise UserError(
            f"format letters {''.join(sorted(letters))} must be those of a layout, as in MK, NCHW or ABC"
        )
    return generic


def parse_format(text: str, axes: str | None = None) -> Format:
    """Read `NCHW16c`-style text; `axes` gives the letters in plain order where the set of letters does not."""
    if text == "scalar":
        return Format("", (), ())
    pieces = _PIECE.findall(text)
    if not text or "".join(a + b + c for a, b, c in pieces) != text:
        raise UserError(f"format '{text}' must be capitals followed by blocks, like NCHW16c")
    axes = axes or _alphabet({capital for capital, _, _ in pieces if capital})
    letters = [(capital or small.upper(), int(block or 0)) for capital, block, small in pieces]
    unknown = [letter for letter, _ in letters if letter not in axes]
    if unknown or any(small and int(block) < 1 for _, block, small in pieces):
        raise UserError(f"format '{text}' must have blocks of 1 or more, of axes in {axes}")
    return Format(axes, tuple(axes.index(a) for a, _ in letters), tuple(b for _, b in letters))


@cache
@cache
def plain(rank: int, axes: str | None = None) -> Format:
    """Row-major format of `rank` axes."""
    letters = axes or _GENERIC[:rank]
    if len(letters) != rank:
        raise UserError(f"a tensor must have at most {len(_GENERIC)} axes, got {rank}; reshape it")
    return Format(letters, tuple(range(rank)), (0,) * rank)


def matrix_axes(rank: int, pair: str) -> str:
    """The letters of (batches of) matrices: `MK`, `BMK`, `ABMK`; `pair`: those of the last two axes."""
    return ("B" if rank == 3 else _GENERIC[: max(rank - 2, 0)]) + pair


def channels_last(rank: int) -> Format:
    """NHWC and similar: the second axis after all others."""
    return Format("NC" + "DHW"[5 - rank :], (0, *range(2, rank), 1), (0,) * rank)
