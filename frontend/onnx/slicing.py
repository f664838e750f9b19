"""Nodes that take parts of a tensor or put a border around it: Slice, Split, Gather, Pad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..op_builder import Value
from .scope import Handler, NodeContext


def _slice(node: NodeContext) -> Value:
    x = node.tensor(0)
    dims = x.details.plain_dims
    begins, ends, axes, strides = _slice_arguments(node, len(dims))
    starts, steps, sizes = [0] * len(dims), [1] * len(dims), list(dims)
    seen = set()
    for begin, end, given, step in zip(begins, ends, axes, strides, strict=True):
        axis = node.axis(given, len(dims))
        if step == 0 or axis in seen:
            raise node.rule(
                "steps must not be 0 and axes be distinct", f"{list(strides)}, {list(axes)}"
            )
        seen.add(axis)
        taken = range(*slice(begin, end, step).indices(dims[axis]))
        starts[axis], steps[axis], sizes[axis] = (
            (taken.start, step, len(taken)) if taken else (0, 1, 0)
        )
    return node.make("slice", x, **_part(starts, sizes, steps))


def _part(
    starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int] | None = None
) -> dict[str, tuple[int, ...]]:
    steps = steps or [1] * len(starts)
    return {"starts": tuple(starts), "steps": tuple(steps), "sizes": tuple(sizes)}


def _slice_arguments(node: NodeContext, rank: int) -> tuple[tuple[int, ...], ...]:
    """Starts, ends, axes and steps, of one length."""
    axes: tuple[int, ...] | None
    if node.opset < 10:
        begins, ends = node.attr_ints("starts"), node.attr_ints("ends")
        if begins is None or ends is None:
            raise node.rule("attributes 'starts' and 'ends' must be given", f"{begins} and {ends}")
        axes, steps = node.attr_ints("axes"), None
    else:
        begins, ends = node.ints(1, "starts"), node.ints(2, "ends")
        axes = node.ints(3, "axes") if node.has(3) else None
        steps = node.ints(4, "steps") if node.has(4) else None
    axes = tuple(range(len(begins))) if axes is None else axes
    steps = (1,) * len(begins) if steps is None else steps
    if not len(begins) == len(ends) == len(axes) == len(steps):
        lengths = f"{len(begins)}, {len(ends)}, {len(axes)} and {len(steps)}"
        raise node.rule("starts, ends, axes and steps must have one length", lengths)
    return begins, ends, axes, steps


def _split(node: NodeContext) -> list[Value]:
    x = node.tensor(0)
    dims = x.details.plain_dims
    axis = node.axis(node.attr_int("axis"), len(dims))
    parts: list[Value] = []
    begin = 0
    for size in _split_sizes(node, dims[axis]):
        starts = [begin if i == axis else 0 for i in range(len(dims))]
        sizes = [size if i == axis else d for i, d in enumerate(dims)]
        parts.append(node.make("slice", x, **_part(starts, sizes)))
        begin += size
    return parts


def _split_sizes(node: NodeContext, total: int) -> tuple[int, ...]:
    count = len(node.node.output)
    if node.opset >= 13:
        sizes = node.ints(1, "split sizes") if node.has(1) else None
    else:
        sizes = node.attr_ints("split")
    if sizes is None:
        if node.opset >= 18 and node.given("num_outputs") and node.attr_int("num_outputs") != count:
            raise node.rule(
                f"num_outputs must be the {count} outputs", str(node.attr_int("num_outputs"))
            )
        each = -(-total // max(count, 1))
        if node.opset < 18 and each * count != total:
            raise node.rule(f"the axis must divide into {count} equal parts", f"size {total}")
        sizes = tuple(max(0, min(each, total - i * each)) for i in range(count))
    if len(sizes) != count or min(sizes, default=0) < 0 or sum(sizes) != total:
        raise node.rule(f"{count} sizes must add up to {total}", str(list(sizes)))
    return sizes


def _gather(node: NodeContext) -> Value:
    x = node.tensor(0)
    dims = x.details.plain_dims
    axis = node.axis(node.attr_int("axis"), len(dims))
    known = node.known(1)
    if known is None:
        return node.make("gather", x, node.tensor(1), axis=axis)
    if known.dtype.kind not in "iu":
        raise node.rule("indices must be integers", known.dtype.name)
    size = dims[axis]
    if known.size and not (-size <= known.min() and known.max() < size):
        raise node.rule(f"indices must be in [{-size}, {size})", f"{known.min()}..{known.max()}")
    if known.ndim:
        return node.make("gather", x, node.tensor(1), axis=axis)
    # One fixed index is a slice: no index to load at run time.
    starts = [int(known) % size if i == axis else 0 for i in range(len(dims))]
    row = node.make(
        "slice", x, **_part(starts, [1 if i == axis else d for i, d in enumerate(dims)])
    )
    return node.reshaped(row, dims[:axis] + dims[axis + 1 :])


def _pad(node: NodeContext) -> Value:
    x = node.tensor(0)
    rank = x.details.rank
    before, after = _pad_widths(node, rank)
    mode = node.attr_text("mode")
    attrs: dict[str, Any] = {"before": before, "after": after, "mode": mode}
    if mode == "constant":
        if node.opset < 11:
            attrs["value"] = node.attr_float("value")
        elif node.has(2):
            value = node.array(2, "a padding value")
            if value.size != 1:
                raise node.rule("the padding value must be a scalar", f"shape {list(value.shape)}")
            attrs["value"] = value.reshape(()).astype(object).item()
    return node.make("pad", x, **attrs)


def _pad_widths(node: NodeContext, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Elements to add before and after each axis; negative ones crop."""
    pads = node.ints(1, "pads") if node.opset >= 11 else node.attr_ints("pads")
    axes = tuple(range(rank))
    if node.opset >= 18 and node.has(3):
        axes = tuple(node.axis(axis, rank) for axis in node.ints(3, "axes"))
    if pads is None or len(pads) != 2 * len(axes):
        given = "none" if pads is None else str(list(pads))
        raise node.rule(f"pads must be {2 * len(axes)} numbers, two per axis", given)
    before, after = [0] * rank, [0] * rank
    for number, axis in enumerate(axes):
        before[axis], after[axis] = pads[number], pads[number + len(axes)]
    return tuple(before), tuple(after)


HANDLERS: dict[str, Handler] = {"Slice": _slice, "Split": _split, "Gather": _gather, "Pad": _pad}
