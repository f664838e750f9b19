"""Shapes, copies, parts and borders: what reshapes, slices, concats and broadcasts are called elsewhere."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from ....base.dims import (
    MOST,
    Dim,
    Limit,
    NeedsLimit,
    Size,
    UndecidedSize,
    bounds,
    ceil_quotient,
    floor_quotient,
    is_known,
    maximum,
    minimum,
)
from ....base.dtypes import S64
from ....base.records import dataclass
from ....base.size_limits import at_least
from ....base.size_queries import lone_symbol, sizes_text
from ....graph_ir.ir.graph import GraphTensor as Tensor
from ...op_builder import OpBuilder


def with_rest(
    node: OpBuilder, old: Sequence[int], shape: Sequence[int], zero_copies: bool
) -> tuple[int, ...]:
    """Return a wanted shape with -1 (inferred from the number of elements) and, if `zero_copies`, 0 (the old
    size) replaced."""
    sizes, wanted = list(shape), f"{sizes_text(old)} to {sizes_text(shape)}"
    if any(one < -1 for one in sizes) or sizes.count(-1) > 1:
        raise node.rule("sizes must be 0 or more, and at most one may be -1", str(sizes))
    for axis, size in enumerate(sizes):
        if size == 0 and zero_copies:
            if axis >= len(old):
                raise node.rule("a size of 0 copies the input's, which must have that axis", wanted)
            sizes[axis] = old[axis]
    if -1 in sizes:
        rest, count = math.prod(size for size in sizes if size != -1), math.prod(old)
        if rest == 0 or not at_least(rest, 1) or count % rest:
            raise node.rule("the other sizes must divide the number of elements", wanted)
        sizes[sizes.index(-1)] = count // rest
    return tuple(sizes)


def reshape(node: OpBuilder, x: Tensor, shape: tuple[int, ...], allowzero: bool = False) -> Tensor:
    """X in another shape; -1 takes the rest, and 0 the size of the same axis unless `allowzero`."""
    dims = x.details.plain_dims
    try:
        sizes = with_rest(node, dims, shape, not allowzero)
    except NeedsLimit:
        raise
    except UndecidedSize:  # divisibility by the other sizes is checked at run time
        total, others = math.prod(dims), [size for size in shape if size != -1]
        if not is_known(*others) or math.prod(others) < 1:
            raise
        rest: Any = floor_quotient(total, math.prod(others))
        sizes = tuple(rest if size == -1 else size for size in shape)
        both = node.helper("dynamic_sizes", values=(total, math.prod(sizes)))
        fits = node.helper("eq", *(node.sliced(both, 0, i, 1) for i in (0, 1)))
        node.require(
            fits, f"the other sizes must divide the number of elements: {sizes_text(shape)}"
        )
        x = node.helper("counted_rows", node.reshaped(x, (total,)), size=(math.prod(sizes),))
    return node.make("reshape", x, shape=sizes)


def transpose(node: OpBuilder, x: Tensor, perm: tuple[int, ...] | None) -> Tensor:
    """X with axis perm[i], maybe counted from the back, as axis i; without a permutation in reverse order."""
    rank = x.details.rank
    given = (node.axis(axis, rank) for axis in perm) if perm else range(rank)[::-1]
    return node.make("transpose", x, perm=tuple(given))


def flatten(node: OpBuilder, x: Tensor, split: int = 1) -> Tensor:
    """A matrix: the axes before `split` joined, and those from it on."""
    dims = x.details.plain_dims
    split = node.axis(split, len(dims), inclusive=True)
    return node.make("reshape", x, shape=(math.prod(dims[:split]), math.prod(dims[split:])))


def flatten_range(node: OpBuilder, x: Tensor, first: int = 0, last: int = -1) -> Tensor:
    """The axes `first` to `last` (included) joined; a scalar becomes a vector."""
    dims = x.details.plain_dims
    first, last = (node.axis(axis, max(len(dims), 1)) for axis in (first, last))
    if first > last:
        raise node.rule("the first axis must not be after the last", f"{first} and {last}")
    merged = math.prod(dims[first : last + 1])
    return node.make("reshape", x, shape=(*dims[:first], merged, *dims[last + 1 :]))


def squeeze(
    node: OpBuilder, x: Tensor, axes: tuple[int, ...] | None = None, strict: bool = True
) -> Tensor:
    """X without axes of size 1: those given, or all where none are. Unless `strict` axes of other sizes stay."""
    dims = x.details.plain_dims
    gone = {axis for axis, dim in enumerate(dims) if dim == 1}
    if strict and not gone.issuperset(axes or ()):
        raise node.rule(
            "squeezed axes must have size 1", f"axes {sorted(axes or ())} of {x.details}"
        )
    gone &= set(axes) if axes else gone
    return node.make(
        "reshape", x, shape=tuple(d for axis, d in enumerate(dims) if axis not in gone)
    )


def unsqueeze(node: OpBuilder, x: Tensor, at: tuple[int, ...]) -> Tensor:
    """X with axes of size 1 that have these positions in the result."""
    rank = x.details.rank + len(at)
    axes = {node.axis(axis, rank) for axis in at}
    if len(axes) != len(at):
        raise node.rule("axes must be distinct", str(list(at)))
    rest = iter(x.details.plain_dims)
    return node.make("reshape", x, shape=tuple(1 if a in axes else next(rest) for a in range(rank)))


def insert_axes(node: OpBuilder, x: Tensor, at: int, count: int = 1) -> Tensor:
    """X with `count` axes of size 1 before one of its axes, or after the last."""
    dims, axis = x.details.plain_dims, node.axis(at, x.details.rank, inclusive=True)
    return node.make("reshape", x, shape=(*dims[:axis], *(1,) * count, *dims[axis:]))


def broadcast_to(node: OpBuilder, x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """X repeated to a shape, in which -1 keeps a size; axes may be added in front."""
    dims = x.details.plain_dims
    added, given = len(shape) - len(dims), f"{sizes_text(shape)} for {sizes_text(dims)}"
    if added < 0 or -1 in shape[:added]:
        raise node.rule("sizes must cover every axis, new ones with a number", given)
    pairs = zip((*[1] * added, *dims), shape, strict=True)
    wanted = tuple(d if size == -1 else size for d, size in pairs)
    return x if wanted == dims else node.make("broadcast", x, shape=wanted)


def tile(node: OpBuilder, x: Tensor, repeats: tuple[int, ...]) -> Tensor:
    """Repeat x along each axis by a count; x gets leading axes if there are more counts."""
    rank = max(len(repeats), x.details.rank)
    dims = (1,) * (rank - x.details.rank) + x.details.plain_dims
    if len(repeats) < rank or any(one < 0 for one in repeats):
        raise node.rule(
            "repeats must be one count per axis", f"{list(repeats)} for {sizes_text(dims)}"
        )
    # [d0, d1] -> [1, d0, 1, d1] -> [r0, d0, r1, d1] -> [r0 * d0, r1 * d1]
    apart = node.reshaped(x, [n for dim in dims for n in (1, dim)])
    pairs = list(zip(repeats, dims, strict=True))
    copies = node.make("broadcast", apart, shape=tuple(n for pair in pairs for n in pair))
    return node.reshaped(copies, [count * dim for count, dim in pairs])


def tile_last(node: OpBuilder, x: Tensor, repeats: tuple[int, ...]) -> Tensor:
    """Repeat x like `tile`; missing leading counts are 1."""
    return tile(node, x, (*(1,) * (x.details.rank - len(repeats)), *repeats))


def repeat_each(node: OpBuilder, x: Tensor, repeats: int, axis: int | None = None) -> Tensor:
    """Each element of an axis, or of all of x in order, `repeats` times in a row."""
    if repeats < 0:
        raise node.rule("repeats must not be negative", str(repeats))
    if axis is None:
        return repeat_each(node, node.reshaped(x, (x.details.elements,)), repeats, 0)
    dims = x.details.plain_dims
    apart = node.reshaped(x, (*dims[: axis + 1], 1, *dims[axis + 1 :]))
    copies = node.make("broadcast", apart, shape=(*dims[: axis + 1], repeats, *dims[axis + 1 :]))
    return node.reshaped(copies, (*dims[:axis], dims[axis] * repeats, *dims[axis + 1 :]))


def stack(node: OpBuilder, *tensors: Tensor, at: int = 0) -> Tensor:
    """Tensors of one shape along a new axis at this position."""
    dims = tensors[0].details.plain_dims
    axis = node.axis(at, len(dims) + 1)
    if any(x.details.plain_dims != dims for x in tensors):
        shapes = ", ".join(sizes_text(x.details.plain_dims) for x in tensors)
        raise node.rule("inputs must have one shape", shapes)
    parts = [node.reshaped(x, (*dims[:axis], 1, *dims[axis:])) for x in tensors]
    return parts[0] if len(parts) == 1 else node.make("concat", *parts, axis=axis)


def bordered(
    node: OpBuilder, x: Tensor, before: Sequence[Size], after: Sequence[Size], **attrs: Any
) -> Tensor:
    """x padded. Negative widths crop before a border is wrapped, as in PyTorch and ONNX Runtime; each run checks that a
    reflected border of dynamic width fits."""
    sides, dims = (tuple(before), tuple(after)), x.details.plain_dims
    if attrs["mode"] == "wrap":
        added = [tuple(0 if bounds(n)[1] < 0 else n for n in side) for side in sides]
        if tuple(added) != sides:
            crops = [
                tuple(n - m for n, m in zip(*both, strict=True))
                for both in zip(sides, added, strict=True)
            ]
            x, sides = node.helper("pad", x, before=crops[0], after=crops[1]), (added[0], added[1])
    for dim, width in (*zip(dims, before, strict=True), *zip(dims, after, strict=True)):
        if attrs["mode"] == "reflect" and isinstance(width, Dim) and bounds(dim - width)[0] < 1:
            kept = node.helper("dynamic_sizes", values=(dim - width,))
            fits = node.helper("gt", kept, node.constant(0, S64))
            node.require(
                fits, f"a reflected border of {width} elements must be narrower than {dim}"
            )
    return node.make("pad", x, before=sides[0], after=sides[1], **attrs)


def split(node: OpBuilder, x: Tensor, axis: int, sizes: Sequence[int]) -> list[Tensor]:
    """Consecutive parts of an axis; their sizes must add up to its own."""
    total = x.details.plain_dims[axis]
    if any(one < 0 for one in sizes) or sum(sizes) != total:
        raise node.rule(f"the sizes of parts must add up to {total}", str(list(sizes)))
    starts = itertools.accumulate(sizes[:-1], initial=0)
    return [node.sliced(x, axis, start, size) for start, size in zip(starts, sizes, strict=True)]


def split_evenly(node: OpBuilder, x: Tensor, axis: int, count: int) -> list[Tensor]:
    """`count` equal parts of an axis."""
    size = x.details.plain_dims[axis]
    if count < 1 or size % count:
        raise node.rule(f"the number of parts must divide {size}", str(count))
    return split(node, x, axis, [size // count] * count)


def split_sizes(node: OpBuilder, x: Tensor, axis: int, sizes: tuple[int, ...]) -> list[Tensor]:
    """Parts of an axis of the given sizes, one of which may be -1: the rest."""
    rest = x.details.plain_dims[axis] - sum(size for size in sizes if size != -1)
    return split(node, x, axis, [rest if size == -1 else size for size in sizes])


def unstack(node: OpBuilder, x: Tensor, axis: int, count: int | None = None) -> list[Tensor]:
    """Every element of an axis, without the axis; `count` must be its size."""
    dims = x.details.plain_dims
    if count not in (None, dims[axis]):
        raise node.rule(
            f"the number of parts must be the size {dims[axis]} of axis {axis}", str(count)
        )
    parts = split(node, x, axis, [1] * dims[axis])
    return [node.reshaped(part, (*dims[:axis], *dims[axis + 1 :])) for part in parts]


def flip(node: OpBuilder, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """X with the order of the elements of these axes reversed."""
    back = {node.axis(axis, x.details.rank) for axis in axes}
    whole = [
        Stretch(size - 1, size, -1) if axis in back else Stretch(0, size)
        for axis, size in enumerate(x.details.plain_dims)
    ]
    return slice_ranges(node, x, whole)


@dataclass(frozen=True)
class Stretch:
    """`size` neighboring elements of an axis; these numbers may be dynamic sizes."""

    start: Size
    size: Size
    step: int = 1


def slice_ranges(node: OpBuilder, x: Tensor, taken: Sequence[range | Stretch]) -> Tensor:
    """The elements of each axis that a range says; x itself where that is all of it."""
    parts = [stretch(one) for one in taken]
    if parts == [Stretch(0, size) for size in x.details.plain_dims]:
        return x
    return node.make(
        "slice",
        x,
        starts=tuple(part.start for part in parts),
        steps=tuple(part.step for part in parts),
        sizes=tuple(part.size for part in parts),
    )


def stretch(taken: range | Stretch) -> Stretch:
    """The elements of a range as a `Stretch`."""
    if isinstance(taken, Stretch):
        return taken
    return Stretch(taken.start, len(taken), taken.step) if taken else Stretch(0, 0)


def axis_slice(node: OpBuilder, begin: Size, end: Size, step: int, dim: Size) -> range | Stretch:
    """Python's slice of an axis. NeedsLimit where it depends on a dynamic size from which end a position counts."""
    if is_known(begin, end, dim):
        return range(*slice(begin, end, step).indices(dim))
    step = min(max(step, -MOST), MOST)  # a longer step also takes one element, and would overflow
    if step > 0:
        first, last = (_from_front(at, dim, dim) for at in (begin, end))
        return Stretch(first, ceil_quotient(maximum(last - first, 0), step), step)
    first, last = (_from_front(at, dim, dim - 1, -1) for at in (begin, end))
    return Stretch(first, ceil_quotient(maximum(first - last, 0), -step), step)


