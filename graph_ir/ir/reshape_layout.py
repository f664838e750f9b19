"""Layouts in which a reshape moves no data: axes that it splits or merges are adjacent and in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...base.dims import Size, UndecidedSize, is_known
from .format import Format, plain


def reshape_groups(
    source: Sequence[Size], result: Sequence[Size]
) -> Iterator[tuple[list[int], list[int]]]:
    """Smallest runs of (source axes, result axes) with equal element counts; axes of size 1 are left out."""
    olds = [axis for axis, size in enumerate(source) if size not in (0, 1)]
    news = [axis for axis, size in enumerate(result) if size not in (0, 1)]
    while olds:
        old, new = [olds.pop(0)], [news.pop(0)]
        left, right = source[old[0]], result[new[0]]
        while left != right:
            if not news or (olds and _is_part(left, right)):
                old.append(olds.pop(0))
                left *= source[old[-1]]
            else:
                new.append(news.pop(0))
                right *= result[new[-1]]
        yield old, new


def _is_part(left: Size, right: Size) -> bool:
    """Return whether `left` is the smaller of two different monomials; of other expressions: whether it
    divides `right`."""
    if is_known(left, right):
        return bool(left < right)
    try:
        return bool(right % left == 0)
    except UndecidedSize:
        return False


def reshaped_formats(
    source: Sequence[Size], result: Sequence[Size], fmt: Format
) -> tuple[Format, Format] | None:
    """(nearest layout to `fmt` in which a tensor of sizes `source` is the memory of one of sizes `result`, the layout
    of that one); None where a reshape wants the plain layout.

    [1, 12, 5, 5]{NHWC} to [1, 3, 4, 5, 5]: NHWC itself, and the axes 0, 3, 4, 1, 2. Axes of size 1 lie behind the axis
    that they follow, so that others may be joined along them in place.
    """
    if fmt.is_blocked or 0 in source:
        return None
    groups = list(reshape_groups(source, result))
    wanted: list[int] = []
    order = _ones_after(result, -1)
    present = [axis for axis in fmt.order if source[axis] not in (0, 1)]
    for axis in present:
        if axis not in wanted:
            old, new = next(group for group in groups if axis in group[0])
            wanted += old
            order += [near for axis in new for near in (axis, *_ones_after(result, axis))]
    given = fmt
    if wanted != present:
        ones = [axis for axis, size in enumerate(source) if size == 1]
        given = Format(plain(len(source)).axes, (*ones, *wanted), (0,) * len(source))
    return given, Format(plain(len(result)).axes, tuple(order), (0,) * len(result))


def _ones_after(dims: Sequence[Size], axis: int) -> list[int]:
    """The axes of size 1 right behind an axis."""
    end = axis + 1
    while end < len(dims) and dims[end] == 1:
        end += 1
    return list(range(axis + 1, end))
