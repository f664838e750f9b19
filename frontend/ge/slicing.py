"""Parts of a tensor by TensorFlow's bit masks, and borders around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...graph_ir.ir.graph import GraphTensor, Op
from ..correspondence.reading import Pair
from ..op_builder import Value
from .dump_builder import DumpBuilder
from .scope import NodeContext


@dataclass(frozen=True)
class _Part:
    """The part of an axis selected by one entry of begin/end/strides; `drop`: the axis is removed."""

    start: int
    step: int
    size: int
    drop: bool = False


def _read_slice(node: NodeContext, _: str) -> Value:
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
    """The part selected of every axis, and the positions of new axes: resolves TensorFlow's bit masks."""
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


def _write_slice(builder: DumpBuilder, op: Op, _: str) -> None:
    starts, sizes = op.attr("starts"), op.attr("sizes")
    steps = op.attr("steps")
    inputs = builder.operands(op, "x")
    if all(step == 1 for step in steps):
        inputs["offsets"] = builder.const(np.array(starts, np.int64), op, "offsets")
        inputs["size"] = builder.const(np.array(sizes, np.int64), op, "size")
        builder.whole(op, "Slice", inputs)
        return
    ends = [start + step * size for start, step, size in zip(starts, steps, sizes, strict=True)]
    # An end before the first element would count from the back: the mask says "as far as it goes".
    mask = sum(
        1 << axis
        for axis, (end, size) in enumerate(zip(ends, sizes, strict=True))
        if end < 0 and size
    )
    for name, values in (("begin", starts), ("end", ends), ("strides", steps)):
        inputs[name] = builder.const(np.array(values, np.int64), op, name)
    builder.whole(op, "StridedSlice", inputs, end_mask=mask)


_MODES = {
    "constant": "constant",
    "reflect": "reflect",
    "REFLECT": "reflect",
    "edge": "edge",
    "circular": "wrap",
}


def _read_pad(node: NodeContext, _: str) -> Value:
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
    """Symmetric padding, which repeats the outermost element: concatenates each axis with reversed parts of itself."""
    for axis, (first, last) in enumerate(zip(before, after, strict=True)):
        size = x.details.plain_dims[axis]
        if not (0 <= first <= size and 0 <= last <= size):
            raise node.rule(f"paddings of axis {axis} must be 0 to {size}", f"{first} and {last}")
        parts = [node.sliced(x, axis, first - 1, first, -1)] if first else []
        parts.append(x)
        parts += [node.sliced(x, axis, size - 1, last, -1)] if last else []
        x = parts[0] if len(parts) == 1 else node.helper("concat", *parts, axis=axis)
    return x


def _write_pad(builder: DumpBuilder, op: Op, type_name: str) -> None:
    mode = op.attr("mode")
    pairs = zip(op.attr("before"), op.attr("after"), strict=True)
    inputs = builder.operands(op, "x")
    inputs["paddings"] = builder.const(
        np.array(list(pairs), np.int64).reshape(-1, 2), op, "paddings"
    )
    if mode == "constant":
        value = np.asarray(op.attr("value")).astype(op.inputs[0].details.dtype.numpy)
        inputs["constant_values"] = builder.const(value, op, "value")
    builder.whole(op, type_name, inputs, mode="circular" if mode == "wrap" else mode)


PAIRS = {"slice": Pair(_read_slice, _write_slice), "pad": Pair(_read_pad, _write_pad)}
"""What rows name after `by`."""