def _from_front(at: Size, dim: Size, last: Size, least: int = 0) -> Size:
    """A position counted from the front, from `least` to `last`."""
    is_from_back = bounds(at)[1] < 0 or not at_least(at, 0)
    return maximum(at + dim, least) if is_from_back else _cut(at, last)


def _cut(at: Size, dim: Size) -> Size:
    """The smaller. NeedsLimit where that is `at` for a size in a smaller range: the rows of a table of positions."""
    symbol = lone_symbol(at)
    if symbol and isinstance(dim, int) and symbol.least <= dim < symbol.most:
        message = f"whether {at} > {dim} is not known at compile time"
        raise NeedsLimit(message, symbol.name, Limit(most=dim))
    return dim if bounds(at)[0] >= MOST else minimum(at, dim)


def slice_axes(
    node: OpBuilder,
    x: Tensor,
    begins: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int],
    steps: Sequence[int],
    from_first: bool = False,
) -> Tensor:
    """Python's slices of the given axes, ends and negative positions cut to what there is.

    A backward slice that begins before all elements is empty, or begins at the first if `from_first`.
    """
    dims = x.details.plain_dims
    taken: list[range | Stretch] = [Stretch(0, size) for size in dims]
    if not len(begins) == len(ends) == len(axes) == len(steps):
        lengths = f"{len(begins)}, {len(ends)}, {len(axes)} and {len(steps)}"
        raise node.rule("starts, ends, axes and steps must have one length", lengths)
    if 0 in steps or len({node.axis(axis, len(dims)) for axis in axes}) != len(axes):
        raise node.rule("steps must not be 0 and axes be distinct", f"{list(steps)}, {list(axes)}")
    for begin, end, given, step in zip(begins, ends, axes, steps, strict=True):
        axis = node.axis(given, len(dims))
        if from_first and step < 0 and bounds(dims[axis])[0] > 0:
            begin = maximum(begin, -dims[axis])  # type: ignore[assignment]
        taken[axis] = axis_slice(node, begin, end, step, dims[axis])
    return slice_ranges(node, x, taken)


