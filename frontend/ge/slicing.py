"""Parts of a tensor, and borders around it: Slice, StridedSlice, Split, Unpack, Reverse, Pad."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...graph_ir.ir.graph import GraphTensor
from ..op_builder import Value
from .scope import Handler, NodeContext


def _slice(node: NodeContext) -> Value:
    x = node.tensor("x")
    dims = x.details.plain_dims
    if node.type == "Slice":
        starts, sizes = node.ints("offsets"), node.ints("size")
    else:
        starts, sizes = node.attr_ints("offsets"), node.attr_ints("size")
    if not len(starts) == len(sizes) == len(dims):
        counts = f"{list(starts)} and {list(sizes)}"
        raise node.rule(
            f"offsets and size must have one entry for each of {len(dims)} axes", counts
        )
    sizes = tuple(
        dim - start if size == -1 else size
        for dim, start, size in zip(dims, starts, sizes, strict=True)
    )
    return node.make("slice", x, starts=starts, steps=(1,) * len(dims), sizes=sizes)


@dataclass(frozen=True)
class _Part:
    """What one entry of begin/end/strides takes of its axis; `drop`: the axis goes away."""

    start: int
    step: int
    size: int
    drop: bool = False


def _strided_slice(node: NodeContext) -> Value:
    x = node.tensor("x")
    begin, end = list(node.ints("begin")), list(node.ints("end"))
    strides = list(node.ints("strides")) if node.has("strides") else [1] * len(begin)
    if not len(begin) == len(end) == len(strides):
        lengths = f"{len(begin)}, {len(end)} and {len(strides)}"
        raise node.rule("begin, end and strides must have one length", lengths)
    if node.type == "StridedSliceV2" and node.has("axes"):
        begin, end, strides = _all_axes(node, x.details.plain_dims, begin, end, strides)
    parts, new_axes = _parts(node, x.details.plain_dims, begin, end, strides)
    taken = node.make(
        "slice",
        x,
        starts=tuple(part.start for part in parts),
        steps=tuple(part.step for part in parts),
        sizes=tuple(part.size for part in parts),
    )
    shape: list[int] = []
    for position in range(len(parts) + 1):
        shape.extend([1] * new_axes.count(position))
        if position < len(parts) and not parts[position].drop:
            shape.append(parts[position].size)
    return node.reshaped(taken, shape)


def _all_axes(
    node: NodeContext, dims: Sequence[int], begin: list[int], end: list[int], strides: list[int]
) -> tuple[list[int], list[int], list[int]]:
    """begin, end and strides of all axes where they are given for some."""
    axes = [node.axis(axis, len(dims)) for axis in node.ints("axes")]
    if len(axes) != len(begin) or len(set(axes)) != len(axes):
        raise node.rule("axes must be distinct, one for each begin", str(axes))
    begins, ends, steps = [0] * len(dims), list(dims), [1] * len(dims)
    for axis, b, e, s in zip(axes, begin, end, strides, strict=True):
        begins[axis], ends[axis], steps[axis] = b, e, s
    return begins, ends, steps


def _parts(
    node: NodeContext,
    dims: Sequence[int],
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int],
) -> tuple[list[_Part], list[int]]:
    """What is taken of every axis, and before which axes a new one is put: TensorFlow's bit masks resolved."""
    masks = {
        key: node.attr_int(f"{key}_mask")
        for key in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    bits = [{key: bool(mask >> i & 1) for key, mask in masks.items()} for i in range(len(begin))]
    consuming = sum(not bit["ellipsis"] and not bit["new_axis"] for bit in bits)
    if consuming > len(dims) or sum(bit["ellipsis"] for bit in bits) > 1:
        raise node.rule(
            f"begin must fit {len(dims)} axes with one ellipsis at most", str(len(begin))
        )
    parts: list[_Part] = []
    new_axes: list[int] = []
    for bit, first, last, step in zip(bits, begin, end, strides, strict=True):
        if bit["ellipsis"]:
            rest = len(dims) - consuming
            parts.extend(_Part(0, 1, dim) for dim in dims[len(parts) : len(parts) + rest])
        elif bit["new_axis"]:
            new_axes.append(len(parts))
        else:
            parts.append(_part(node, dims[len(parts)], first, last, step, bit))
    parts.extend(_Part(0, 1, dim) for dim in dims[len(parts) :])
    return parts, new_axes


def _part(
    node: NodeContext, dim: int, first: int, last: int, step: int, bit: dict[str, bool]
) -> _Part:
    if bit["shrink_axis"]:
        start = first + dim if first < 0 else first
        if not 0 <= start < dim:
            raise node.rule(f"the position must be in [{-dim}, {dim})", str(first))
        return _Part(start, 1, 1, drop=True)
    if step == 0:
        raise node.rule("strides must not be 0", "0")
    bounds = slice(None if bit["begin"] else first, None if bit["end"] else last, step)
    taken = range(*bounds.indices(dim))
    return _Part(taken.start, step, len(taken)) if taken else _Part(0, 1, 0)


def _split(node: NodeContext) -> list[Value]:
    x = node.tensor("x")
    axis = node.integer("split_dim") if node.has("split_dim") else node.attr_int("split_dim")
    axis = node.axis(axis, x.details.rank)
    count, dim = node.attr_int("num_split"), x.details.plain_dims[axis]
    if node.type in ("Split", "SplitD"):
        if count < 1 or dim % count:
            raise node.rule(f"num_split must divide {dim}", str(count))
        sizes = [dim // count] * count
    else:
        given = (
            node.ints("size_splits") if node.has("size_splits") else node.attr_ints("size_splits")
        )
        rest = dim - sum(size for size in given if size != -1)
        sizes = [rest if size == -1 else size for size in given]
        if given.count(-1) > 1 or sum(sizes) != dim or min(sizes, default=0) < 0:
            raise node.rule(f"size_splits must add up to {dim}", str(list(given)))
    return list(_pieces(node, x, axis, sizes))


def _pieces(
    node: NodeContext, x: GraphTensor, axis: int, sizes: Sequence[int]
) -> list[GraphTensor]:
    pieces, start = [], 0
    for size in sizes:
        pieces.append(node.sliced(x, axis, start, size))
        start += size
    return pieces


def _unpack(node: NodeContext) -> list[Value]:
    x = node.tensor("x")
    axis = node.axis(node.attr_int("axis"), x.details.rank)
    dims = x.details.plain_dims
    if node.attr_int("num") != dims[axis]:
        raise node.rule(
            f"num must be the size {dims[axis]} of axis {axis}", str(node.attr_int("num"))
        )
    pieces = _pieces(node, x, axis, [1] * dims[axis])
    return [node.reshaped(piece, (*dims[:axis], *dims[axis + 1 :])) for piece in pieces]


def _reverse(node: NodeContext) -> Value:
    x = node.tensor("x")
    for axis in sorted({node.axis(axis, x.details.rank) for axis in node.ints("axis")}):
        size = x.details.plain_dims[axis]
        if size > 1:
            x = node.sliced(x, axis, size - 1, size, -1)
    return x


_MODES = {
    "constant": "constant",
    "reflect": "reflect",
    "REFLECT": "reflect",
    "edge": "edge",
    "circular": "wrap",
}


def _pad(node: NodeContext) -> Value:
    x = node.tensor("x")
    rank = x.details.rank
    given = node.ints("paddings") if node.has("paddings") else node.attr_ints("paddings")
    if len(given) != 2 * rank:
        raise node.rule(f"paddings must have two numbers for each of {rank} axes", str(list(given)))
    by_axis = node.type != "PadV3" or node.attr_bool("paddings_contiguous")
    before, after = (given[::2], given[1::2]) if by_axis else (given[:rank], given[rank:])
    mode = node.attr_text("mode") if node.type in ("PadV3", "MirrorPad") else "constant"
    if mode == "SYMMETRIC":
        return _mirrored(node, x, before, after)
    if mode not in _MODES:
        raise node.unsupported(f"mode '{mode}'")
    value: int | float | bool = 0
    if node.has("constant_values"):
        constant = node.array("constant_values")
        if constant.size != 1:
            raise node.rule("constant_values must have one element", str(constant.shape))
        value = constant.reshape(-1)[0].item()
    return node.make("pad", x, before=before, after=after, mode=_MODES[mode], value=value)


def _mirrored(
    node: NodeContext, x: GraphTensor, before: Sequence[int], after: Sequence[int]
) -> Value:
    """Borders that repeat the outermost element: each axis between parts of itself, turned round."""
    for axis, (first, last) in enumerate(zip(before, after, strict=True)):
        size = x.details.plain_dims[axis]
        if not (0 <= first <= size and 0 <= last <= size):
            raise node.rule(f"paddings of axis {axis} must be 0 to {size}", f"{first} and {last}")
        parts = [node.sliced(x, axis, first - 1, first, -1)] if first else []
        parts.append(x)
        parts += [node.sliced(x, axis, size - 1, last, -1)] if last else []
        x = parts[0] if len(parts) == 1 else node.helper("concat", *parts, axis=axis)
    return x


HANDLERS: dict[str, Handler] = {
    "Slice": _slice, "SliceD": _slice, "StridedSlice": _strided_slice, "StridedSliceV2": _strided_slice,
    "Split": _split, "SplitD": _split, "SplitV": _split, "SplitVD": _split, "Unpack": _unpack, "ReverseV2": _reverse,
    "Pad": _pad, "PadV2": _pad, "PadV3": _pad, "PadD": _pad, "MirrorPad": _pad,
}  # fmt: skip
