"""Axis attributes: negative ones counted from the back, checked."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.graph import Op


def normal_axis(op: Op, axis: int, rank: int) -> int:
    """`axis` as 0 <= axis < rank. UserError in the name of `op` when it is outside."""
    if not isinstance(axis, int) or isinstance(axis, bool) or not -rank <= axis < rank:
        raise op.rule(f"axis must be in [{-rank}, {rank})", repr(axis))
    return axis % rank


def normal_axes(op: Op, axes: Iterable[int] | None, rank: int) -> tuple[int, ...]:
    """Sorted distinct axes; None means all. UserError in the name of `op` when one is outside or twice there."""
    if axes is None:
        return tuple(range(rank))
    given = [normal_axis(op, axis, rank) for axis in axes]
    if len(set(given)) != len(given):
        raise op.rule("axes must be distinct", str(tuple(given)))
    return tuple(sorted(given))