def index_basic(node: OpBuilder, x: Tensor, entries: Sequence[Any]) -> Tensor:
    """NumPy's `x[entries]`: slices, indices (whose axes go), None (a new axis) and at most one `...`."""
    dims = x.details.plain_dims
    named = [entry for entry in entries if entry is not None and entry is not ...]
    if len(named) > len(dims) or sum(entry is ... for entry in entries) > 1:
        rule = f"indices must fit {len(dims)} axes with one ellipsis at most"
        raise node.rule(rule, str(len(entries)))
    at = next((i for i, entry in enumerate(entries) if entry is ...), len(entries))
    rest = [slice(None)] * (len(dims) - len(named))
    taken: list[range] = []
    shape: list[int] = []
    for entry in (*entries[:at], *rest, *entries[at + 1 :]):
        dim = dims[len(taken)] if entry is not None else 0
        if entry is None:
            shape.append(1)
        elif isinstance(entry, slice):
            if entry.step == 0:
                raise node.rule("strides must not be 0", "0")
            taken.append(range(*entry.indices(dim)))
            shape.append(len(taken[-1]))
        elif not -dim <= entry < dim:
            raise node.rule(f"the index must be in [{-dim}, {dim})", str(entry))
        else:
            taken.append(range(entry % dim, entry % dim + 1))
    return node.reshaped(slice_ranges(node, x, taken), shape)


