"""Reads and writes shapes, slices and padding that rows of the table cannot express."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from ...base.dtypes import BOOL
from ...graph_ir.ir.graph import Op
from ..correspondence.compositions.movement import slice_axes, split
from ..correspondence.reading import Pair
from ..correspondence.writing import InexpressibleError
from ..op_builder import Value
from .export import Exporter
from .scope import Handler, NodeContext

_BEFORE_ALL = np.iinfo(np.int64).min  # the end of a slice that runs backwards to the first element


def _dropout(node: NodeContext) -> Value | list[Value]:
    if node.opset >= 12 and node.has(2):
        training = node.known(2)
        if training is None or training.any():
            raise node.unsupported("training mode")
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
    e.node(op, op_type, [*e.values(op), shape], allowzero=1 if 0 in dims else None)


def _read_slice(node: NodeContext, _: str) -> Value:
    x = node.tensor(0)
    return slice_axes(node, x, *_slice_arguments(node, x.details.rank))


def _slice_arguments(node: NodeContext, rank: int) -> tuple[tuple[int, ...], ...]:
    """Starts, ends, axes and steps, of one length."""
    axes: tuple[int, ...] | None
    if node.opset < 10:
        begins, ends = node.attr_ints("starts", None), node.attr_ints("ends", None)
        if begins is None or ends is None:
            raise node.rule("attributes 'starts' and 'ends' must be given", f"{begins} and {ends}")
        axes, steps = node.attr_ints("axes", None), None
    else:
        begins, ends = node.ints(1, "starts"), node.ints(2, "ends")
        axes = node.ints(3, "axes") if node.has(3) else None
        steps = node.ints(4, "steps") if node.has(4) else None
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
        sizes = node.ints(1, "split sizes") if node.has(1) else None
    else:
        sizes = node.attr_ints("split", None)
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


def _read_pad(node: NodeContext, _: str) -> Value:
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
    pads = node.ints(1, "pads") if node.opset >= 11 else node.attr_ints("pads", None)
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
    mode, widths = cast(Any, op).mode, (*op.attr("before"), *op.attr("after"))
    inputs = [x, e.constant(op, "pads", np.array(widths, np.int64))]
    if mode == "constant":
        inputs.append(e.scalar(op, "value", cast(Any, op).value, e.dtype(x)))
    e.node(op, op_type, inputs, mode=mode)


def _write_reorder(e: Exporter, op: Op) -> None:
    if not op.outputs[0].details.format.is_plain:
        raise InexpressibleError("reorder to a blocked layout")
    e.node(op, "Identity", e.values(op))


PAIRS = {
    "reshape": Pair(None, _write_reshape),
    "transpose": Pair(_read_transpose, _write_transpose),
    "slice": Pair(_read_slice, _write_slice),
    "pad": Pair(_read_pad, _write_pad),
}
"""Functions that rows name after `by`."""

HANDLERS: dict[str, Handler] = {"Dropout": _dropout, "Split": _split}

EXPORTERS = {"reorder": _write_reorder}
