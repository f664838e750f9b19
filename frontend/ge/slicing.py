"""Parts of a tensor by TensorFlow's bit masks, and borders around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...graph_ir.ir.graph import GraphTensor, Op
from ..correspondence.compositions.movement import index_basic
from ..correspondence.reading import Pair
from ..op_builder import Value
from .dump_builder import DumpBuilder
from .scope import NodeContext


def _read_slice(node: NodeContext, _: str) -> Value:
    """The bits of masks say which entries of begin, end and strides mean something else."""
    x, begin, end = node.tensor("x"), node.ints("begin"), node.ints("end")
    strides = node.ints("strides") if node.has("strides") else (1,) * len(begin)
    if not len(begin) == len(end) == len(strides):
        lengths = f"{len(begin)}, {len(end)} and {len(strides)}"
        raise node.rule("begin, end and strides must have one length", lengths)
    kinds = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    masks = {kind: node.attr_int(f"{kind}_mask") for kind in kinds}
    entries: list[Any] = []
    for i, (first, last, step) in enumerate(zip(begin, end, strides, strict=True)):
        bit = {kind: mask >> i & 1 for kind, mask in masks.items()}
        bounds = slice(None if bit["begin"] else first, None if bit["end"] else last, step)
        taken = None if bit["new_axis"] else first if bit["shrink_axis"] else bounds
        entries.append(... if bit["ellipsis"] else taken)
    if node.type == "StridedSliceV2" and node.has("axes"):
        rank = x.details.rank
        axes = [node.axis(axis, rank) for axis in node.ints("axes")]
        if len(axes) != len(begin) or len(set(axes)) != len(axes):
            raise node.rule("axes must be distinct, one for each begin", str(axes))
        given = dict(zip(axes, entries, strict=True))
        entries = [given.get(axis, slice(None)) for axis in range(rank)]
    return index_basic(node, x, entries)


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
    "constant": "constant", "reflect": "reflect", "REFLECT": "reflect", "edge": "edge", "circular": "wrap",
}  # fmt: skip


def _read_pad(node: NodeContext, _: str) -> Value:
    x = node.tensor("x")
    rank = x.details.rank
    given = node.ints("paddings")
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