def slice_sizes(
    node: OpBuilder, x: Tensor, starts: tuple[int, ...], sizes: tuple[int, ...]
) -> Tensor:
    """`sizes` elements of each axis from `starts` on; -1 is all to the end."""
    dims = x.details.plain_dims
    if not len(starts) == len(sizes) == len(dims):
        values = f"{sizes_text(starts)} and {sizes_text(sizes)}"
        raise node.rule(
            f"starts and sizes must have one entry for each of {len(dims)} axes", values
        )
    entries = zip(dims, starts, sizes, strict=True)
    wanted = tuple(dim - start if size == -1 else size for dim, start, size in entries)
    return node.make("slice", x, starts=starts, steps=(1,) * len(dims), sizes=wanted)


def element_index(node: OpBuilder, index: int, size: Size) -> Size:
    """An index counted from the front; UserError outside an axis of that size, NeedsLimit where it may be."""
    if not at_least(size, index + 1 if index >= 0 else -index):
        raise node.rule(f"the index must be in [{-size}, {size})", str(index))
    return index if index >= 0 else index + size


def select_index(node: OpBuilder, x: Tensor, axis: int, index: int) -> Tensor:
    """One element of an axis, without the axis."""
    dims = x.details.plain_dims
    part = node.sliced(x, axis, element_index(node, index, dims[axis]), 1)
    return node.reshaped(part, (*dims[:axis], *dims[axis + 1 :]))


