"""Reads and writes shapes, slices and padding that rows of the table cannot express."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np

from ...base.dims import Size, ceil_quotient, minimum
from ...base.dtypes import BOOL, S64
from ...graph_ir.ir.graph import GraphTensor, Op
from ...graph_ir.rewriting.run_sizes import run_sizes
from ..correspondence.compositions.indexing import dynamic_size, wrapped
from ..correspondence.compositions.movement import bordered, broadcast_to, slice_axes, split
from ..correspondence.compositions.run_time import (
    Border,
    end_of_slice,
    pad_from,
    pad_with,
    slice_from,
)
from ..correspondence.compositions.triangles import triangle, triangle_at
from ..correspondence.reading import Pair
from ..correspondence.writing import InexpressibleError
from ..op_builder import Value, like
from ..refusals import FOR_INFERENCE
from .export import Exporter, reshape_attrs
from .scope import Handler, NodeContext

_BEFORE_ALL = np.iinfo(np.int64).min  # the end of a slice that runs backwards to the first element


def _dropout(node: NodeContext) -> Value | list[Value]:
    if node.opset >= 12 and node.has(2):
        training = node.known(2)
        if training is None or training.any():
            raise node.unsupported("training mode", FOR_INFERENCE)
    x = node.tensor(0)
    if not node.wants(1):
        return x
    kept = node.helper("broadcast", node.constant(True, BOOL), shape=x.details.plain_dims)
    return [x, kept]


def _read_transpose(node: NodeContext, _: str) -> Value:
    x = node.tensor(0)
    perm = node.attr_ints("perm", None)
    return node.make(
        "transpose", x, perm=tuple(range(x.details.rank))[::-1] if perm is None else perm
    )


def _write_transpose(e: Exporter, op: Op, op_type: str) -> None:
    # A scalar has no axes to list, and ONNX reverses them where none are listed.
    e.node(op, op_type, e.values(op), perm=cast(Any, op).perm or None)


def _write_reshape(e: Exporter, op: Op, op_type: str) -> None:
    dims = op.outputs[0].details.plain_dims
    shape = e.constant(op, "shape", np.array(dims, np.int64))
    e.node(op, op_type, [*e.values(op), shape], **reshape_attrs(dims))


def _read_triangle(node: NodeContext, _: str) -> Value:
    if not node.has(1) or node.known(1) is not None:
        return triangle(node, node.tensor(0), **node.row_attributes())
    diagonal = node.converted(node.tensor(1), S64)
    return triangle_at(node, node.tensor(0), diagonal, node.attr_bool("upper"))


def _read_slice(node: NodeContext, _: str) -> Value:
    x = node.tensor(0)
    sizes = _moving_size(node, 1)
    if node.opset >= 10 and (sizes is not None or _needs_count(node)):
        return _slice_at(node, x, sizes)
    begins, ends, axes, steps = _slice_arguments(node, x.details.plain_dims)
    return slice_axes(node, x, begins, ends, axes, steps, from_first=True)


def _needs_count(node: NodeContext) -> bool:
    """Return whether a run counts the elements of a slice: axes, steps or bounds of a backward slice are data."""
    steps = node.known(4) if node.has(4) else np.array(1)
    first = 1 if steps is None or (steps < 0).any() else 3
    data = [i for i in range(first, node.count) if node.has(i) and node.known(i) is None]
    return node.may_count and any(
        i > 2 or run_sizes(node.graph, node.tensor(i), None) is None for i in data
    )


def _moving_size(node: NodeContext, first: int) -> tuple[int, ...] | None:
    """The declared shape of the result, where an operand from `first` on is not known and a run can be checked."""
    unknown = any(node.has(i) and node.known(i) is None for i in range(first, node.count))
    declared = node.scope.declared.get(node.node.output[0])
    return declared if unknown and node.scope.checks is not None else None


def _slice_at(node: NodeContext, x: GraphTensor, sizes: tuple[int, ...] | None) -> Value:
    """A slice from where a run says, of the sizes that the result is declared to have, or that a run counts."""
    known = node.known(3) if sizes is None and node.has(3) else None
    rank = x.details.rank
    axes = range(rank) if known is None else [node.axis(int(axis), rank) for axis in known]
    for axis in axes:
        start, end, step = (
            _on_axis(node, index, 3, axis, default)
            for index, default in ((1, 0), (2, x.details.plain_dims[axis]), (4, 1))
        )
        size = node.counted_name(0, axis) if sizes is None else sizes[axis]
        x = slice_from(node, x, axis, (start, end, step), size)
    return x


def _on_axis(
    node: NodeContext, index: int, axes: int, axis: int, default: Size, part: int = 0
) -> GraphTensor:
    """The number, s64[], of an operand for an axis; the operand `axes`, if given, says for which axes.

    Where the operand has several numbers per axis, all for the first axis before all for the second, it is `part`.
    """
    rank = node.details(0).rank
    if not node.has(index):
        return dynamic_size(node, default)
    count = node.details(axes).elements if node.has(axes) else rank
    numbers = node.reshaped(
        node.converted(node.tensor(index), S64), (node.details(index).elements,)
    )
    numbers = node.sliced(numbers, 0, part * count, count)
    if not node.has(axes):
        at: GraphTensor = node.constant(np.arange(count), S64)
    else:
        at = wrapped(node, node.reshaped(node.tensor(axes), (count,)), (rank,))
    full = broadcast_to(node, dynamic_size(node, default), (rank,))
    full = node.helper("scatter_elements", full, at, numbers, axis=0)
    return node.reshaped(node.sliced(full, 0, axis, 1), ())


def _slice_arguments(node: NodeContext, dims: Sequence[Size]) -> tuple[tuple[int, ...], ...]:
    """Starts, ends, axes and steps, of one length."""
    axes: tuple[int, ...] | None
    if node.opset < 10:
        begins, ends = node.attr_ints("starts", None), node.attr_ints("ends", None)
        if begins is None or ends is None:
            raise node.rule("attributes 'starts' and 'ends' must be given", f"{begins} and {ends}")
        axes, steps = node.attr_ints("axes", None), None
    else:
        axes = node.ints(3, "axes") if node.has(3) else tuple(range(node.details(1).elements))
        steps = node.ints(4, "steps") if node.has(4) else (1,) * len(axes)
        pairs = zip(axes, steps, strict=False)
        ends_of = [end_of_slice(node, dims[node.axis(a, len(dims))], step) for a, step in pairs]
        begins, ends = (node.ints(i, what, ends_of) for i, what in ((1, "starts"), (2, "ends")))
    axes = tuple(range(len(begins))) if axes is None else axes
    steps = (1,) * len(begins) if steps is None else steps
    return begins, ends, axes, steps


def _write_slice(e: Exporter, op: Op, _: str) -> None:
    starts, sizes = list(op.attr("starts")), op.attr("sizes")
    steps = list(op.attr("steps") or (1,) * len(sizes))
    ends = []
    for axis, size in enumerate(sizes):
        if not size:
            starts[axis], steps[axis] = 0, 1
        end = starts[axis] + steps[axis] * size
        ends.append(end if end >= 0 else _BEFORE_ALL)
    lists = {"starts": starts, "ends": ends, "axes": range(len(sizes)), "steps": steps}
    constants = [e.constant(op, key, np.array(given, np.int64)) for key, given in lists.items()]
    e.node(op, "Slice" if sizes else "Identity", [*e.values(op), *(constants if sizes else ())])


def _split(node: NodeContext) -> list[Value]:
    x = node.tensor(0)
    axis = node.axis(node.attr_int("axis"), x.details.rank)
    return list(split(node, x, axis, _split_sizes(node, x.details.plain_dims[axis])))


def _split_sizes(node: NodeContext, total: int) -> tuple[int, ...]:
    count = len(node.node.output)
    if node.opset >= 13:
        sizes = node.ints(1, "split sizes", sizes=True) if node.has(1) else None
    else:
        sizes = node.attr_ints("split", None)
    if sizes is None:
        if node.opset >= 18 and node.given("num_outputs") and node.attr_int("num_outputs") != count:
            raise node.rule(
                f"num_outputs must be the {count} outputs", str(node.attr_int("num_outputs"))
            )
        each = ceil_quotient(total, max(count, 1))
        if node.opset < 18 and each * count != total:
            raise node.rule(f"the axis must divide into {count} equal parts", f"size {total}")
        starts = [*(minimum(i * each, total) for i in range(count)), total]
        sizes = tuple(end - start for start, end in pairwise(starts))
    if len(sizes) != count or any(one < 0 for one in sizes) or sum(sizes) != total:
        raise node.rule(f"{count} sizes must add up to {total}", str(list(sizes)))
    return sizes


def _read_pad(node: NodeContext, _: str) -> Value:
    x = node.tensor(0)
    rank = x.details.rank
    mode = node.attr_text("mode")
    if node.opset >= 11 and node.known(1) is None and (sizes := _moving_size(node, 1)):
        return _pad_at(node, x, mode, sizes)
    before, after = _pad_widths(node, rank)
    attrs: dict[str, Any] = {"mode": mode}
    if mode == "constant":
        if node.opset < 11:
            attrs["value"] = node.attr_float("value")
        elif node.has(2) and node.known(2) is None:
            return pad_with(node, x, node.tensor(2), before, after)
        elif node.has(2):
            value = node.array(2, "a padding value")
            if value.size != 1:
                raise node.rule("the padding value must be a scalar", f"shape {list(value.shape)}")
            attrs["value"] = value.reshape(()).astype(object).item()
    return bordered(node, x, before, after, **attrs)


def _pad_at(node: NodeContext, x: GraphTensor, mode: str, sizes: tuple[int, ...]) -> Value:
    """Padding by widths that a run says, to the sizes that the result is declared to have."""
    value = node.reshaped(node.tensor(2), ()) if node.has(2) else like(node, 0, x)
    for axis, size in enumerate(sizes):
        widths = [_on_axis(node, 1, 3, axis, 0, part) for part in (0, 1)]
        border = Border(mode, widths[0], widths[1], value)
        x = pad_from(node, x, axis, border, size)
    return x


def _pad_widths(node: NodeContext, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Elements to add before and after each axis; negative ones crop."""
    pads = node.ints(1, "pads", sizes=True) if node.opset >= 11 else node.attr_ints("pads", None)
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


