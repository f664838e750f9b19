"""Bytes of several vectors that are stored together."""

from __future__ import annotations

from ..base.target import Target
from .nodes import Call
from .visitor import Node, walk

MOST = 4  # vectors of 32-bit numbers that make one of bytes


def vectors_together(code: Node, target: Target) -> int:
    """How many vectors of 32-bit numbers are computed at once: several where `code` quantises them to bytes.

    Instructions that pack two vectors into one take as long as those for one; AVX-512 narrows one vector by itself.
    """
    is_packed = not target.table.has_masks and any(
        isinstance(e, Call) and e.name == "quantize" and e.dtype.bits == 8 for e in walk(code)
    )
    return MOST if is_packed else 1


def lanes_together(code: Node, target: Target, lanes: int, extent: int) -> int:
    """The lanes to compute at once, of `lanes` in a vector and `extent` in all: a power of two."""
    most = 1 << extent.bit_length() - 1
    return max(lanes, min(lanes * vectors_together(code, target), most))
