"""Layouts in which a reshape moves no data: axes that it splits or merges are adjacent and in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .format import Format, plain


def reshape_groups(
    source: Sequence[int], result: Sequence[int]
) -> Iterator[tuple[list[int], list[int]]]:
    """Smallest runs of (source axes, result axes) with equal element counts; axes of size 1 are left out."""
    olds = [axis for axis, size in enumerate(source) if size > 1]
    news = [axis for axis, size in enumerate(result) if size > 1]
    while olds:
        old, new = [olds.pop(0)], [news.pop(0)]
        left, right = source[old[0]], result[new[0]]
        while left != right:
            if left < right:
                old.append(olds.pop(0))
                left *= source[old[-1]]
            else:
                new.append(news.pop(0))
                right *= result[new[-1]]
        yield old, new


def reshaped_formats(
    source: Sequence[int], result: Sequence[int], fmt: Format
) -> tuple[Format, Format] | None:
    """(nearest layout to `fmt` in which a tensor of sizes `source` is the memory of one of sizes `result`, the layout
    of that one); None where a reshape wants the plain layout.

    [1, 12, 5, 5]{NHWC} to [1, 3, 4, 5, 5]: NHWC itself, and the axes 0, 3, 4, 1, 2.
    """
    if fmt.is_blocked or 0 in source:
        return None
    groups = list(reshape_groups(source, result))
    wanted: list[int] = []
    order = [axis for axis, size in enumerate(result) if size == 1]
    present = [axis for axis in fmt.order if source[axis] > 1]
    for axis in present:
        if axis not in wanted:
            old, new = next(group for group in groups if axis in group[0])
            wanted += old
            order += new
    given = fmt
    if wanted != present:
        ones = [axis for axis, size in enumerate(source) if size == 1]
        given = Format(plain(len(source)).axes, (*ones, *wanted), (0,) * len(source))
    return given, Format(plain(len(result)).axes, tuple(order), (0,) * len(result))