def _write_pad(e: Exporter, op: Op, op_type: str) -> None:
    x = e.values(op)[0]
    mode, widths = cast(Any, op).mode, np.array((*op.attr("before"), *op.attr("after")), np.int64)
    if mode != "constant" and widths.min(initial=0) < 0:  # crops last
        wider = e.constant(op, "pads", np.maximum(widths, 0))
        x = e.part(op, op_type, [x, wider], mode=mode)
        mode, widths = "constant", np.minimum(widths, 0)
    inputs = [x, e.constant(op, "pads", widths)]
    if mode == "constant":
        inputs.append(e.scalar(op, "value", cast(Any, op).value, e.dtype(x)))
    e.node(op, op_type, inputs, mode=mode)


def _write_reorder(e: Exporter, op: Op) -> None:
    if not op.outputs[0].details.format.is_plain:
        raise InexpressibleError("reorder to a blocked layout")
    e.node(op, "Identity", e.values(op))


PAIRS = {
    "triangle": Pair(_read_triangle),
    "reshape": Pair(None, _write_reshape),
    "transpose": Pair(_read_transpose, _write_transpose),
    "slice": Pair(_read_slice, _write_slice),
    "pad": Pair(_read_pad, _write_pad),
}

HANDLERS: dict[str, Handler] = {"Dropout": _dropout, "Split": _split}

EXPORTERS = {"reorder": _write_reorder}
