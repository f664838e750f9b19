"""Ops that move or pick elements, and products, as ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from ...base.dtypes import S32, S64
from ...graph_ir.ir.graph import GraphTensor, Op
from ..correspondence.writing import InexpressibleError
from .export import ELEMENT_TYPES, Exporter

_BEFORE_ALL = np.iinfo(np.int64).min  # the end of a slice that runs backwards to the first element


def _identity(e: Exporter, op: Op) -> None:
    e.node(op, "Identity", e.values(op))


def _reshape(e: Exporter, op: Op) -> None:
    dims = op.outputs[0].details.plain_dims
    shape = e.constant(op, "shape", np.array(dims, np.int64))
    e.node(op, "Reshape", [*e.values(op), shape], allowzero=1 if 0 in dims else None)


def _broadcast(e: Exporter, op: Op) -> None:
    shape = np.array(op.outputs[0].details.plain_dims, np.int64)
    e.node(op, "Expand", [*e.values(op), e.constant(op, "shape", shape)])


def _transpose(e: Exporter, op: Op) -> None:
    perm = cast(Any, op).perm
    # A scalar has no axes to list, and ONNX reverses them where none are listed.
    e.node(op, "Transpose", e.values(op), perm=perm or None)


def _concat(e: Exporter, op: Op) -> None:
    e.node(op, "Concat", e.values(op), axis=cast(Any, op).axis)


def _slice(e: Exporter, op: Op) -> None:
    starts, sizes = list(op.attrs["starts"]), op.attrs["sizes"]
    steps = list(op.attrs.get("steps") or (1,) * len(sizes))
    ends = []
    for axis, size in enumerate(sizes):
        if not size:
            starts[axis], steps[axis] = 0, 1
        end = starts[axis] + steps[axis] * size
        ends.append(end if end >= 0 else _BEFORE_ALL)
    lists = {"starts": starts, "ends": ends, "axes": range(len(sizes)), "steps": steps}
    constants = [e.constant(op, key, np.array(given, np.int64)) for key, given in lists.items()]
    e.node(op, "Slice" if sizes else "Identity", [*e.values(op), *(constants if sizes else ())])


def _pad(e: Exporter, op: Op) -> None:
    x = e.values(op)[0]
    mode, widths = cast(Any, op).mode, (*op.attrs["before"], *op.attrs["after"])
    inputs = [x, e.constant(op, "pads", np.array(widths, np.int64))]
    if mode == "constant":
        inputs.append(e.scalar(op, "value", cast(Any, op).value, e.dtype(x)))
    e.node(op, "Pad", inputs, mode=mode)


def _indices(e: Exporter, op: Op, tensor: GraphTensor) -> str:
    """Indices in a type ONNX takes."""
    value = e.operand(tensor)
    if tensor.details.dtype in (S32, S64):
        return value
    return e.part(op, "Cast", [value], S64, to=ELEMENT_TYPES[S64])


def _gather(op_type: str) -> Callable[[Exporter, Op], None]:
    def emit(e: Exporter, op: Op) -> None:
        x, indices = op.inputs
        e.node(op, op_type, [e.operand(x), _indices(e, op, indices)], axis=cast(Any, op).axis)

    return emit


def _scatter_elements(e: Exporter, op: Op) -> None:
    data, indices, updates = op.inputs
    inputs = [e.operand(data), _indices(e, op, indices), e.operand(updates)]
    scatter = cast(Any, op)
    e.node(op, "ScatterElements", inputs, axis=scatter.axis, reduction=scatter.reduction)


def _update_slice(e: Exporter, op: Op) -> None:
    x, update, *starts = e.values(op)
    whole, part = (tensor.details.plain_dims for tensor in op.inputs[:2])
    moved = [
        (axis, start)
        for axis, start in zip(op.attrs["axes"], starts, strict=True)
        if part[axis] != whole[axis]
    ]
    if len(moved) != 1:
        if moved:
            raise InexpressibleError("update_slice along several axes")
        e.node(op, "Identity", [update])
        return
    ((axis, start),) = moved
    begin = e.part(op, "Max", [start, e.scalar(op, "first", 0, S64)])
    begin = e.part(op, "Min", [begin, e.scalar(op, "last", whole[axis] - part[axis], S64)])
    places = np.arange(part[axis]).reshape([-1 if a == axis else 1 for a in range(len(part))])
    at = e.part(op, "Add", [e.constant(op, "places", places), begin])
    at = e.part(op, "Expand", [at, e.constant(op, "sizes", np.array(part, np.int64))])
    e.node(op, "ScatterElements", [x, at, update], axis=axis)


def _top_k(e: Exporter, op: Op) -> None:
    k = e.constant(op, "k", np.array([op.attrs["k"]], np.int64))
    largest = int(bool(op.attrs.get("largest", True)))
    axis = op.attrs.get("axis", -1)
    e.node(op, "TopK", [*e.values(op), k], axis=axis, largest=largest, sorted=1)


def _matmul(e: Exporter, op: Op) -> None:
    product, values = cast(Any, op), e.values(op)
    turned = [product.transpose_a, product.transpose_b]
    if any(turned) and all(x.details.rank == 2 for x in op.inputs):
        e.node(op, "Gemm", values, transA=int(turned[0]), transB=int(turned[1]))
        return
    for i, x in enumerate(op.inputs):
        if turned[i]:
            rank = x.details.rank
            perm = (*range(rank - 2), rank - 1, rank - 2)
            values[i] = e.part(op, "Transpose", [values[i]], perm=perm)
    e.node(op, "MatMul", values)


def _reorder(e: Exporter, op: Op) -> None:
    if not op.outputs[0].details.format.is_plain:
        raise InexpressibleError("reorder to a blocked layout")
    _identity(e, op)


EXPORTERS: dict[str, Callable[[Exporter, Op], None]] = {
    "reorder": _reorder,
    "reshape": _reshape,
    "broadcast": _broadcast,
    "transpose": _transpose,
    "concat": _concat,
    "slice": _slice,
    "pad": _pad,
    "gather": _gather("Gather"),
    "gather_elements": _gather("GatherElements"),
    "scatter_elements": _scatter_elements,
    "top_k": _top_k,
    "update_slice": _update_slice,
    "matmul_core": _matmul,
}