def depth_to_space(node: OpBuilder, x: Tensor, block: int, mode: str = "DCR") -> Tensor:
    """[..., C, H, W] with channels as blocks of the image: in DCR the block counts first, in CRD the channels."""
    *outer, c, h, w = _blocked(node, x, block, mode)
    if c % (block * block):
        raise node.rule(
            f"the input must be NCHW with C divisible by {block * block}", str(x.details)
        )
    inner, n = c // (block * block), len(outer)
    channels = (block, block, inner) if mode == "DCR" else (inner, block, block)
    moved = (2, 3, 0, 4, 1) if mode == "DCR" else (0, 3, 1, 4, 2)
    apart = node.reshaped(x, (*outer, *channels, h, w))
    y = node.make("transpose", apart, perm=(*range(n), *(n + i for i in moved)))
    return node.reshaped(y, (*outer, inner, h * block, w * block))


def space_to_depth(node: OpBuilder, x: Tensor, block: int, mode: str = "DCR") -> Tensor:
    """[..., C, H, W] with blocks of the image as channels: the reverse of `depth_to_space`."""
    *outer, c, h, w = _blocked(node, x, block, mode)
    if h % block or w % block:
        raise node.rule(f"the input must be NCHW with sizes divisible by {block}", str(x.details))
    n = len(outer)
    apart = node.reshaped(x, (*outer, c, h // block, block, w // block, block))
    moved = (2, 4, 0, 1, 3) if mode == "DCR" else (0, 2, 4, 1, 3)
    y = node.make("transpose", apart, perm=(*range(n), *(n + i for i in moved)))
    return node.reshaped(y, (*outer, c * block * block, h // block, w // block))


def _blocked(node: OpBuilder, x: Tensor, block: int, mode: str) -> tuple[int, ...]:
    if mode not in ("DCR", "CRD"):
        raise node.rule("mode must be DCR or CRD", f"'{mode}'")
    if x.details.rank < 3 or block < 1:
        raise node.rule(
            "the input must be an image and the block positive", f"{x.details}, {block}"
        )
    return x.details.plain_dims


def channel_shuffle(node: OpBuilder, x: Tensor, groups: int) -> Tensor:
    """The channels of [N, C, ...], read across groups."""
    n, c, *space = x.details.plain_dims
    if groups < 1 or c % groups:
        raise node.rule("channels must divide by groups", f"{c} and {groups}")
    apart = node.reshaped(x, (n, groups, c // groups, *space))
    moved = node.transposed(apart, (0, 2, 1, *range(3, 3 + len(space))))
    return node.reshaped(moved, x.details.plain_dims)
